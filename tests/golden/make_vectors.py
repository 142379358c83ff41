#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Models of vectors and of labels, as sentence-transformers and transformers train them: ten steps of
tiny models of tests/golden/models, all of one or an adapter.

Into tests/golden/vectors go
    golden.json           examples of drawn ids, the options, and of each run its steps: loss and the
                          gradient's norm
    RUN.first.safetensors the adapter that a run begins with, its second halves zeros
    RUN.safetensors       what came of it, by PEFT's names; of all of a model one matrix and one norm

Losses are sentence-transformers' own: MultipleNegativesRankingLoss over the vectors of its Pooling and
Normalize, CrossEntropyLoss as transformers' classifiers have it, and the BinaryCrossEntropyLoss of
CrossEncoder. Texts are run one by one, so nothing is padded.

    python3 tests/golden/make_vectors.py"""
import json
import pathlib
import random

import peft
import sentence_transformers
import torch
import transformers
from safetensors.torch import save_file
from sentence_transformers.losses import MultipleNegativesRankingLoss
from sentence_transformers.models import Normalize, Pooling

HERE = pathlib.Path(__file__).resolve().parent
MODELS, OUT = HERE / "models", HERE / "vectors"
BATCH, STEPS, SEED, SCALE = 4, 10, 7, 20.0
OPTIONS = dict(r=4, lora_alpha=8, lr=1e-3, weight_decay=0.01, max_grad_norm=1.0, eps=1e-8, scale=SCALE)
# model, how many texts an example has, the adapter's targets (none: all is trained), parameters kept
RUNS = {
    "bert_pairs": ("bert_mean", 2, ["query", "key", "value", "dense"], []),
    "qwen3_triplets": ("qwen3_last", 3, ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj",
                                         "down_proj"], []),
    "bert_all": ("bert_mean", 3, [], ["encoder.layer.1.output.dense.weight",
                                      "embeddings.LayerNorm.weight"]),
    "xlmr_labels": ("xlmr_label", 1, ["query", "key", "value"], []),
    "xlmr_labels_all": ("xlmr_label", 1, [], ["classifier.out_proj.weight",
                                              "roberta.encoder.layer.0.output.LayerNorm.weight"]),
    "bert_scores_all": ("bert_rank", 1, [], ["classifier.weight", "bert.pooler.dense.weight"]),
}


def ids(draw):
    return [draw.randrange(5, 170) for _ in range(draw.randint(3, 14))]


def examples(model, n_text):
    """In the order of the steps. Of a pair in one input `first` says how many ids are of the first text."""
    draw = random.Random(SEED + n_text)
    out = []
    for i in range(BATCH * STEPS):
        x = dict(texts=[ids(draw) for _ in range(n_text)])
        if model == "xlmr_label":
            x["target"] = one_hot(draw.randrange(3), 3)
        elif model == "bert_rank":
            x["target"] = [draw.choice([0.0, 1.0, 0.25])]
            x["first"] = 2
        out.append(x)
    return out


def one_hot(k, n):
    return [float(i == k) for i in range(n)]


def load(name, targets, n_text):
    cls = transformers.AutoModel if n_text > 1 else transformers.AutoModelForSequenceClassification
    model = cls.from_pretrained(MODELS / name, dtype=torch.float32, attn_implementation="eager")
    if targets:
        model = peft.get_peft_model(model, peft.LoraConfig(
            r=OPTIONS["r"], lora_alpha=OPTIONS["lora_alpha"], lora_dropout=0.0, bias="none",
            target_modules=targets, exclude_modules=".*pooler.*"))
    return model.train()


def modules_of(name):
    said = json.loads((MODELS / name / "1_Pooling/config.json").read_text())
    dim = said.pop("word_embedding_dimension")
    chain = [Pooling(dim, **{k: v for k, v in said.items() if k.startswith("pooling_mode")})]
    kinds = [m["type"] for m in json.loads((MODELS / name / "modules.json").read_text())]
    return chain + [Normalize() for k in kinds if k.endswith("Normalize")]


def vector(model, chain, text):
    ids_ = torch.tensor([text])
    out = model(input_ids=ids_, attention_mask=torch.ones_like(ids_))
    f = dict(token_embeddings=out.last_hidden_state, attention_mask=torch.ones_like(ids_))
    for m in chain:
        f = m(f)
    return f["sentence_embedding"]


def contrast(model, chain, loss, batch):
    rows = [torch.cat([vector(model, chain, x["texts"][k]) for x in batch])
            for k in range(len(batch[0]["texts"]))]
    return loss.compute_loss_from_embeddings(rows, None)


def labels(model, batch):
    logits = []
    for x in batch:
        more = {}
        if "first" in x:
            n = len(x["texts"][0])
            more["token_type_ids"] = torch.tensor([[0] * x["first"] + [1] * (n - x["first"])])
        logits.append(model(input_ids=torch.tensor([x["texts"][0]]), **more).logits)
    logits, target = torch.cat(logits), torch.tensor([x["target"] for x in batch])
    if logits.shape[1] == 1:
        return torch.nn.BCEWithLogitsLoss()(logits.view(-1), target.view(-1))
    return torch.nn.CrossEntropyLoss()(logits, target.argmax(1))


def groups(model):
    """Vectors don't decay, as transformers' Trainer has it."""
    trained = [p for p in model.parameters() if p.requires_grad]
    return [dict(params=[p for p in trained if p.dim() > 1], weight_decay=OPTIONS["weight_decay"]),
            dict(params=[p for p in trained if p.dim() < 2], weight_decay=0.0)]


def halves(model):
    return {k: v.detach().clone().contiguous()
            for k, v in peft.get_peft_model_state_dict(model).items()}


def train(name):
    base, n_text, targets, kept = RUNS[name]
    torch.manual_seed(SEED)
    model = load(base, targets, n_text)
    rows = examples(base, n_text)
    chain = modules_of(base) if n_text > 1 else []
    loss = MultipleNegativesRankingLoss(model, scale=SCALE)
    if targets:
        save_file(halves(model), OUT / f"{name}.first.safetensors")
    optim = torch.optim.AdamW(groups(model), lr=OPTIONS["lr"], eps=OPTIONS["eps"])
    steps = []
    for step in range(STEPS):
        batch = rows[step * BATCH:(step + 1) * BATCH]
        total = contrast(model, chain, loss, batch) if n_text > 1 else labels(model, batch)
        optim.zero_grad()
        total.backward()
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), OPTIONS["max_grad_norm"])
        optim.step()
        steps.append(dict(loss=total.item(), grad_norm=norm.item()))
    final = halves(model) if targets else {k: v.detach().clone().contiguous()
                                           for k, v in model.named_parameters() if k in kept}
    assert targets or len(final) == len(kept), final.keys()
    save_file(final, OUT / f"{name}.safetensors")
    print(name, steps[0], steps[-1])
    return dict(model=base, targets=targets, kept=kept, examples=rows, steps=steps)


def main():
    torch.set_num_threads(1)
    OUT.mkdir(exist_ok=True)
    versions = {m.__name__: m.__version__ for m in (torch, transformers, peft, sentence_transformers)}
    golden = dict(made_by=versions, options=OPTIONS, batch=BATCH, runs={n: train(n) for n in RUNS})
    (OUT / "golden.json").write_text(json.dumps(golden) + "\n")


if __name__ == "__main__":
    main()
