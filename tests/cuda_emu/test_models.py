#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Whole models on a GPU that is played: the plug of a GPU over the twin of CUDA's runtime, with the
GPU's kernels run by the emulation. Greedy continuations are those of the goldens, in both modes and
formats; a training's losses are near those of the CPU.

Catches: a kernel that its check feeds otherwise than the program does; layouts that one kernel
writes and another reads otherwise; a launch whose grid is of a number that the program does not
give."""
import csv
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
from serving import BUILD, Cases, make_model, said, scratch  # noqa: E402
from twin import FAMILIES, golden_words, tandem as played, write_rows  # noqa: E402

KERNELS = BUILD / "libtandem_cuda_emu.so"
cases = Cases()
check = cases.check


def tandem(*words, device="cuda"):
    return played(*words, device=device, FAKE_CUDA_KERNELS=KERNELS.resolve())


def generates():
    for family in FAMILIES:
        words, want = golden_words(family)
        for way in ([], ["--mode", "eager"]):
            p = tandem(*words, *way)
            check(f"{family} {way}", p.returncode == 0 and p.stdout.strip() == want, said(p))
    for family in ("llama_plain", "gpt2"):
        words, _ = golden_words(family)
        for form in ("bf16", "int8", "int4"):
            gpu, cpu = (tandem(*words, "--quantize", form, device=d) for d in ("cuda", "cpu"))
            check(f"{family} {form}", gpu.returncode == 0 and gpu.stdout == cpu.stdout, said(gpu))


def losses(folder):
    with open(folder / "steps.csv", newline="", encoding="utf-8") as f:
        return [float(row["train_loss"]) for row in csv.DictReader(f)]


def trains(tmp):
    data = write_rows(tmp / "rows.jsonl")
    make_model(tmp / "m", "--seed", 3)
    for name, way in (("adapter", ["--rank", "4", "--lora-dropout", "0.1"]),
                      ("dora", ["--rank", "4", "--dora"]), ("full", ["--rank", "0"])):
        got = {}
        for device in ("cpu", "cuda"):
            to = tmp / f"{name}-{device}"
            p = tandem("train", "--model", tmp / "m", "--data", data, "--out", to, "--epochs", "2",
                       "--batch", "4", *way, device=device)
            check(f"train {name} on {device}", p.returncode == 0, said(p))
            got[device] = losses(to) if p.returncode == 0 else []
        check(f"train {name}: six losses, falling, alike",
              len(got["cuda"]) == 6 and got["cuda"][-1] < got["cuda"][0] and
              all(abs(a - b) < 0.02 for a, b in zip(got["cpu"], got["cuda"])), got)


def orders(tmp):
    """Inputs in an order of their own, which lies in the device's memory: a loss is the CPU's."""
    data, got = write_rows(tmp / "rows.jsonl"), {}
    for device in ("cpu", "cuda"):
        to = tmp / f"orders-{device}"
        p = tandem("train", "--model", "tests/golden/models/packed_gptq_act", "--data", data, "--out", to, "--epochs",
                   "1", "--batch", "4", "--rank", "4", device=device)
        check(f"train over orders on {device}", p.returncode == 0, said(p))
        got[device] = losses(to) if p.returncode == 0 else []
    check("train over orders: losses alike", got["cuda"] and
          all(abs(a - b) < 1e-3 * a for a, b in zip(got["cpu"], got["cuda"])), got)
    return got


def main():
    if not KERNELS.exists():
        print(f"no {KERNELS}: the emulation is built in release alone\n0 passed, 0 failed, 1 skipped")
        return 0
    generates()
    with scratch() as tmp:
        trains(tmp)
        orders(tmp)
    return cases.end()


sys.exit(main())
