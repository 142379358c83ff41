#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Dumps PyTorch's AdamW on a two-layer net into tests/golden/optim/adamw.json.

The procedure is that of the baselines in PyTorch's C++ tests: linear 2 to 3, sigmoid, linear 3 to 1,
sigmoid, from fixed parameters, a fixed input of three rows, the sum of the outputs as loss, 1001
steps in f64, the parameters after steps 0, 100, ..., 1000. PyTorch compares with rtol 1e-3 and atol
5e-4, and so should we.

    python3 tests/golden/make_optim.py        (requirements.txt beside this file)
"""
import json
import pathlib

import torch

OUT = pathlib.Path(__file__).resolve().parent / "optim"
INIT = {
    "0.weight": [[-0.2109, -0.4976], [-0.1413, -0.3420], [-0.2524, 0.6976]],
    "0.bias": [-0.1085, -0.2979, 0.6892],
    "2.weight": [[-0.0508, -0.3941, -0.2843]],
    "2.bias": [-0.0711],
}
INPUT = [[0.1, 0.2], [0.3, 0.4], [0.5, 0.6]]
CASES = {
    "adamw_lr_1": dict(lr=1.0, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.01),
    "adamw_lr_1_no_decay": dict(lr=1.0, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.0),
    "adamw_lr_1e-2": dict(lr=1e-2, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.01),
    "adamw_lr_1e-2_betas": dict(lr=1e-2, betas=(0.8, 0.95), eps=1e-6, weight_decay=0.1),
}


def run(options):
    model = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.Sigmoid(),
                                torch.nn.Linear(3, 1), torch.nn.Sigmoid()).double()
    with torch.no_grad():
        for name, p in model.named_parameters():
            p.copy_(torch.tensor(INIT[name], dtype=torch.float64))
    optimizer = torch.optim.AdamW(model.parameters(), **options)
    x = torch.tensor(INPUT, dtype=torch.float64)
    samples = []
    for step in range(1001):
        optimizer.zero_grad()
        loss = model(x).sum()
        loss.backward()
        optimizer.step()
        if step % 100 == 0:
            samples.append({"step": step, "loss_before": loss.item(),
                            **{n: p.flatten().tolist() for n, p in model.named_parameters()}})
    return samples


def main():
    OUT.mkdir(exist_ok=True)
    golden = {
        "made_by": {"torch": torch.__version__.split("+")[0]},
        "init": INIT,
        "input": INPUT,
        "cases": [{"name": n, **o, "samples": run(o)} for n, o in CASES.items()],
    }
    (OUT / "adamw.json").write_text(json.dumps(golden, indent=1) + "\n")


if __name__ == "__main__":
    main()
