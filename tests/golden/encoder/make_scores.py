#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes tiny random rerankers with tokenizers of tests/golden/tokenizer, of the kinds of bge-reranker
(XLM-RoBERTa, a sigmoid) and of the cross-encoders for MS MARCO (BERT, token types, bare numbers), and
the scores that sentence-transformers' CrossEncoder gives pairs of texts with them.

    python3 tests/golden/encoder/make_scores.py
"""
import json
import pathlib
import shutil
import tempfile

import sentence_transformers
import torch
import transformers
from sentence_transformers import CrossEncoder
from tokenizers import Tokenizer
from transformers import (BertConfig, BertForSequenceClassification, PreTrainedTokenizerFast, XLMRobertaConfig,
                          XLMRobertaForSequenceClassification)

HERE = pathlib.Path(__file__).resolve().parent
LONG = "keeper of the light " * 30
QUERY = "Who keeps the old lighthouse?"
DOCUMENTS = ["The old lighthouse keeper's daughter", "", "Le phare était éteint; été", "灯台の光が海を照らす。", LONG,
             "ＦＵＬＬ width ﬁgures ① ½ …"]
PAIRS = [[QUERY, d] for d in DOCUMENTS] + [["", "keeper"], ["", ""], [LONG, LONG], [LONG, "keeper"]]
SIZES = dict(hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=61, num_labels=1)
BERT_TOKENS = dict(cls_token="[CLS]", sep_token="[SEP]", unk_token="[UNK]", pad_token="[PAD]", mask_token="[MASK]")
XLMR_TOKENS = dict(bos_token="<s>", eos_token="</s>", cls_token="<s>", sep_token="</s>", unk_token="<unk>", pad_token="<pad>", mask_token="<mask>")


def minilm(n):
    config = BertConfig(vocab_size=n, max_position_embeddings=64, **SIZES)
    config.sentence_transformers = {"activation_fn": "torch.nn.modules.linear.Identity", "version": "4.1.0"}
    return BertForSequenceClassification(config)


def bge(n):
    return XLMRobertaForSequenceClassification(XLMRobertaConfig(
        vocab_size=n, max_position_embeddings=66, type_vocab_size=1, layer_norm_eps=1e-5, **SIZES))


def template(*pieces):
    """As the models of these kinds have it; those of the tokenizers here say nothing of pairs."""
    return [{"Sequence" if name in "AB" else "SpecialToken": {"id": name, "type_id": kind}} for name, kind in pieces]


PAIR = {"bert": template(("[CLS]", 0), ("A", 0), ("[SEP]", 0), ("B", 1), ("[SEP]", 1)),
        "xlmr": template(("<s>", 0), ("A", 0), ("</s>", 0), ("</s>", 0), ("B", 0), ("</s>", 0))}
MODELS = {"minilm_rank": (minilm, "bert", BERT_TOKENS, 48, {"tokenizer_class": "BertTokenizer"}),
          "bge_rank": (bge, "xlmr", XLMR_TOKENS, 60, {"tokenizer_class": "XLMRobertaTokenizer"})}


def draw(model):
    torch.manual_seed(5)
    with torch.no_grad():
        for p in model.parameters():
            p.normal_(0, 0.3) if p.dim() > 1 else p.add_(torch.randn_like(p) * 0.2)


def make(name):
    build, tokens, special, length, said = MODELS[name]
    inputs = ["input_ids", "attention_mask"] + ["token_type_ids"] * (tokens == "bert")
    text = json.loads((HERE.parent / "tokenizer" / f"{tokens}.json").read_text(encoding="utf-8"))
    text["post_processor"]["pair"] = PAIR[tokens]
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=Tokenizer.from_str(json.dumps(text)),
                                        model_max_length=length, model_input_names=inputs, **special)
    model = build(len(tokenizer)).eval()
    draw(model)
    folder = HERE / name
    shutil.rmtree(folder, ignore_errors=True)
    model.save_pretrained(folder)
    with tempfile.TemporaryDirectory() as whole:
        model.save_pretrained(whole)
        tokenizer.save_pretrained(whole)
        scorer = CrossEncoder(whole, device="cpu")
        assert scorer.max_seq_length == length, scorer.max_seq_length
        scores = scorer.predict(PAIRS, batch_size=1, convert_to_numpy=True).tolist()
        n_tok = [len(tokenizer([a], [b], truncation=True, max_length=length)["input_ids"][0]) for a, b in PAIRS]
    config = json.loads((folder / "config.json").read_text())
    config.pop("transformers_version", None)
    (folder / "config.json").write_text(json.dumps(config, indent=1) + "\n")
    (folder / "tokenizer_config.json").write_text(json.dumps({**said, **special, "model_max_length": length}) + "\n")
    made_by = {"sentence-transformers": sentence_transformers.__version__, "transformers": transformers.__version__,
               "torch": torch.__version__.split("+")[0]}
    (HERE / f"{name}.scores.json").write_text(json.dumps({"made_by": made_by, "template": PAIR[tokens], "pairs": PAIRS, "scores": scores, "tokens": n_tok},
                                                         ensure_ascii=False) + "\n")
    print(name, scores)


if __name__ == "__main__":
    for each in MODELS:
        make(each)
