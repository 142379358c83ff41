#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The n-th call to CUDA fails, for n over a whole start, generation and training, on a GPU played
over the host's memory (tests/fake/cuda): there is no memory, one call fails, it and all behind it do,
or it takes long; or the n-th block of memory is not there. What the call was to do ends with a line that says so, or was not needed; nothing
crashes, hangs, is kept, or gives a wrong answer. Some n of each; TEST_ATTACK=full: all.

Catches: an answer of CUDA's that nobody looks at; a clean-up that takes a half-built thing for a whole
one; a result that is given though its step failed."""
import os
import pathlib
import shutil
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "lib"))
from serving import Cases, make_model, scratch  # noqa: E402
from twin import MODELS, tandem, told, write_rows  # noqa: E402

FULL = os.environ.get("TEST_ATTACK") == "full"
EACH = 12  # of a walk, where it is not full
cases = Cases()
check = cases.check


def run(words, tell, n=0, how="once"):
    """What came of it, how many things were kept, the calls there were, and the blocks of memory."""
    tell.unlink(missing_ok=True)
    p = tandem(*words, FAKE_CUDA_TELL=tell, FAKE_CUDA_FAIL=n, FAKE_CUDA_HOW=how)
    calls, kept, _, _, blocks, *_ = told(tell) or (0, None, 0, 0, 0)
    return p, kept, calls, blocks


def is_told(p):
    """One of the program's own lines, with what CUDA said, or that memory is short."""
    return p.returncode in (1, 2) and ("GPU" in p.stderr or "memory" in p.stderr) and \
        "tandem" in p.stderr


def walk(name, words, tmp, answer=lambda p: p.stdout, clean=lambda: None):
    tell = tmp / "tell"
    good, kept, calls, blocks = run(words, tell)
    check(f"{name}: without a fault", good.returncode == 0 and kept == 0, good.stderr[-500:])
    want = answer(good)
    for k, how in enumerate(("once", "memory", "stays", "stalls", "block")):
        most = blocks if how == "block" else calls
        step = 1 if FULL else max(1, most // EACH)
        more = 20 if how == "stalls" else 1
        for n in range(1 + k * step // 5, most + 1, step * more):
            clean()
            p, kept, *_ = run(words, tell, n, how)
            ok = kept == 0 and (is_told(p) if p.returncode else answer(p) == want)
            ok = ok and (p.returncode == 0 or how != "stalls")
            ok = ok and (p.returncode == 0 or how != "block" or "MB are free" in p.stderr or
                         "no memory for" in p.stderr)
            check(f"{name}: {n} of {most}, {how}", ok,
                  f"status {p.returncode}, kept {kept}, {p.stdout[-200:]!r} {p.stderr[-300:]!r}")


def main():
    with scratch() as tmp:
        words = ["run", MODELS / "llama_plain", "--ids", "3,4,5", "-n", "3", "--ignore-eos",
                 "--threads", "2"]
        walk("run", words, tmp)
        walk("run, eager", [*words, "--mode", "eager"], tmp)
        walk("run, two ranks", [*words, "--tp", "2"], tmp)
        data, out = write_rows(tmp / "rows.jsonl", 4), tmp / "out"
        make_model(tmp / "m")
        train = ["train", "--model", tmp / "m", "--data", data, "--out", out, "--epochs", "1",
                 "--batch", "4", "--rank", "2", "--threads", "2"]

        def result(_):
            return {p.name: p.read_bytes() for p in sorted(out.rglob("*.safetensors"))}

        walk("train", train, tmp, result, lambda: shutil.rmtree(out, ignore_errors=True))
    return cases.end()


sys.exit(main())
