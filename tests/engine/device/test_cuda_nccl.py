#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Ranks with a GPU each, over NCCL: played over the host's memory (tests/fake/cuda), for NCCL as for
CUDA. What is generated and trained must be, to the last byte, what ranks of the CPU make of it, and
decoding must be kept as graphs with the collectives in them. Then the n-th call to NCCL or to CUDA
fails, at once or afterwards, or a rank's collectives are never reached: that ends with a line that
says so, and nothing is kept. Some n of each; TEST_ATTACK=full: all.

Catches: sums in another order than the ranks'; a collective that runs before its vector is there, or
whose memory is used again too early; a step that is kept without its collectives; a wait that does not
look whether the others still come; a communicator or a mark that is not given back."""
import os
import pathlib
import shutil
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "lib"))
from serving import Cases, make_model, said, scratch  # noqa: E402
from twin import MODELS, PLUG, digest, tandem as alone, told, trains_the_same, write_rows  # noqa: E402

FULL = os.environ.get("TEST_ATTACK") == "full"
EACH = 6  # of a walk, where it is not full
cases = Cases()
check = cases.check


def tandem(*words, **env):
    """As ranks have it: four GPUs, and NCCL for them."""
    return alone(*words, **{"TANDEM_NCCL": PLUG, "FAKE_CUDA_DEVICES": 4, **env})


def run_words(family, *way):
    return ["run", MODELS / family, "--ids", "3,4,5", "-n", "6", "--ignore-eos", "--threads", "2", *way]


def generates_the_same(tmp):
    for family, tp in (("llama_plain", 2), ("llama_plain", 4), ("gpt2", 2)):
        words = run_words(family, "--tp", tp)
        cpu, gpu = tandem(*words, device="cpu"), tandem(
            *words, FAKE_CUDA_TELL=tmp / "cuda", FAKE_NCCL_TELL=tmp / "nccl")
        check(f"{family} over {tp}", gpu.returncode == 0 and gpu.stdout == cpu.stdout, said(gpu))
        (_, kept, graphs, *_), calls = told(tmp / "cuda"), told(tmp / "nccl")
        check(f"{family} over {tp}: steps are kept", graphs == 4 * tp and calls, f"{graphs} {calls}")
        check(f"{family} over {tp}: given back", kept == 0, f"{kept} kept")
    p = tandem(*run_words("llama_plain", "--tp", 2), TANDEM_NCCL="/nowhere.so",
               FAKE_CUDA_TELL=tmp / "cuda")
    check("without NCCL", p.returncode == 0 and told(tmp / "cuda")[2] == 0, said(p))


def sums_beside(tmp):
    """Copies of the model, whose gradients are summed beside the backward; the last rank may have no
    rows."""
    data = write_rows(tmp / "rows.jsonl")
    make_model(tmp / "copied", "--seed", 3)
    for name, way in (("two copies", ["--rank", "0", "--dp", "2"]),
                      ("four copies", ["--rank", "4", "--dp", "4"])):
        out = {}
        for device in ("cpu", "cuda"):
            to = tmp / f"{name}-{device}"
            p = tandem("train", "--model", tmp / "copied", "--data", data, "--out", to, "--epochs", "1",
                       "--batch", "4", *way, device=device, FAKE_NCCL_TELL=tmp / "nccl")
            check(f"train {name} on {device}", p.returncode == 0, said(p))
            out[device] = digest(to)
        check(f"train {name}: beside the backward", told(tmp / "nccl")[1] > 0, said(p))
        check(f"train {name}: same files", out["cpu"] and out["cpu"] == out["cuda"], str(out))


def is_told(p):
    lines = [s for s in p.stderr.splitlines() if s.startswith(("tandem run: ", "tandem train: "))]
    return p.returncode in (1, 2) and len(lines) == 1 and \
        any(w in lines[0] for w in ("NCCL", "GPU", "memory"))


def fails(name, want, tell, **env):
    p = tandem(*run_words("llama_plain", "--tp", 2), FAKE_CUDA_TELL=tell, **env)
    found = told(tell)
    ok = is_told(p) if p.returncode else p.stdout == want
    check(name, ok and found and found[1] == 0, f"{said(p)} {found}")
    return p


def training_fails(tmp):
    """In its steps, with sums under way beside the backward."""
    tell, out = tmp / "cuda", tmp / "out"
    words = ["train", "--model", tmp / "copied", "--data", tmp / "rows.jsonl", "--out", out, "--epochs", "1",
             "--batch", "4", "--rank", "2", "--dp", "2", "--threads", "2"]

    def go(**env):
        shutil.rmtree(out, ignore_errors=True)
        p = tandem(*words, FAKE_CUDA_TELL=tell, FAKE_NCCL_TELL=tmp / "nccl", **env)
        return p, told(tell), digest(out) if p.returncode == 0 else None

    def one(twin, n, most, how):
        p, found, got = go(**{f"FAKE_{twin}_FAIL": n, f"FAKE_{twin}_HOW": how})
        ok = got == want if p.returncode == 0 else is_told(p)
        check(f"training, {twin}'s {n} of {most}, {how}", ok and found and found[1] == 0,
              f"{said(p)} {found}")

    _, (n_cuda, *_, n_copy), want = go()
    for twin, n_call, ways in (("NCCL", told(tmp / "nccl")[0], ("once", "later")),
                               ("CUDA", n_cuda, ("once", "stays"))):
        for k, how in enumerate(ways):
            step = 1 if FULL else max(1, n_call // EACH)
            for n in range(n_call // 2 + k * step // 3, n_call + 1, step):
                one(twin, n, n_call, how)
    for n in range(n_copy // 2 if FULL else n_copy - EACH + 1, n_copy + 1):  # the steps' rows
        one("CUDA", n, n_copy, "copy")


def walks(tmp):
    tell = tmp / "cuda"
    good = tandem(*run_words("llama_plain", "--tp", 2), FAKE_CUDA_TELL=tell,
                  FAKE_NCCL_TELL=tmp / "nccl")
    n_cuda, n_nccl = told(tell)[0], told(tmp / "nccl")[0]
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
        p = fails(f"never, from {n}", good.stdout, tell, FAKE_NCCL_FAIL=n,
                  FAKE_NCCL_HOW="never")
        check(f"never, from {n}: is missed", p.returncode == 1 and
              "not all ranks came within 8.0 s" in p.stderr, said(p))


def main():
    with scratch() as tmp:
        generates_the_same(tmp)
        trains_the_same(check, tandem, tmp, (("over two", "--rank", "4", "--tp", "2"),
                                             ("over two and two", "--rank", "0", "--tp", "2",
                                              "--dp", "2")), 1)
        sums_beside(tmp)
        training_fails(tmp)
        walks(tmp)
    return cases.end()


sys.exit(main())
