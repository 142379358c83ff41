#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""LoRA+ and NEFTune as PEFT and transformers have them.

Into tests/golden/tricks go
    golden.json                    of LoRA+ its options, and of twenty steps the rows, loss and norm; of NEFTune
                                   the bounds of the noise that the hook draws, by alpha and the row's size
    loraplus.safetensors           the adapter that came of it, by PEFT's names

The steps are those of models/llama_plain/lora, with its rows and from its first values, by the optimizer that
PEFT makes (create_loraplus_optimizer). The versions are in golden.json."""
import json
import pathlib

import peft
import torch
import transformers
from peft.optimizers import create_loraplus_optimizer
from safetensors.torch import save_file
from transformers.trainer_utils import neftune_post_forward_hook

from peft_steps import loss_of

HERE = pathlib.Path(__file__).parent
MODEL, OUT = HERE / "models/llama_plain", HERE / "tricks"
RATIO, DECAY = 4.0, 0.1
NOISE = [(5.0, 7, 48), (0.5, 1, 64), (15.0, 300, 576)]


def loraplus():
    golden = json.loads((MODEL / "golden.json").read_text())
    of, rows = golden["lora"], golden["rows"]
    model = transformers.AutoModelForCausalLM.from_pretrained(MODEL, attn_implementation="eager")
    model = peft.PeftModel.from_pretrained(model, MODEL / "lora", is_trainable=True).eval()
    optimizer = create_loraplus_optimizer(model, torch.optim.AdamW, lr=of["lr"], loraplus_lr_ratio=RATIO,
                                          loraplus_weight_decay=DECAY, betas=tuple(of["betas"]), eps=of["eps"])
    params = [p for p in model.parameters() if p.requires_grad]
    steps = []
    for step in of["steps"]:
        optimizer.zero_grad()
        loss = loss_of(model, [rows[k] for k in step["rows"]])
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(params, of["max_grad_norm"])
        optimizer.step()
        steps.append({"rows": step["rows"], "loss": loss.item(), "grad_norm": norm.item()})
    final = {n: t.contiguous() for n, t in peft.get_peft_model_state_dict(model).items()}
    save_file(final, OUT / "loraplus.safetensors")
    return {**of, "weight_decay": DECAY, "loraplus_lr_ratio": RATIO, "steps": steps}


def neftune():
    """The hook adds torch.zeros_like(output).uniform_(-mag, mag): of many draws the largest is near mag."""
    found = []
    for alpha, n_tok, n_col in NOISE:
        module = torch.nn.Embedding(4, n_col)
        module.neftune_noise_alpha = alpha
        asked, uniform = [], torch.Tensor.uniform_
        torch.Tensor.uniform_ = lambda t, lo, hi: (asked.append((float(lo), float(hi))), uniform(t, lo, hi))[1]
        neftune_post_forward_hook(module, (), torch.zeros(1, n_tok, n_col))
        torch.Tensor.uniform_ = uniform
        (low, high), = asked
        assert low == -high
        found.append({"alpha": alpha, "tokens": n_tok, "columns": n_col, "most": high})
    return found


def main():
    OUT.mkdir(exist_ok=True)
    made_by = {m.__name__: m.__version__.split("+")[0] for m in (torch, transformers, peft)}
    golden = {"made_by": made_by, "loraplus": loraplus(), "neftune": neftune()}
    (OUT / "golden.json").write_text(json.dumps(golden, indent=1) + "\n")


main()
