#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The n-th call to CUDA fails, for n over a whole start, generation and training, on a GPU played
over the host's memory (tests/fake/cuda): there is no memory, one call fails, it and all behind it do,
or it takes long. What the call was to do ends with a line that says so, or was not needed; nothing
crashes, hangs, is kept, or gives a wrong answer. Some n of each; TEST_ATTACK=full: all.

Catches: an answer of CUDA's that nobody looks at; a clean-up that takes a half-built thing for a whole
one; a result that is given though its step failed."""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

TANDEM = os.environ.get("TANDEM_BIN", "build/release/tandem")
BUILD = pathlib.Path(os.environ.get("TANDEM_BUILD", "build/release"))
PLUG = BUILD / "tests/fake/cuda/plug.so"
MODEL = pathlib.Path("tests/golden/models/llama_plain")
FULL = os.environ.get("TEST_ATTACK") == "full"
EACH = 12  # of a walk, where it is not full
HANG_S = 120
passed, failed = 0, 0


def check(name, ok, detail=""):
    global passed, failed
    passed, failed = passed + bool(ok), failed + (not ok)
    if not ok:
        print(f"FAIL {name}: {detail}")


def tandem(words, tell, n=0, how="once"):
    env = {**os.environ, "TANDEM_CUDA_PLUG": str(PLUG.resolve()), "TANDEM_DEVICE": "cuda",
           "FAKE_CUDA_TELL": str(tell), "FAKE_CUDA_FAIL": str(n), "FAKE_CUDA_HOW": how}
    p = subprocess.run([TANDEM, *map(str, words)], stdin=subprocess.DEVNULL, text=True,
                       capture_output=True, check=False, env=env, timeout=HANG_S)
    calls, kept = (0, "?")
    if tell.exists():
        calls, kept, *_ = tell.read_text().split()[1::2]
        tell.unlink()
    return p, int(calls), kept


def is_told(p):
    """One of the program's own lines, with what CUDA said, or that memory is short."""
    return p.returncode in (1, 2) and ("GPU" in p.stderr or "memory" in p.stderr) and \
        "tandem" in p.stderr


def walk(name, words, tmp, answer=lambda p: p.stdout, clean=lambda: None):
    tell = tmp / "tell"
    good, calls, kept = tandem(words, tell)
    check(f"{name}: without a fault", good.returncode == 0 and kept == "0", good.stderr[-500:])
    want = answer(good)
    step = 1 if FULL else max(1, calls // EACH)
    for k, how in enumerate(("once", "memory", "stays", "stalls")):
        more = 20 if how == "stalls" else 1
        for n in range(1 + k * step // 4, calls + 1, step * more):
            clean()
            p, _, kept = tandem(words, tell, n, how)
            ok = kept == "0" and (is_told(p) if p.returncode else answer(p) == want)
            ok = ok and (p.returncode == 0 or how != "stalls")
            check(f"{name}: call {n} of {calls}, {how}", ok,
                  f"status {p.returncode}, kept {kept}, {p.stdout[-200:]!r} {p.stderr[-300:]!r}")


def main():
    with tempfile.TemporaryDirectory(prefix="tandem-test-") as tmp:
        tmp = pathlib.Path(tmp)
        run = ["run", MODEL, "--ids", "3,4,5", "-n", "3", "--ignore-eos", "--threads", "2"]
        walk("run", run, tmp)
        walk("run, eager", [*run, "--mode", "eager"], tmp)
        walk("run, two ranks", [*run, "--tp", "2"], tmp)
        data, out = tmp / "rows.jsonl", tmp / "out"
        data.write_text("".join(json.dumps({"prompt": "one", "completion": "two"}) + "\n"
                                for _ in range(4)))
        subprocess.run([BUILD / "tests/tools/make_model", tmp / "m"], check=True,
                       stdout=subprocess.DEVNULL)
        train = ["train", "--model", tmp / "m", "--data", data, "--out", out, "--epochs", "1",
                 "--batch", "4", "--rank", "2", "--threads", "2"]

        def result(_):
            return {p.name: p.read_bytes() for p in sorted(out.rglob("*.safetensors"))}

        walk("train", train, tmp, result, lambda: subprocess.run(["rm", "-rf", out], check=True))
    print(f"{passed} passed, {failed} failed")
    return failed > 0


sys.exit(main())
