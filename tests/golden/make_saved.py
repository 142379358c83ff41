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
import pathlib
import shutil
import warnings

import peft
import torch
import transformers
from safetensors.torch import save_file

HERE = pathlib.Path(__file__).parent
OUT = HERE / "saved"
N_STEP, N_ID = 20, 8
ADAMW = {"lr": 3e-3, "betas": [0.9, 0.999], "eps": 1e-6, "weight_decay": 0.01}
CASES = {"both": ("gemma3", ["lm_head", "embed_tokens"], {}),
         "head_apart": ("qwen2", ["lm_head"], {}),
         "wte_apart": ("gpt2", ["wte"], {"fan_in_fan_out": True}),
         "tied": ("qwen2", ["embed_tokens"], {"ensure_weight_tying": True})}
TARGETS = {"gpt2": ["c_attn"]}


def loss_of(model, rows):
    total, n = 0.0, 0
    for r in rows:
        labels = torch.tensor(r["labels"])
        logits = model(input_ids=torch.tensor([r["ids"]])).logits[0]
        total = total + torch.nn.functional.cross_entropy(logits, labels, ignore_index=-100, reduction="sum")
        n += int((labels != -100).sum())
    return total / n


def plain(name):
    model = transformers.AutoModelForCausalLM.from_pretrained(
        HERE / "models" / name, dtype=torch.float32, attn_implementation="eager")
    return model.eval()


def save(model, to):
    model.save_pretrained(to)
    (to / "README.md").unlink(missing_ok=True)
    path = to / "adapter_config.json"
    config = json.loads(path.read_text())
    config["base_model_name_or_path"] = None
    for key, value in config.items():
        if isinstance(value, list):
            config[key] = sorted(value)
    path.write_text(json.dumps(config, indent=2, sort_keys=True) + "\n")


def logits_of(name, folder):
    model = peft.PeftModel.from_pretrained(plain(name), folder).eval()
    ids = json.loads((HERE / "models" / name / "golden.json").read_text())["prompt"][:N_ID]
    with torch.no_grad():
        return model(torch.tensor([ids]), use_cache=False).logits[0].contiguous()


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
    rows, steps = golden["rows"], []
    for step in range(N_STEP):
        at = [(2 * step) % len(rows), (2 * step + 1) % len(rows)]
        optimizer.zero_grad()
        loss = loss_of(model, [rows[k] for k in at])
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(params.values(), 1.0)
        optimizer.step()
        steps.append({"rows": at, "loss": loss.item(), "grad_norm": norm.item()})
    save(model, folder / "last")
    save_file({"logits": logits_of(name, folder / "last")}, folder / "logits.safetensors")
    print(case, sorted(params)[-1], f"loss {steps[0]['loss']:.4f} to {steps[-1]['loss']:.4f}")
    return {"model": name, "modules_to_save": modules, **lora, **ADAMW, "max_grad_norm": 1.0, "steps": steps}


def main():
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    warnings.filterwarnings("ignore", "Model has `tie_word_embeddings=True`")  # which is what is tried here
    shutil.rmtree(OUT, ignore_errors=True)
    OUT.mkdir()
    made_by = {m.__name__: m.__version__.split("+")[0] for m in (torch, transformers, peft)}
    cases = {case: run(case, *of) for case, of in CASES.items()}
    (OUT / "golden.json").write_text(json.dumps({"made_by": made_by, **cases}, indent=1) + "\n")


main()
