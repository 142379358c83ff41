#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Matrices that PEFT trains whole beside an adapter (modules_to_save), on models of tests/golden/models.

    python3 tests/golden/make_saved.py       (requirements.txt beside this file)

Into tests/golden/saved go
    golden.json              of each case the model, options, and of twenty steps the rows, loss and norm; versions
    NAME/first, NAME/last    the adapter before the steps and behind them, as PEFT saves them
    NAME/logits.safetensors  of the first eight ids of the model's prompt, by NAME/last as PEFT loads it again

The halves begin as those of make_models.py, other than zero; the matrices as the model's. In case `tied` both are
one (ensure_weight_tying)."""
import json
import warnings

import peft
import torch
from safetensors.torch import save_file

from peft_steps import ADAMW, HERE, logits_of, plain, save, trained, write_all

OUT = HERE / "saved"
CASES = {"both": ("gemma3", ["lm_head", "embed_tokens"], {}),
         "head_apart": ("qwen2", ["lm_head"], {}),
         "wte_apart": ("gpt2", ["wte"], {"fan_in_fan_out": True}),
         "tied": ("qwen2", ["embed_tokens"], {"ensure_weight_tying": True})}
TARGETS = {"gpt2": ["c_attn"]}


def run(case, name, modules, more):
    golden = json.loads((HERE / "models" / name / "golden.json").read_text())
    lora = {"r": 4, "lora_alpha": 6, "target_modules": TARGETS.get(name, ["q_proj", "down_proj"])}
    model = peft.get_peft_model(plain(name), peft.LoraConfig(
        task_type="CAUSAL_LM", modules_to_save=modules, **lora, **more)).eval()
    params = {n: p for n, p in model.named_parameters() if p.requires_grad}
    g = torch.Generator().manual_seed(11)
    with torch.no_grad():
        for n, p in params.items():
            if "lora_" in n:
                p.copy_(torch.randn(p.shape, generator=g) * (0.3 / p.shape[-1] ** 0.5))
    folder = OUT / case
    save(model, folder / "first")
    optimizer = torch.optim.AdamW(params.values(), **ADAMW)
    steps = trained(model, optimizer, golden["rows"])
    save(model, folder / "last")
    save_file({"logits": logits_of(name, folder / "last")}, folder / "logits.safetensors")
    print(case, sorted(params)[-1], f"loss {steps[0]['loss']:.4f} to {steps[-1]['loss']:.4f}")
    return {"model": name, "modules_to_save": modules, **lora, **ADAMW, "max_grad_norm": 1.0, "steps": steps}


warnings.filterwarnings("ignore", "Model has `tie_word_embeddings=True`")  # which is what is tried here
write_all(OUT, CASES, run)
