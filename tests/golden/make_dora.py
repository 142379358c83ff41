#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""DoRA (use_dora) as PEFT computes and trains it, on models of tests/golden/models.

    python3 tests/golden/make_dora.py       (requirements.txt beside this file)

Into tests/golden/dora go
    golden.json              of each case the model, options, and of twenty steps the rows, loss and norm; versions
    NAME/first, NAME/last    the adapter before the steps and behind them, as PEFT saves them
    NAME/moments.safetensors AdamW's first moments behind the first step: a tenth of the clipped gradients, by module
    NAME/logits.safetensors  of the first eight ids of the model's prompt, by NAME/last as PEFT loads it again

The halves begin other than zero, and magnitudes up to a fifth away from the lengths of the weights' rows, so that no
gain is 1. Case `plus` has LoRA+'s optimizer."""
import json

import peft
import torch
from peft.optimizers import create_loraplus_optimizer
from safetensors.torch import save_file

from peft_steps import ADAMW, HERE, logits_of, plain, save, trained, write_all

OUT = HERE / "dora"
CASES = {"llama": ("llama_tied", ["q_proj", "v_proj", "down_proj"], {}),
         "biased": ("qwen2", ["q_proj", "k_proj", "o_proj", "up_proj"], {"use_rslora": True}),
         "gpt2": ("gpt2", ["c_attn", "c_proj"], {"fan_in_fan_out": True}),
         "plus": ("llama_tied", ["k_proj", "gate_proj"], {})}
RATIO = 4


def module_of(name):
    """layers.0.mlp.up_proj.lora_A.weight of a parameter's name in PEFT's model."""
    name = name.removeprefix("base_model.model.").removeprefix("model.").removeprefix("transformer.")
    return name.replace(".default.weight", "" if "magnitude" in name else ".weight")


def begin(params):
    g = torch.Generator().manual_seed(23)
    with torch.no_grad():
        for n, p in params.items():
            if "magnitude" in n:
                p.mul_(1 + 0.2 * (2 * torch.rand(p.shape, generator=g) - 1))
            else:
                p.copy_(torch.randn(p.shape, generator=g) * (0.3 / p.shape[-1] ** 0.5))


def optimizer_of(case, model, params):
    if case != "plus":
        return torch.optim.AdamW(params.values(), **ADAMW)
    how = {k: v for k, v in ADAMW.items() if k != "weight_decay"}
    return create_loraplus_optimizer(model, torch.optim.AdamW, loraplus_lr_ratio=RATIO,
                                     loraplus_weight_decay=ADAMW["weight_decay"], **how)


def run(case, name, targets, more):
    golden = json.loads((HERE / "models" / name / "golden.json").read_text())
    lora = {"r": 4, "lora_alpha": 6, "target_modules": targets, **more}
    model = peft.get_peft_model(plain(name), peft.LoraConfig(task_type="CAUSAL_LM", use_dora=True, **lora)).eval()
    params = {n: p for n, p in model.named_parameters() if p.requires_grad}
    begin(params)
    folder = OUT / case
    save(model, folder / "first")
    optimizer = optimizer_of(case, model, params)

    def heard():
        save_file({module_of(n): optimizer.state[p]["exp_avg"].contiguous() for n, p in params.items()},
                  folder / "moments.safetensors")

    steps = trained(model, optimizer, golden["rows"], heard)
    save(model, folder / "last")
    save_file({"logits": logits_of(name, folder / "last")}, folder / "logits.safetensors")
    print(case, sorted(params)[-1], f"loss {steps[0]['loss']:.4f} to {steps[-1]['loss']:.4f}")
    return {"model": name, "loraplus_lr_ratio": RATIO if case == "plus" else 0, **lora, **ADAMW,
            "max_grad_norm": 1.0, "steps": steps}


write_all(OUT, CASES, run)
