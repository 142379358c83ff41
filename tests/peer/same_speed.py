#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Two builds of this program beside each other: does a change make anything slower?

    tests/peer/same_speed.py OLD NEW --model NAME=DIR... [--rounds 7] [--only kernels|engine|train] [--bound 1.02]

OLD and NEW are build folders (build/release of two trees). What both can measure (`tandem-kernels bench`,
`tandem bench engine`, `tandem bench train`) is run in turn, old and new changing places from round to round. A line for
each figure: the median time of new over old, which is the median of the rounds' ratios, and the quarter and
three quarters of them. A figure above the bound is measured again with three times the rounds; what is still
above it is counted in the last line. Meant for a machine that does nothing else.
"""
import argparse
import json
import re
import statistics
import subprocess
import sys

KERNELS = ["linear_f32", "linear_bf16", "linear_int8", "linear_dx_f32", "linear_dx_bf16", "linear_dx_int8",
           "linear_dw_f32", "linear_dw_bf16", "attn", "attn_bwd_kv", "attn_bwd_q", "lora", "lora_bwd", "lora_dw",
           "rmsnorm", "layernorm", "swiglu", "embed", "gather", "ce_fwd", "ce_bwd", "adamw_weight", "argmax", "sample",
           "top_select", "rows_pack"]
CASES = ["one", "prompt", "together", "served", "burst"]  # `clients` takes minutes, and is made of these
ENGINE = {**{f" {case}": ["--case", case] for case in CASES},
          **{f" int8 {case}": ["--quantize", "int8", "--case", case] for case in CASES[:3]},
          " adapters": ["--case", "together", "--adapters", 4]}
TRAIN = {" adapter": ["--rank", 16], " all": ["--rank", 0], " checkpoint": ["--rank", 16, "--checkpoint"]}


def run(*words):
    done = subprocess.run([str(w) for w in words], capture_output=True, text=True)
    return done.stdout if done.returncode == 0 else ""


def kernel_times(build, name):
    """Nanoseconds by kernel, shape, rows and threads; the level's name is left out."""
    line = re.compile(r"^(\S+)\s+\S+\s+(.*?)\s+rows\s+(\d+) threads (\d+)\s+(\d+) ns")
    found = {}
    for text in run(f"{build}/tandem-kernels", "bench", name, "--threads", 2).splitlines():
        m = line.match(text)
        if m and m[1] == name:
            found[f"{m[1]} {m[2].strip()} rows {m[3]}"] = float(m[5])
    return found


def json_times(*words):
    """Seconds of a token, by case."""
    lines = [json.loads(text) for text in run(*words).splitlines() if text.startswith("{")]
    return {line.get("case", "step"): 1 / line["tokens_per_s"] for line in lines if line.get("tokens_per_s")}


def jobs_of(models, only):
    """A name and how a build is asked for its figures."""
    if only in (None, "kernels"):
        for name in KERNELS:
            yield name, lambda build, name=name: kernel_times(build, name)
    for model, folder in models.items():
        for title, words in ENGINE.items() if only in (None, "engine") else ():
            yield f"engine {model}{title}", lambda build, folder=folder, words=words: json_times(
                f"{build}/tandem", "bench", "engine", folder, "--ctx", 1024, "--json", "--rounds", 3, *words)
        for title, words in TRAIN.items() if only in (None, "train") else ():
            yield f"train {model}{title}", lambda build, folder=folder, words=words: json_times(
                f"{build}/tandem", "bench", "train", folder, "--length", 256, "--steps", 3, "--json", *words)


def measure(job, old, new, rounds):
    """The rounds' ratios of each figure that both builds have."""
    ratios = {}
    for i in range(rounds):
        first, second = (old, new) if i % 2 == 0 else (new, old)
        a, b = job(first), job(second)
        was, now = (a, b) if i % 2 == 0 else (b, a)
        for key in was.keys() & now.keys():
            ratios.setdefault(key, []).append(now[key] / was[key])
    return ratios


def main():
    p = argparse.ArgumentParser()
    p.add_argument("old")
    p.add_argument("new")
    p.add_argument("--model", action="append", default=[])
    p.add_argument("--rounds", type=int, default=7)
    p.add_argument("--only", choices=["kernels", "engine", "train"])
    p.add_argument("--match", default="", help="only jobs whose name holds this")
    p.add_argument("--bound", type=float, default=1.02)
    args = p.parse_args()
    good = bad = 0
    for name, job in jobs_of(dict(m.split("=", 1) for m in args.model), args.only):
        if args.match not in name:
            continue
        ratios = measure(job, args.old, args.new, args.rounds)
        if any(statistics.median(r) > args.bound for r in ratios.values()):
            for key, more in measure(job, args.old, args.new, 3 * args.rounds).items():
                ratios[key] += more
        for key, r in sorted(ratios.items()):
            q = statistics.quantiles(r, n=4) if len(r) > 1 else [r[0]] * 3
            above = q[1] > args.bound
            good, bad = good + (not above), bad + above
            title = key if name in KERNELS else f"{name}, {key}"
            print(f"{'ABOVE' if above else 'good '} {q[1]:.3f} ({q[0]:.3f} to {q[2]:.3f}, {len(r)} rounds) {title}", flush=True)
    print(f"{good} good, {bad} above {args.bound}")
    return bad > 0


if __name__ == "__main__":
    sys.exit(main())
