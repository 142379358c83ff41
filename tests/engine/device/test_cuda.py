#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A GPU played over the host's memory (tests/fake/cuda), with kernels/ref: what the program says
on it must be, to the last byte, what it says on the CPU with these. The GPU's memory cannot be touched by
the host, and a stream does nothing before somebody waits for it.

Catches: code of the host that reads or writes through a device's pointer; a result that is read
before its stream was waited for; an array that is filled anew under a copy; an address of the host
in a kernel's arguments; things that are not given back; a device that is not there and not missed."""
import hashlib
import json
import os
import pathlib
import subprocess
import sys
import tempfile

TANDEM = os.environ.get("TANDEM_BIN", "build/release/tandem")
BUILD = pathlib.Path(os.environ.get("TANDEM_BUILD", "build/release"))
PLUG = BUILD / "tests/fake/cuda/plug.so"
MODELS = pathlib.Path("tests/golden/models")
WAYS = ([], ["--mode", "eager"], ["--tp", "2"], ["--tp", "4"], ["--quantize", "int8"], ["--quantize", "f32"])
FAMILIES = ("llama_plain", "llama_tied", "mistral_window", "qwen2", "qwen3", "gpt2")
passed, failed = 0, 0


def check(name, ok, detail=""):
    global passed, failed
    passed, failed = passed + bool(ok), failed + (not ok)
    if not ok:
        print(f"FAIL {name}: {detail}")


def said(p):
    return f"status {p.returncode}, stdout {p.stdout[-300:]!r}, stderr {p.stderr[-500:]!r}"


def tandem(*words, device, **env):
    env = {"TANDEM_CUDA_PLUG": str(PLUG.resolve()), "TANDEM_DEVICE": device,
           "TANDEM_KERNELS": "ref", **env}
    return subprocess.run([TANDEM, *map(str, words)], stdin=subprocess.DEVNULL, text=True,
                          capture_output=True, check=False,
                          env={**os.environ, **{k: str(v) for k, v in env.items()}})


def generates_the_same():
    """Each family; one call of run per way, the golden's prompt and continuation."""
    for family in FAMILIES:
        golden = json.loads((MODELS / family / "golden.json").read_text())
        ids, want = golden["prompt"], golden["greedy"]
        for way in WAYS if family in ("llama_plain", "gpt2") else WAYS[:1]:
            words = ["run", MODELS / family, "--ids", ",".join(map(str, ids)), "-n", len(want),
                     "--ignore-eos", "--threads", "2", *way]
            cpu, gpu = tandem(*words, device="cpu"), tandem(*words, device="cuda")
            check(f"{family} {way}", gpu.returncode == 0 and gpu.stdout == cpu.stdout, said(gpu))
            if not way:
                check(f"{family} golden", gpu.stdout.strip() == ",".join(map(str, want)), said(gpu))


def digest(folder):
    """Of all files of weights and numbers below, by name. A moment's time in them would differ."""
    return {str(p.relative_to(folder)): hashlib.sha256(p.read_bytes()).hexdigest()
            for p in sorted(folder.rglob("*.safetensors"))}


def trains_the_same(tmp):
    """Losses, checkpoints and results, of an adapter and of a full training."""
    data = tmp / "rows.jsonl"
    data.write_text("".join(json.dumps({"prompt": "one " * (i % 5 + 1), "completion": "two"}) + "\n"
                            for i in range(12)))
    subprocess.run([BUILD / "tests/tools/make_model", tmp / "m", "--seed", "3"], check=True,
                   stdout=subprocess.DEVNULL)
    for name, way in (("adapter", ["--rank", "4", "--lora-dropout", "0.1"]),
                      ("full", ["--rank", "0"]),
                      ("adapter over two ranks", ["--rank", "4", "--tp", "2"]),
                      ("full over two and two", ["--rank", "0", "--tp", "2", "--dp", "2"])):
        out = {}
        for device in ("cpu", "cuda"):
            to = tmp / f"{name}-{device}"
            p = tandem("train", "--model", tmp / "m", "--data", data, "--out", to, "--epochs", "2",
                       "--batch", "4", *way, device=device)
            check(f"train {name} on {device}", p.returncode == 0, said(p))
            out[device] = digest(to)
        check(f"train {name}: same files", out["cpu"] and out["cpu"] == out["cuda"],
              f"{out['cpu']} {out['cuda']}")


def gives_back(tmp):
    """What a whole run took is given back."""
    tell = tmp / "tell"
    for words in (["run", MODELS / "gpt2", "--ids", "1,2", "-n", "6"],
                  ["run", MODELS / "qwen3", "--ids", "1,2", "-n", "6", "--tp", "2"]):
        p = tandem(*words, device="cuda", FAKE_CUDA_TELL=tell)
        calls, kept, graphs, _ = tell.read_text().split()[1::2]
        check(f"launches are kept: {words[1:]}", graphs == ("0" if "--tp" in words else "4"),
              tell.read_text())
        check(f"given back: {words[1]}", p.returncode == 0 and int(calls) > 50 and kept == "0",
              tell.read_text() + said(p))


def choices():
    """Which device it is, and the words where it is not there."""
    words = ["run", MODELS / "gpt2", "--ids", "1,2", "-n", "2"]
    p = tandem(*words, device="cuda", FAKE_CUDA_DEVICES=0)
    check("no GPU", p.returncode == 2 and "no GPU" in p.stderr, said(p))
    p = tandem(*words, device="auto", FAKE_CUDA_DEVICES=0)
    check("no GPU, auto", p.returncode == 0, said(p))
    p = tandem(*words, device="cuda", TANDEM_CUDA_PLUG="/nowhere.so")
    check("no plug", p.returncode == 2 and "/nowhere.so" in p.stderr, said(p))
    p = tandem(*words, device="auto", TANDEM_CUDA_PLUG="/nowhere.so")
    check("no plug, auto", p.returncode == 0, said(p))
    p = tandem("doctor", device="cuda", FAKE_CUDA_DEVICES=2, TANDEM_NCCL=PLUG.resolve())
    check("doctor", p.returncode == 0 and "Fake GPU 1, 1.0 GiB, compute 9.0" in p.stdout and
          "NCCL 2.28.9" in p.stdout, said(p))
    p = tandem("doctor", device="cuda", FAKE_CUDA_DEVICES=0)
    check("doctor without", p.returncode == 0 and "finds nothing" in p.stdout, said(p))
    p = tandem(*words, device="cuda", FAKE_CUDA_MEMORY=1 << 16)
    check("too small", p.returncode != 0 and "memory" in p.stderr and p.returncode > 0, said(p))


def main():
    generates_the_same()
    choices()
    with tempfile.TemporaryDirectory(prefix="tandem-test-") as tmp:
        trains_the_same(pathlib.Path(tmp))
        gives_back(pathlib.Path(tmp))
    print(f"{passed} passed, {failed} failed")
    return failed > 0


sys.exit(main())
