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
import pathlib
import shutil

import peft
import torch
import transformers
from peft.optimizers import create_loraplus_optimizer
from safetensors.torch import save_file

HERE = pathlib.Path(__file__).parent
OUT = HERE / "dora"
N_STEP, N_ID = 20, 8
ADAMW = {"lr": 3e-3, "betas": [0.9, 0.999], "eps": 1e-6, "weight_decay": 0.01}
CASES = {"llama": ("llama_tied", ["q_proj", "v_proj", "down_proj"], {}),
         "biased": ("qwen2", ["q_proj", "k_proj", "o_proj", "up_proj"], {"use_rslora": True}),
         "gpt2": ("gpt2", ["c_attn", "c_proj"], {"fan_in_fan_out": True}),
         "plus": ("llama_tied", ["k_proj", "gate_proj"], {})}
RATIO = 4


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
    rows, steps = golden["rows"], []
    for step in range(N_STEP):
        at = [(2 * step) % len(rows), (2 * step + 1) % len(rows)]
        optimizer.zero_grad()
        loss = loss_of(model, [rows[k] for k in at])
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(params.values(), 1.0)
        optimizer.step()
        steps.append({"rows": at, "loss": loss.item(), "grad_norm": norm.item()})
        if step == 0:
            save_file({module_of(n): optimizer.state[p]["exp_avg"].contiguous() for n, p in params.items()},
                      folder / "moments.safetensors")
    save(model, folder / "last")
    save_file({"logits": logits_of(name, folder / "last")}, folder / "logits.safetensors")
    print(case, sorted(params)[-1], f"loss {steps[0]['loss']:.4f} to {steps[-1]['loss']:.4f}")
    return {"model": name, "loraplus_lr_ratio": RATIO if case == "plus" else 0, **lora, **ADAMW,
            "max_grad_norm": 1.0, "steps": steps}


def main():
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    shutil.rmtree(OUT, ignore_errors=True)
    OUT.mkdir()
    made_by = {m.__name__: m.__version__.split("+")[0] for m in (torch, transformers, peft)}
    cases = {case: run(case, *of) for case, of in CASES.items()}
    (OUT / "golden.json").write_text(json.dumps({"made_by": made_by, **cases}, indent=1) + "\n")


main()
