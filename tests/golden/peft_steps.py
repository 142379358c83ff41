# SPDX-License-Identifier: Apache-2.0
"""What scripts here have in common that train adapters on models of tests/golden/models by PEFT."""
import json
import pathlib
import shutil

import peft
import torch
import transformers

HERE = pathlib.Path(__file__).parent
N_STEP, N_ID = 20, 8
ADAMW = {"lr": 3e-3, "betas": [0.9, 0.999], "eps": 1e-6, "weight_decay": 0.01}


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


def clean_adapter(folder):
    (folder / "README.md").unlink(missing_ok=True)
    path = folder / "adapter_config.json"
    config = json.loads(path.read_text())
    config["base_model_name_or_path"] = None
    for key, value in config.items():
        if isinstance(value, list):
            config[key] = sorted(value)
    path.write_text(json.dumps(config, indent=2, sort_keys=True) + "\n")


def save(model, to):
    model.save_pretrained(to)
    clean_adapter(to)


def logits_of(name, folder):
    model = peft.PeftModel.from_pretrained(plain(name), folder).eval()
    ids = json.loads((HERE / "models" / name / "golden.json").read_text())["prompt"][:N_ID]
    with torch.no_grad():
        return model(torch.tensor([ids]), use_cache=False).logits[0].contiguous()


def trained(model, optimizer, rows, heard=None):
    """Twenty steps over two rows each; heard() is called behind the first."""
    params, steps = [p for p in model.parameters() if p.requires_grad], []
    for step in range(N_STEP):
        at = [(2 * step) % len(rows), (2 * step + 1) % len(rows)]
        optimizer.zero_grad()
        loss = loss_of(model, [rows[k] for k in at])
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(params, 1.0)
        optimizer.step()
        steps.append({"rows": at, "loss": loss.item(), "grad_norm": norm.item()})
        if step == 0 and heard:
            heard()
    return steps


def write_all(out, cases, run):
    """golden.json, and what run(case, ...) writes beside it."""
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir()
    made_by = {m.__name__: m.__version__.split("+")[0] for m in (torch, transformers, peft)}
    got = {case: run(case, *of) for case, of in cases.items()}
    (out / "golden.json").write_text(json.dumps({"made_by": made_by, **got}, indent=1) + "\n")
