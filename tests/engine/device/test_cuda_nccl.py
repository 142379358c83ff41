#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Ranks with a GPU each, over NCCL: played over the host's memory (tests/fake/cuda), for NCCL as for
CUDA. What is generated and trained must be, to the last byte, what ranks of the CPU make of it, and
decoding must be kept as graphs with the collectives in them. Then the n-th call to NCCL or to CUDA
fails, at once or afterwards, or a rank's collectives are never reached: that ends with a line that
says so within ten seconds, and nothing is kept. Some n of each; TEST_ATTACK=full: all.

Catches: sums in another order than the ranks'; a collective that runs before its vector is there, or
whose memory is used again too early; a step that is kept without its collectives; a wait that does not
look whether the others still come; a communicator or a mark that is not given back."""
import hashlib
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

TANDEM = os.environ.get("TANDEM_BIN", "build/release/tandem")
BUILD = pathlib.Path(os.environ.get("TANDEM_BUILD", "build/release"))
PLUG = str((BUILD / "tests/fake/cuda/plug.so").resolve())
MODELS = pathlib.Path("tests/golden/models")
FULL = os.environ.get("TEST_ATTACK") == "full"
EACH = 6  # of a walk, where it is not full
HANG_S = 120
passed, failed = 0, 0


def check(name, ok, detail=""):
    global passed, failed
    passed, failed = passed + bool(ok), failed + (not ok)
    if not ok:
        print(f"FAIL {name}: {detail}")


def said(p):
    return f"status {p.returncode}, stdout {p.stdout[-200:]!r}, stderr {p.stderr[-500:]!r}"


def tandem(*words, device="cuda", **env):
    env = {"TANDEM_CUDA_PLUG": PLUG, "TANDEM_NCCL": PLUG, "FAKE_CUDA_DEVICES": 4,
           "TANDEM_DEVICE": device, "TANDEM_KERNELS": "ref", **env}
    return subprocess.run([TANDEM, *map(str, words)], stdin=subprocess.DEVNULL, text=True,
                          capture_output=True, check=False, timeout=HANG_S,
                          env={**os.environ, **{k: str(v) for k, v in env.items()}})


def numbers(path):
    """Of a line "name number ..."; none where nothing was told."""
    return [int(w) for w in path.read_text().split()[1::2]] if path.exists() else []


def run_words(family, *way):
    return ["run", MODELS / family, "--ids", "3,4,5", "-n", "6", "--ignore-eos", "--threads", "2", *way]


def generates_the_same(tmp):
    for family, tp in (("llama_plain", 2), ("llama_plain", 4), ("gpt2", 2)):
        words = run_words(family, "--tp", tp)
        cpu, gpu = tandem(*words, device="cpu"), tandem(
            *words, FAKE_CUDA_TELL=tmp / "cuda", FAKE_NCCL_TELL=tmp / "nccl")
        check(f"{family} over {tp}", gpu.returncode == 0 and gpu.stdout == cpu.stdout, said(gpu))
        (_, kept, graphs, _), calls = numbers(tmp / "cuda"), numbers(tmp / "nccl")
        check(f"{family} over {tp}: steps are kept", graphs == 4 * tp and calls, f"{graphs} {calls}")
        check(f"{family} over {tp}: given back", kept == 0, f"{kept} kept")
    p = tandem(*run_words("llama_plain", "--tp", 2), TANDEM_NCCL="/nowhere.so",
               FAKE_CUDA_TELL=tmp / "cuda")
    check("without NCCL", p.returncode == 0 and numbers(tmp / "cuda")[2] == 0, said(p))


def digest(folder):
    return {str(p.relative_to(folder)): hashlib.sha256(p.read_bytes()).hexdigest()
            for p in sorted(folder.rglob("*.safetensors"))}


def trains_the_same(tmp):
    data = tmp / "rows.jsonl"
    data.write_text("".join(json.dumps({"prompt": "one " * (i % 5 + 1), "completion": "two"}) + "\n"
                            for i in range(12)))
    subprocess.run([BUILD / "tests/tools/make_model", tmp / "m", "--seed", "3"], check=True,
                   stdout=subprocess.DEVNULL)
    for name, way in (("two", ["--rank", "4", "--tp", "2"]),
                      ("two and two", ["--rank", "0", "--tp", "2", "--dp", "2"])):
        out = {}
        for device in ("cpu", "cuda"):
            to = tmp / f"{name}-{device}"
            p = tandem("train", "--model", tmp / "m", "--data", data, "--out", to, "--epochs", "1",
                       "--batch", "4", *way, device=device)
            check(f"train over {name} on {device}", p.returncode == 0, said(p))
            out[device] = digest(to)
        check(f"train over {name}: same files", out["cpu"] and out["cpu"] == out["cuda"], str(out))


def is_told(p):
    lines = [s for s in p.stderr.splitlines() if s.startswith("tandem run: ")]
    return p.returncode in (1, 2) and len(lines) == 1 and \
        any(w in lines[0] for w in ("NCCL", "GPU", "memory"))


def fails(name, want, tell, **env):
    began = time.monotonic()
    p = tandem(*run_words("llama_plain", "--tp", 2), FAKE_CUDA_TELL=tell, **env)
    took, found = time.monotonic() - began, numbers(tell)
    ok = is_told(p) if p.returncode else p.stdout == want
    check(name, ok and found and found[1] == 0, f"{said(p)} {found}")
    return p, took


def walks(tmp):
    tell = tmp / "cuda"
    good = tandem(*run_words("llama_plain", "--tp", 2), FAKE_CUDA_TELL=tell,
                  FAKE_NCCL_TELL=tmp / "nccl")
    n_cuda, n_nccl = numbers(tell)[0], numbers(tmp / "nccl")[0]
    for k, how in enumerate(("once", "later")):
        step = 1 if FULL else max(1, n_nccl // EACH)
        for n in range(1 + k * step // 2, n_nccl + 1, step):
            fails(f"NCCL's call {n} of {n_nccl}, {how}", good.stdout, tell, FAKE_NCCL_FAIL=n,
                  FAKE_NCCL_HOW=how)
    for k, how in enumerate(("once", "memory", "stays")):
        step = 1 if FULL else max(1, n_cuda // EACH)
        for n in range(1 + k * step // 3, n_cuda + 1, step):
            fails(f"CUDA's call {n} of {n_cuda}, {how}", good.stdout, tell, FAKE_CUDA_FAIL=n,
                  FAKE_CUDA_HOW=how)
    for n in (range(4, n_nccl - 2) if FULL else (20,)):
        p, took = fails(f"never, from {n}", good.stdout, tell, FAKE_NCCL_FAIL=n,
                        FAKE_NCCL_HOW="never")
        check(f"never, from {n}: is missed", p.returncode == 1 and took < 60 and
              "not all ranks came within 8.0 s" in p.stderr, f"{took:.1f} s, {said(p)}")


def main():
    with tempfile.TemporaryDirectory(prefix="tandem-test-") as tmp:
        tmp = pathlib.Path(tmp)
        generates_the_same(tmp)
        trains_the_same(tmp)
        walks(tmp)
    print(f"{passed} passed, {failed} failed")
    return failed > 0


sys.exit(main())
