#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A GPU played over the host's memory (tests/fake/cuda), with kernels/ref: what the program says
on it must be, to the last byte, what it says on the CPU with these. The GPU's memory cannot be touched by
the host, and a stream does nothing before somebody waits for it.

Catches: code of the host that reads or writes through a device's pointer; a result that is read
before its stream was waited for; an array that is filled anew under a copy; an address of the host
in a kernel's arguments; things that are not given back; a device that is not there and not missed; a plug of another
build that is taken, and read wrongly."""
import json
import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "lib"))
from serving import Cases, said, scratch  # noqa: E402
from twin import (FAMILIES, MODELS, PLUG, golden_words, tandem, told,  # noqa: E402
                  trains_the_same)

WAYS = ([], ["--mode", "eager"], ["--tp", "2"], ["--tp", "4"], ["--quantize", "int8"],
        ["--quantize", "int4"], ["--quantize", "f32"])
TRAININGS = (("adapter", "--rank", "4", "--lora-dropout", "0.1"), ("full", "--rank", "0"),
             ("adapter over two ranks", "--rank", "4", "--tp", "2"),
             ("full over two and two", "--rank", "0", "--tp", "2", "--dp", "2"))
cases = Cases()
check = cases.check


def generates_the_same():
    """Each family; one call of run per way, the golden's prompt and continuation."""
    for family in FAMILIES:
        words, want = golden_words(family)
        for way in WAYS if family in ("llama_plain", "gpt2") else WAYS[:1]:
            cpu, gpu = tandem(*words, *way, device="cpu"), tandem(*words, *way)
            check(f"{family} {way}", gpu.returncode == 0 and gpu.stdout == cpu.stdout, said(gpu))
            if not way:
                check(f"{family} golden", gpu.stdout.strip() == want, said(gpu))


def gives_back(tmp):
    """What a whole run took is given back."""
    tell = tmp / "tell"
    for words in (["run", MODELS / "gpt2", "--ids", "1,2", "-n", "6"],
                  ["run", MODELS / "qwen3", "--ids", "1,2", "-n", "6", "--tp", "2"]):
        p = tandem(*words, FAKE_CUDA_TELL=tell)
        calls, kept, graphs, *_ = told(tell)
        check(f"launches are kept: {words[1:]}", graphs == (0 if "--tp" in words else 4),
              tell.read_text())
        check(f"given back: {words[1]}", p.returncode == 0 and calls > 50 and kept == 0,
              tell.read_text() + said(p))


def takes_memory_once(tmp):
    """A step like those before asks for no block; what a training takes is the pool's before it begins."""
    tell, data = tmp / "tell", tmp / "steps.jsonl"
    data.write_text("".join(json.dumps({"prompt": "one two", "completion": "three"}) + "\n"
                            for _ in range(12)))
    for name, way in (("adapter", ["--rank", "4"]), ("dora", ["--rank", "4", "--dora"]), ("full", ["--rank", "0"]),
                      ("recomputed", ["--rank", "0", "--recompute", "on"])):
        took = set()
        for batch in (12, 4, 2):  # one step, three, six
            p = tandem("train", "--model", tmp / "m", "--data", data, "--epochs", "1", "--batch", batch,
                       "--micro-batch", "32", "--threads", 1, "--out", tmp / f"once-{name}-{batch}",
                       *way, FAKE_CUDA_TELL=tell)
            check(f"{name}, {batch}", p.returncode == 0, said(p))
            took.add(tuple(told(tell)[4:6]))
        check(f"{name}: blocks and takings of 1, 3 and 6 steps", len(took) == 1, took)
    p = tandem("train", "--model", tmp / "m", "--data", data, "--out", tmp / "none",
               FAKE_CUDA_MEMORY=3 << 19)
    check("too small to train on", p.returncode > 0 and "MB" in p.stderr and "memory" in p.stderr,
          said(p))


def choices():
    """Which device it is, and the words where it is not there."""
    words = ["run", MODELS / "gpt2", "--ids", "1,2", "-n", "2"]
    p = tandem(*words, FAKE_CUDA_DEVICES=0)
    check("no GPU", p.returncode == 2 and "no GPU" in p.stderr, said(p))
    p = tandem(*words, device="auto", FAKE_CUDA_DEVICES=0)
    check("no GPU, auto", p.returncode == 0, said(p))
    p = tandem(*words, TANDEM_CUDA_PLUG="/nowhere.so")
    check("no plug", p.returncode == 2 and "/nowhere.so" in p.stderr, said(p))
    p = tandem(*words, device="auto", TANDEM_CUDA_PLUG="/nowhere.so")
    check("no plug, auto", p.returncode == 0, said(p))
    p = tandem("doctor", FAKE_CUDA_DEVICES=2, TANDEM_NCCL=PLUG)
    check("doctor", p.returncode == 0 and "Fake GPU 1, 1.0 GiB, compute 9.0" in p.stdout and
          "NCCL 2.28.9" in p.stdout, said(p))
    p = tandem("doctor", FAKE_CUDA_DEVICES=0)
    check("doctor without", p.returncode == 0 and "finds nothing" in p.stdout, said(p))
    p = tandem(*words, FAKE_CUDA_MEMORY=1 << 16)
    check("too small", p.returncode != 0 and "memory" in p.stderr and p.returncode > 0, said(p))


def of_other_headers(tmp):
    """The plug as it is but for the sum over its headers. A plug with a sanitizer in it cannot be looked
    into from here, and is the same file but for that."""
    look = ("import ctypes, sys\n"
            "print(ctypes.c_uint32.in_dll(ctypes.CDLL(sys.argv[1]), 'tandem_device_plug').value)")
    p = subprocess.run([sys.executable, "-c", look, PLUG], capture_output=True, text=True, check=False)
    if p.returncode != 0:
        return cases.skip("of other headers", p.stderr.strip().splitlines()[-1])
    abi, plug = int(p.stdout).to_bytes(4, sys.byteorder), pathlib.Path(PLUG).read_bytes()
    other = tmp / "other.so"
    other.write_bytes(plug.replace(abi, bytes(4)))
    p = tandem("run", MODELS / "gpt2", "--ids", "1,2", "-n", "2", TANDEM_CUDA_PLUG=other)
    check("of other headers", p.returncode == 2 and "other.so: it was made of other headers" in p.stderr,
          said(p))


def main():
    generates_the_same()
    choices()
    with scratch() as tmp:
        of_other_headers(tmp)
        trains_the_same(check, tandem, tmp, TRAININGS, 2)
        gives_back(tmp)
        takes_memory_once(tmp)
    return cases.end()


sys.exit(main())
