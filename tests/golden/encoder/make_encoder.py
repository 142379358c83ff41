#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes a tiny random model of the kind of bge-m3: XLM-RoBERTa with the tokenizer of
tests/golden/tokenizer/xlmr.json, the first row as the vector, normalised; and the vectors that
transformers computes of texts with it. Versions: tests/golden/requirements.txt.

    python3 tests/golden/encoder/make_encoder.py
"""
import json
import pathlib

import safetensors.torch
import torch
from transformers import PreTrainedTokenizerFast, XLMRobertaConfig, XLMRobertaModel

HERE = pathlib.Path(__file__).resolve().parent
TEXTS = ["The old lighthouse keeper's daughter", "", "   Le phare  était éteint;\nété ", "灯台の光が海を照らす。",
         "ＦＵＬＬ width ﬁgures ① ½ …", "Смотритель маяка зажёг огонь. المنارة تضيء البحر.", "😀 👨‍👩‍👧‍👦 \u200b\x01 e\u0301 ª\u0301",
         "a [MASK] b", "keeper " * 12]


def main():
    torch.manual_seed(5)
    tokenizer = PreTrainedTokenizerFast(tokenizer_file=str(HERE.parent / "tokenizer" / "xlmr.json"), bos_token="<s>", eos_token="</s>",
                                        unk_token="<unk>", pad_token="<pad>", cls_token="<s>", sep_token="</s>", mask_token="<mask>")
    folder = HERE / "bge_m3"
    (folder / "1_Pooling").mkdir(parents=True, exist_ok=True)
    model = XLMRobertaModel(XLMRobertaConfig(
        vocab_size=len(tokenizer), hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=61,
        max_position_embeddings=130, type_vocab_size=1, layer_norm_eps=1e-5), add_pooling_layer=False).eval()
    with torch.no_grad():
        for p in model.parameters():
            p.normal_(0, 0.3) if p.dim() > 1 else p.add_(torch.randn_like(p) * 0.2)
        model.embeddings.word_embeddings.weight[1] = 0
        model.embeddings.position_embeddings.weight[1] = 0
        vectors = []
        for text in TEXTS:
            ids = tokenizer(text)["input_ids"]
            row = model(torch.tensor([ids])).last_hidden_state[0, 0]
            vectors.append(torch.nn.functional.normalize(row, dim=0).tolist())
    safetensors.torch.save_file({n: p.contiguous() for n, p in model.state_dict().items() if p.is_floating_point()}, folder / "model.safetensors",
                                metadata={"format": "pt"})
    config = model.config.to_diff_dict()
    config.update(architectures=["XLMRobertaModel"], dtype="float32")
    (folder / "config.json").write_text(json.dumps(config, indent=1) + "\n")
    (folder / "modules.json").write_text(json.dumps([
        {"idx": i, "name": str(i), "path": path, "type": "sentence_transformers.models." + kind}
        for i, (path, kind) in enumerate([("", "Transformer"), ("1_Pooling", "Pooling"), ("2_Normalize", "Normalize")])], indent=1) + "\n")
    (folder / "1_Pooling" / "config.json").write_text(json.dumps({"word_embedding_dimension": 32, "pooling_mode_cls_token": True}) + "\n")
    (folder / "sentence_bert_config.json").write_text(json.dumps({"max_seq_length": 128, "do_lower_case": False}) + "\n")
    (folder / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "XLMRobertaTokenizer", "bos_token": "<s>", "eos_token": "</s>",
                                                              "unk_token": "<unk>", "pad_token": "<pad>"}) + "\n")
    (HERE / "bge_m3.vectors.json").write_text(json.dumps({"texts": TEXTS, "vectors": vectors}, ensure_ascii=False) + "\n")


main()
