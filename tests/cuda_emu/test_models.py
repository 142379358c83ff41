#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Whole models on a GPU that is played: the plug of a GPU over the twin of CUDA's runtime, with the
GPU's kernels run by the emulation. Greedy continuations are those of the goldens, in both modes and
formats; a training's losses are near those of the CPU.

Catches: a kernel that its check feeds otherwise than the program does; layouts that one kernel
writes and another reads otherwise; a launch whose grid is of a number that the program does not
give."""
import csv
import json
import os
import pathlib
import subprocess
import sys
import tempfile

TANDEM = os.environ.get("TANDEM_BIN", "build/release/tandem")
BUILD = pathlib.Path(os.environ.get("TANDEM_BUILD", "build/release"))
PLUG, KERNELS = BUILD / "tests/fake/cuda/plug.so", BUILD / "libtandem_cuda_emu.so"
MODELS = pathlib.Path("tests/golden/models")
FAMILIES = ("llama_plain", "llama_tied", "mistral_window", "qwen2", "qwen3", "gpt2")
passed, failed = 0, 0


def check(name, ok, detail=""):
    global passed, failed
    passed, failed = passed + bool(ok), failed + (not ok)
    if not ok:
        print(f"FAIL {name}: {detail}")


def tandem(*words, device):
    env = {"TANDEM_CUDA_PLUG": str(PLUG.resolve()), "FAKE_CUDA_KERNELS": str(KERNELS.resolve()),
           "TANDEM_DEVICE": device, "TANDEM_KERNELS": "ref"}
    return subprocess.run([TANDEM, *map(str, words)], stdin=subprocess.DEVNULL, text=True,
                          capture_output=True, check=False, env={**os.environ, **env})


def said(p):
    return f"status {p.returncode}, stdout {p.stdout[-300:]!r}, stderr {p.stderr[-500:]!r}"


def run(family, way, device):
    golden = json.loads((MODELS / family / "golden.json").read_text())
    words = ["run", MODELS / family, "--ids", ",".join(map(str, golden["prompt"])), "-n",
             len(golden["greedy"]), "--ignore-eos", "--threads", "2", *way]
    return tandem(*words, device=device), ",".join(map(str, golden["greedy"]))


def generates():
    for family in FAMILIES:
        for way in ([], ["--mode", "eager"]):
            p, want = run(family, way, "cuda")
            check(f"{family} {way}", p.returncode == 0 and p.stdout.strip() == want, said(p))
    for family in ("llama_plain", "gpt2"):
        for form in ("bf16", "int8"):
            gpu, _ = run(family, ["--quantize", form], "cuda")
            cpu, _ = run(family, ["--quantize", form], "cpu")
            check(f"{family} {form}", gpu.returncode == 0 and gpu.stdout == cpu.stdout, said(gpu))


def losses(folder):
    with open(folder / "steps.csv", newline="", encoding="utf-8") as f:
        return [float(row["train_loss"]) for row in csv.DictReader(f)]


def trains(tmp):
    data = tmp / "rows.jsonl"
    data.write_text("".join(json.dumps({"prompt": "one " * (i % 5 + 1), "completion": "two"}) + "\n"
                            for i in range(12)))
    subprocess.run([BUILD / "tests/tools/make_model", tmp / "m", "--seed", "3"], check=True,
                   stdout=subprocess.DEVNULL)
    for name, way in (("adapter", ["--rank", "4", "--lora-dropout", "0.1"]),
                      ("full", ["--rank", "0"])):
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


def main():
    if not KERNELS.exists():
        print(f"no {KERNELS}: the emulation is built in release alone\n0 passed, 0 failed, 1 skipped")
        return 0
    generates()
    with tempfile.TemporaryDirectory(prefix="tandem-test-") as tmp:
        trains(pathlib.Path(tmp))
    print(f"{passed} passed, {failed} failed")
    return failed > 0


sys.exit(main())
