#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes tiny random models that make numbers of texts, beside those of make_models.py, and dumps what
transformers computes with them: classifiers, with two texts in one input, and later encoders.

    python3 tests/golden/make_encoders.py [NAME...]

golden.json and golden.safetensors are those of make_models.py's encoders. Of classifiers `embedding`
is [n, labels], the bare numbers, and `first` says how many tokens of each text are of the first type
(0: all are). Versions stand in each golden.json.
"""
import json
import sys

import safetensors.torch
import torch
from transformers import (BertConfig, BertForSequenceClassification, Gemma3TextConfig,
                          Gemma3TextModel, ModernBertConfig,
                          ModernBertForSequenceClassification, ModernBertModel, NomicBertConfig, NomicBertModel,
                          Qwen3Config,
                          Qwen3ForSequenceClassification, XLMRobertaConfig,
                          XLMRobertaForSequenceClassification)

from make_models import OUT, draw, ids, qwen, save_model, save_pooling, versions

SIZES = dict(vocab_size=179, hidden_size=48, num_hidden_layers=2, num_attention_heads=4,
             intermediate_size=95, max_position_embeddings=40, hidden_dropout_prob=0.0,
             attention_probs_dropout_prob=0.0)
LABELS = {0: "no", 1: "yes", 2: "maybe"}
ACTIVATION = {"activation_fn": "torch.nn.modules.linear.Identity", "version": "4.1.0"}


def bert_rank():
    config = BertConfig(**SIZES, num_labels=1)
    config.sentence_transformers = ACTIVATION
    return BertForSequenceClassification, config


def xlmr_label():
    return XLMRobertaForSequenceClassification, XLMRobertaConfig(
        **SIZES, type_vocab_size=1, layer_norm_eps=1e-5, id2label=LABELS,
        label2id={v: k for k, v in LABELS.items()})


def qwen3_rank():
    cls, config = qwen(Qwen3ForSequenceClassification, Qwen3Config, head_dim=16, num_labels=1)
    config.pad_token_id = 0
    return cls, config


def modernbert(cls, **kw):
    sizes = dict(vocab_size=179, hidden_size=48, num_hidden_layers=4, num_attention_heads=4,
                 intermediate_size=66, max_position_embeddings=40, local_attention=10,
                 global_attn_every_n_layers=3, pad_token_id=0, bos_token_id=1, eos_token_id=2,
                 cls_token_id=1, sep_token_id=2)
    return cls, ModernBertConfig(**(sizes | kw))


CLASSIFIERS = {
    "bert_rank": bert_rank, "xlmr_label": xlmr_label, "qwen3_rank": qwen3_rank,
    "modernbert_rank": lambda: modernbert(ModernBertForSequenceClassification, num_labels=1,
                                          classifier_pooling="mean"),
    "modernbert_label": lambda: modernbert(
        ModernBertForSequenceClassification, id2label=LABELS, norm_bias=True, attention_bias=True,
        mlp_bias=True, classifier_bias=True, classifier_pooling="cls"),
}
def gemma3():
    """As EmbeddingGemma: every row sees both ways, and two products stand behind the mean."""
    return Gemma3TextModel, Gemma3TextConfig(
        vocab_size=199, hidden_size=48, intermediate_size=75, num_hidden_layers=3,
        num_attention_heads=4, num_key_value_heads=2, head_dim=14, max_position_embeddings=64,
        sliding_window=12, layer_types=["sliding_attention", "sliding_attention", "full_attention"],
        query_pre_attn_scalar=9, use_bidirectional_attention=True, bos_token_id=1, eos_token_id=2,
        pad_token_id=0, rope_parameters={
            "full_attention": {"rope_type": "default", "rope_theta": 50000.0},
            "sliding_attention": {"rope_type": "default", "rope_theta": 300.0}})


ENCODERS = {"modernbert_cls": lambda: modernbert(ModernBertModel), "gemma3_mean": gemma3,
            "nomic_mean": lambda: (NomicBertModel, NomicBertConfig(**SIZES))}
DENSE = {"gemma3_mean": ((96, False, torch.nn.Identity()), (40, True, torch.nn.Tanh()))}


def build(make):
    cls, config = make()
    config._attn_implementation = "eager"
    model = cls(config).float().eval()
    draw(model, 3)
    return model


def classified(model, text, first):
    more = {}
    if first:
        more["token_type_ids"] = torch.tensor([[0] * first + [1] * (len(text) - first)])
    return model(torch.tensor([text]), **more).logits[0]


def make_classifier(name, folder):
    model = build(CLASSIFIERS[name])
    save_model(model, folder)
    texts = [ids(n, model.config.vocab_size, 500 + n) for n in (3, 17, 32)]
    first = [0, 9, 1] if name == "bert_rank" else [0, 0, 0]
    target = torch.randn(3, model.config.num_labels, generator=torch.Generator().manual_seed(11))
    rows = torch.stack([classified(model, t, n) for t, n in zip(texts, first)])
    loss = (rows * target).sum()
    loss.backward()
    tensors = {"grad." + n: p.grad.contiguous().clone() for n, p in model.named_parameters()
               if p.grad is not None}
    tensors |= {"target": target, "embedding": rows.detach().contiguous()}
    return {"made_by": versions(), "texts": texts, "first": first, "loss": loss.item(),
            "loss_is": "sum of embedding * target"}, tensors


NOMIC = (("embeddings.LayerNorm", "emb_ln"), ("layers.", "encoder.layers."),
         ("self_attn.o_proj", "attn.out_proj"), ("up_proj", "fc11"), ("gate_proj", "fc12"),
         ("down_proj", "fc2"), ("post_attention_layernorm", "norm1"), ("post_mlp_layernorm", "norm2"))


def as_stored(model, grads):
    """By the names of the file, which for some models are not those of the class."""
    if not isinstance(model, NomicBertModel):
        return grads
    stored = {}
    for name, g in grads.items():
        for old, new in NOMIC:
            name = name.replace(old, new)
        stored[name] = g
    for l in range(model.config.num_hidden_layers):
        parts = [stored.pop(f"encoder.layers.{l}.self_attn.{x}_proj.weight") for x in "qkv"]
        stored[f"encoder.layers.{l}.attn.Wqkv.weight"] = torch.cat(parts)
    return stored


def make_dense(name, folder, width):
    """Modules behind the pooling, in folders of their own, as sentence-transformers saves them."""
    generator, layers = torch.Generator().manual_seed(13), []
    for i, (n, bias, act) in enumerate(DENSE.get(name, ())):
        linear = torch.nn.Linear(width, n, bias=bias)
        with torch.no_grad():
            for p in linear.parameters():
                p.copy_(torch.randn(p.shape, generator=generator) * (1.6 / p.shape[-1] ** 0.5))
        layers.append((linear, act))
        at = folder / f"{i + 2}_Dense"
        at.mkdir()
        safetensors.torch.save_file({"linear." + k: v.detach().contiguous()
                                     for k, v in linear.named_parameters()}, at / "model.safetensors")
        (at / "config.json").write_text(json.dumps(
            {"in_features": width, "out_features": n, "bias": bias,
             "activation_function": type(act).__module__ + "." + type(act).__name__}) + "\n")
        width = n
    if layers:
        modules = json.loads((folder / "modules.json").read_text())
        behind = [{"idx": i + 2, "name": str(i + 2), "path": f"{i + 2}_Dense",
                   "type": "sentence_transformers.models.Dense"} for i in range(len(layers))]
        end = dict(modules[2], idx=len(layers) + 2, name=str(len(layers) + 2), path="4_Normalize")
        (folder / "modules.json").write_text(json.dumps(modules[:2] + behind + [end], indent=2) + "\n")
    return layers, width


def vector(model, text, kind, layers):
    hidden = model(torch.tensor([text])).last_hidden_state
    v = hidden[0, 0] if kind == "cls" else hidden[0].mean(0)
    for linear, act in layers:
        v = act(linear(v))
    return torch.nn.functional.normalize(v, dim=-1)


def make_encoder(name, folder):
    kind = name.split("_")[1]
    model = build(ENCODERS[name])
    save_model(model, folder)
    save_pooling(folder, kind, model.config.hidden_size)
    layers, width = make_dense(name, folder, model.config.hidden_size)
    texts = [ids(n, model.config.vocab_size, 500 + n) for n in (3, 17, 32)]
    target = torch.randn(3, width, generator=torch.Generator().manual_seed(11))
    rows = torch.stack([vector(model, t, kind, layers) for t in texts])
    loss = (rows * target).sum()
    loss.backward()
    grads = {n: p.grad.contiguous().clone() for n, p in model.named_parameters()
             if p.grad is not None}
    tensors = {"grad." + n: g for n, g in as_stored(model, grads).items()}
    for i, (linear, _) in enumerate(layers):
        tensors |= {f"grad.dense.{i}.linear.{n}": p.grad.contiguous().clone()
                    for n, p in linear.named_parameters()}
    tensors |= {"target": target, "embedding": rows.detach().contiguous()}
    return {"made_by": versions(), "texts": texts, "pooling": kind, "loss": loss.item(),
            "loss_is": "sum of embedding * target"}, tensors


def main():
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    for name in sys.argv[1:] or [*CLASSIFIERS, *ENCODERS]:
        folder = OUT / name
        golden, tensors = (make_classifier if name in CLASSIFIERS else make_encoder)(name, folder)
        safetensors.torch.save_file(tensors, folder / "golden.safetensors")
        (folder / "golden.json").write_text(json.dumps(golden) + "\n")
        print(f"{name}: loss {golden['loss']:.4f}")


if __name__ == "__main__":
    main()
