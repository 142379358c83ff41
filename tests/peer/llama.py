#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""llama.cpp on a GGUF file, to stand beside `tandem bench engine` of the same file.

    tests/peer/llama.py FILE.gguf... [--tandem build/tandem] [--with "--compute int8"]...
                        [--rounds 3] [--threads N] [--case prompt,one,together]

Each program runs each case in turn, in a process of its own: a prompt of 512 tokens, one stream that
decodes behind 64 tokens, 32 streams together behind 64 each. --with says what else the program is
told; each makes a column of its own. A line a case: the medians of tokens a second, their range, and
the ratio to llama.cpp's median.

Needs llama-cpp-python, built on the machine (CMAKE_ARGS=-DGGML_NATIVE=ON), and numpy.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import time

CASES = ("prompt", "one", "together")


def parse(peer, cases):
    p = argparse.ArgumentParser(description=f"{peer} beside tandem bench engine")
    p.add_argument("files", nargs="+")
    p.add_argument("--tandem")
    p.add_argument("--with", dest="more", action="append", default=[])
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--threads", type=int, default=os.cpu_count())
    p.add_argument("--case", default=",".join(cases))
    p.add_argument("--alone", action="store_true", help=f"measure {peer} once, in this process")
    return p.parse_args()


def measure(path, case, threads):
    """Tokens a second of llama.cpp; the best of three, as a bench tells its best."""
    import llama_cpp as lib

    lib.llama_backend_init()
    model = lib.llama_model_load_from_file(path.encode(), lib.llama_model_default_params())
    streams = 32 if case == "together" else 1
    n_new = 16 if case == "together" else 32
    o = lib.llama_context_default_params()
    o.n_ctx = streams * 256 if streams > 1 else 1024
    o.n_batch = o.n_ubatch = 512
    o.n_threads = o.n_threads_batch = threads
    o.n_seq_max = streams
    ctx = lib.llama_init_from_model(model, o)
    mem = lib.llama_get_memory(ctx)
    batch = lib.llama_batch_init(512, 0, 1)

    def feed(rows):
        """rows: (token, position, sequence)"""
        batch.n_tokens = len(rows)
        for i, (token, pos, seq) in enumerate(rows):
            batch.token[i], batch.pos[i], batch.n_seq_id[i] = token, pos, 1
            batch.seq_id[i][0], batch.logits[i] = seq, case != "prompt" or i == len(rows) - 1
        if lib.llama_decode(ctx, batch):
            sys.exit("llama_decode failed")

    def once():
        lib.llama_memory_clear(mem, True)
        if case == "prompt":
            start = time.perf_counter()
            feed([(100 + i * 37 % 1000, i, 0) for i in range(512)])
            return 512 / (time.perf_counter() - start)
        for seq in range(streams):
            feed([(100 + i * 37 % 1000 + seq, i, seq) for i in range(64)])
        start = time.perf_counter()
        for i in range(n_new):
            feed([(100 + i + seq, 64 + i, seq) for seq in range(streams)])
        return streams * n_new / (time.perf_counter() - start)

    once()
    best = max(once() for _ in range(3))
    lib.llama_free(ctx)
    lib.llama_model_free(model)
    return best


def run(cmd):
    out = subprocess.run(cmd, check=True, capture_output=True, text=True).stdout
    return json.loads(out.strip().splitlines()[-1])


def tandem(a, path, case, more):
    cmd = [a.tandem, "bench", "engine", path, "--ctx", "1024", "--rounds", "3", "--case", case]
    got = run(cmd + ["--threads", str(a.threads), "--new-tokens",
                     "16" if case == "together" else "32", "--json", *more.split()])
    return got["tokens"] / got["best_s"]


def told(name, values, base):
    mid = statistics.median(values)
    ratio = f", {mid / base:.2f} times" if base else ""
    print(f"    {name:<32} {mid:8.1f} tokens/s ({min(values):.1f} to {max(values):.1f}){ratio}",
          flush=True)
    return mid


def compare(a, peer, script):
    """The lines of each file and case; with --alone the script measures the peer once."""
    kinds = ["", *a.more] if a.tandem else []
    for path in a.files:
        for case in a.case.split(","):
            theirs, ours = [], {k: [] for k in kinds}
            for _ in range(a.rounds):
                theirs.append(run([sys.executable, script, path, "--alone", "--case", case,
                                   "--threads", str(a.threads)]))
                for k in kinds:
                    ours[k].append(tandem(a, path, case, k))
            print(f"{os.path.basename(path)}, {case}")
            base = told(peer, theirs, None)
            for k in kinds:
                told(f"tandem {k}", ours[k], base)


def main():
    a = parse("llama.cpp", CASES)
    if a.alone:
        print(json.dumps(measure(a.files[0], a.case, a.threads)))
        return
    compare(a, "llama.cpp", __file__)


if __name__ == "__main__":
    main()
