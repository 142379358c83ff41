#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`make bench-gpu`: what the GPU can do first (reading, copying, a large product), our products beside
cuBLASLt's, then what the program makes of it: prompts, one stream, many together, clients, the time of
each kernel, training, and start to first token, on random weights of the shapes of 1.2B, 8B and a
quarter of 32B; where PyTorch and transformers are, theirs beside it. Shares of the limits, and the report
in build/gpu/bench-gpu.txt. Ends within nine minutes.

GPU_SHAPES=small takes tiny shapes, to try the script; GPU_MODELS=DIR keeps the models there."""
import json
import os
import pathlib
import re
import shutil
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from report import BUILD, Report, describe  # noqa: E402

SMALL = os.environ.get("GPU_SHAPES") == "small"
SHAPES = {"tiny": (["--preset", "tiny"], 1)} if SMALL else {
    "1.2B": (["--preset", "llama-1.2b"], 4),
    "8B": (["--family", "llama", "--vocab", "128256", "--hidden", "4096", "--ff", "14336", "--layers",
            "32", "--heads", "32", "--kv-heads", "8", "--ctx", "8192", "--untied"], 18),
    # its layers, of which 64 would take 66 GB of disk
    "32B/4": (["--family", "llama", "--vocab", "152064", "--hidden", "5120", "--ff", "27648",
               "--layers", "16", "--heads", "40", "--kv-heads", "8", "--ctx", "8192", "--untied"], 20),
}
STREAMS = (4, 8) if SMALL else (8, 64, 256)
ENV = {"TANDEM_DEVICE": os.environ.get("TANDEM_DEVICE", "cuda")}


def lines_of_json(text):
    return [json.loads(line) for line in text.splitlines() if line.startswith("{")]


def limits(r):
    """Zeros where they cannot be measured: then there are no shares."""
    status, out, err = r.run(BUILD / "gpu_limits", most=60)
    if status:
        r.say("          | " + (err or out).strip()[:300])
        return {"read_gb_s": 0, "product_tflop_s": 0}
    found = json.loads(out)
    for name, value in found.items():
        r.figure(name, value)
    return found


def products(r):
    """Ours beside the library's, by rows: its free choice, and the algorithm that is fastest for many
    rows taken for all. What the free choice gains over ours is what equal bits in company cost."""
    status, out, err = r.run(BUILD / "gpu_products", most=75)
    if status:
        r.say("          | " + (err or out).strip()[:300])
    for row in lines_of_json(out):
        free, fixed, mine = row["free"], row["fixed"], row["ours"]
        bits = "keeps" if row["keeps"] else "changes"
        r.figure(f"{row['shape']}, {row['rows']} rows TFLOP/s", mine,
                 f"{mine / free:.0%} of cuBLASLt's {free}; one algorithm for all: {fixed}, which {bits} "
                 "a row's bits" if free else "")


def share(value, limit):
    return f"({value / limit:.0%} of the limit)" if limit else ""


def make(r, folder, name):
    """Parameters of the model, made if it is not there and fits; 0: it does not."""
    words, gb = SHAPES[name]
    path = folder / name.replace("/", "-")
    if not path.exists() and shutil.disk_usage(folder).free < (gb + 2) << 30:
        r.say(f"left out  {name}: {gb} GB of disk are not free")
        return 0
    if path.exists():
        return int((path / "n_param").read_text())
    out = r.step(f"{name}: random weights", BUILD / "tests/tools/make_model", path, *words, most=200,
                 least=60)
    found = re.search(r"(\d+) parameters", out)
    n = int(found[1]) if found else 0
    if n:
        (path / "n_param").write_text(str(n))
    return n


def bench(r, path, what, *words, most=90):
    out = r.step(what, BUILD / "tandem", "bench", *words, "--json", env=ENV, most=most, least=20)
    return lines_of_json(out)


def decode_and_prompts(r, path, name, n, limit):
    for row in bench(r, path, f"{name}: prompt", "engine", path, "--case", "prompt", "--prompt",
                     "32" if SMALL else "2048"):
        tflop = 2 * n * row["tokens_per_s"] / 1e12
        r.figure(f"{name} prompt tokens/s", row["tokens_per_s"],
                 f"{tflop:.0f} TFLOP/s {share(tflop, limit['product_tflop_s'])}")
    one = 0
    for row in bench(r, path, f"{name}: one stream", "engine", path, "--case", "one"):
        one = row["tokens_per_s"]
        r.figure(f"{name} one stream tokens/s", one,
                 f"{row['weight_gbps']} GB/s {share(row['weight_gbps'], limit['read_gb_s'])}")
    for streams in STREAMS:
        for row in bench(r, path, f"{name}: {streams} together", "engine", path, "--case", "together",
                         "--streams", streams):
            rate = row["tokens_per_s"]
            r.figure(f"{name} {streams} streams tokens/s", rate, f"{rate / one:.1f} times one"
                     if one else "")
    for row in bench(r, path, f"{name}: clients", "engine", path, "--case", "clients", "--streams",
                     STREAMS[-2]):
        r.figure(f"{name} {STREAMS[-2]} clients tokens/s", row["tokens_per_s"],
                 f"first token {row['first_ms']} ms")


def kernels(r, path, name):
    """The time of each kernel: what it names is where the next work is."""
    for case in ("prompt", "one"):
        status, out, err = r.run(BUILD / "tandem", "bench", "engine", path, "--case", case, "--rounds",
                                 "2", "--profile", env=ENV, most=60)
        r.say(f"          {name}: kernels of {case}, status {status}")
        for line in (out + err).splitlines()[:40]:
            r.say("          | " + line[:200])


def training(r, path, name, n, limit):
    words = ["--length", "32", "--rows", "2"] if SMALL else ["--length", "1024", "--rows", "4"]
    for rank in ("16", "0") if n < 3e9 else ("16",):
        for row in bench(r, path, f"{name}: training, rank {rank}", "train", path, "--rank", rank,
                         "--steps", "3", *words):
            tflop = row["gflops"] / 1e3
            r.figure(f"{name} training rank {rank} tokens/s", row["tokens_per_s"],
                     f"{tflop:.0f} TFLOP/s {share(tflop, limit['product_tflop_s'])}, "
                     f"{row['peak_mib']} MiB")


def start(r, path, name):
    """From nothing to the first token, the files in the page cache."""
    best = 0
    for _ in range(2):
        began = time.monotonic()
        status, _, err = r.run(BUILD / "tandem", "run", path, "--ids", "1,2,3", "-n", "1",
                               "--ignore-eos", env=ENV, most=60)
        if status:
            r.say(f"FAIL      {name}: start: {err[-300:]}")
            r.failed += 1
            return
        took = time.monotonic() - began
        best = min(best or took, took)
    r.figure(f"{name} start to first token s", round(best, 2))


def main():
    r = Report("bench-gpu", 8.5)
    describe(r)
    limit = limits(r)
    products(r)
    kept = os.environ.get("GPU_MODELS")
    folder = pathlib.Path(kept or tempfile.mkdtemp(prefix="tandem-gpu-"))
    folder.mkdir(parents=True, exist_ok=True)
    try:
        for name in SHAPES:
            n = make(r, folder, name)
            if not n or r.left() < 30:
                continue
            path = folder / name.replace("/", "-")
            start(r, path, name)
            decode_and_prompts(r, path, name, n, limit)
            training(r, path, name, n, limit)
            kernels(r, path, name)
    finally:
        if not kept:
            shutil.rmtree(folder, ignore_errors=True)
    return r.close()


sys.exit(main())
