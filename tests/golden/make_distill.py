#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Distillation from a teacher's log-probabilities, in PyTorch.

Into tests/golden/distill go
    golden.json            the options; of each row of models/llama_plain what a teacher says of its labels: ids
                           and their probabilities, the label's among them, -1 behind the last; of twenty steps
                           the rows, loss and norm
    adapter.safetensors    the adapter that came of it, by PEFT's names

The steps are those of models/llama_plain/lora, with its rows and from its first values. A label's loss is 1 - weight
of its cross-entropy and weight of the divergence KL(teacher || model) over the ids and all other tokens as one; of
the last label of a row no teacher speaks. The versions are in golden.json."""
import json
import pathlib

import peft
import torch
import transformers
from safetensors.torch import save_file

HERE = pathlib.Path(__file__).parent
MODEL, OUT = HERE / "models/llama_plain", HERE / "distill"
WEIGHT, NAMED, SEED = 0.7, 6, 11


def teacher(row, n_vocab, draw):
    """As many ids everywhere: the label, and the likeliest others of a drawn distribution."""
    said = []
    for label in (x for x in row["labels"] if x >= 0):
        z = 3 * torch.randn(n_vocab, generator=draw)
        z[label] += 2
        p = torch.softmax(z, -1)
        ids = [label] + [k for k in p.topk(NAMED).indices.tolist() if k != label][:NAMED - 1]
        said.append((ids, p[ids].tolist()))
    said[-1] = ([-1] * NAMED, [0.0] * NAMED)
    return said


def divergence(logp, ids, mass):
    mass = torch.tensor(mass)
    rest = 1 - mass.sum()
    others = logp.clone()
    others[ids] = -torch.inf
    return (torch.sum(mass * (mass.log() - logp[ids])) +
            rest * (rest.log() - torch.logsumexp(others, -1)))


def loss_of(model, rows, said):
    total, n = 0.0, 0
    for r, of in zip(rows, said):
        logits = model(input_ids=torch.tensor([r["ids"]])).logits[0]
        places = [i for i, x in enumerate(r["labels"]) if x >= 0]
        for i, (ids, mass) in zip(places, of):
            logp = torch.log_softmax(logits[i], -1)
            own = -logp[r["labels"][i]]
            total = total + (own if ids[0] < 0 else
                             (1 - WEIGHT) * own + WEIGHT * divergence(logp, ids, mass))
            n += 1
    return total / n


def main():
    golden = json.loads((MODEL / "golden.json").read_text())
    of, rows = golden["lora"], golden["rows"]
    model = transformers.AutoModelForCausalLM.from_pretrained(MODEL, attn_implementation="eager")
    n_vocab = model.config.vocab_size
    model = peft.PeftModel.from_pretrained(model, MODEL / "lora", is_trainable=True).eval()
    params = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(params, lr=of["lr"], betas=tuple(of["betas"]), eps=of["eps"],
                                  weight_decay=of["weight_decay"])
    draw = torch.Generator().manual_seed(SEED)
    said = [teacher(r, n_vocab, draw) for r in rows]
    steps = []
    for step in of["steps"]:
        optimizer.zero_grad()
        loss = loss_of(model, [rows[k] for k in step["rows"]], [said[k] for k in step["rows"]])
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(params, of["max_grad_norm"])
        optimizer.step()
        steps.append({"rows": step["rows"], "loss": loss.item(), "grad_norm": norm.item()})
    OUT.mkdir(exist_ok=True)
    save_file({n: t.contiguous() for n, t in peft.get_peft_model_state_dict(model).items()},
              OUT / "adapter.safetensors")
    teachers = [{"id": [k for ids, _ in r for k in ids], "mass": [m for _, ms in r for m in ms]} for r in said]
    made_by = {"torch": torch.__version__, "transformers": transformers.__version__, "peft": peft.__version__}
    out = {"made_by": made_by, **of, "weight": WEIGHT, "n_top": NAMED, "teacher": teachers, "steps": steps}
    (OUT / "golden.json").write_text(json.dumps(out, indent=1) + "\n")
    print(steps[0], steps[-1])


if __name__ == "__main__":
    main()
