#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`make bench-gpu`: what the GPU can do first (reading, copying, a large product), our products beside
cuBLASLt's, then what the program makes of it, on random weights of the shapes of 8B, 1.2B and 32B:
start to first token, prompts, one stream and many, a server with its clients, training, collectives,
the time of each kernel; beside PyTorch and transformers, where they are. The most valuable comes first,
and none takes another down. The report, with a line for each aim, is build/gpu/bench-gpu.txt and ends
within nine minutes.

GPU=fake takes tiny shapes, the twin of CUDA's runtime, and for the vendor's library made-up numbers: to
try the script itself. GPU_MODELS=DIR keeps the models there. GPU_MINUTES=X: the time in all."""
import os
import pathlib
import shutil
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import program  # noqa: E402
from report import BUILD, FAKE, Report, describe, lines_of_json  # noqa: E402

MINUTES = float(os.environ.get("GPU_MINUTES", 8.6))
PLAYED = {"read_gb_s": 4000, "copy_gb_s": 4000, "product_tflop_s": 800}


class Bench:
    """What sections hand on to later ones."""

    def __init__(self, folder):
        self.folder = folder  # of models
        self.limit = {"read_gb_s": 0, "copy_gb_s": 0, "product_tflop_s": 0}
        self.got = {}  # figures by (model, what)
        self.law2 = None


def limits(r, b):
    """Zeros where they cannot be measured: then there are no shares."""
    status, out, err = (0, "", "") if FAKE else r.run(BUILD / "gpu_limits", most=60)
    found = PLAYED if FAKE else (lines_of_json(out) or [{}])[0]
    if status or not found:
        r.verdict("the GPU's limits", False, err or out)
        found = beside(r, "limits")
    b.limit.update(found)
    for name, value in b.limit.items():
        r.figure(name, value)


# ---- products ----

def played_products():
    rows = ({"shape": s, "n": n, "k": k, "rows": m, "free": 2.0, "fixed": 1.9, "keeps": True, "ours": 1.95}
            for s, n, k in (("8B q,k,v", 6144, 4096), ("8B down", 4096, 14336)) for m in (1, 256))
    return list(rows)


def cost_of_equal_bits(rows):
    """By number of rows: how much longer 8B's products take than with the library's free choice."""
    cost = {}
    for m in sorted({row["rows"] for row in rows}):
        ours = free = 0.0
        for row in rows:
            if row["rows"] == m and row["shape"].startswith("8B") and row["free"] and row["ours"]:
                ours += row["n"] * row["k"] / row["ours"]
                free += row["n"] * row["k"] / row["free"]
        if free:
            cost[m] = ours / free - 1
    return cost


def products(r, b):
    """Ours beside the library's, by rows: its free choice, and the algorithm that is fastest for many
    rows taken for all. What the free choice gains over ours is what equal bits in company cost."""
    status, out, err = (0, "", "") if FAKE else r.run(BUILD / "gpu_products", most=75)
    rows = played_products() if FAKE else lines_of_json(out)
    if status:
        r.verdict("products beside the library's", False, err or out)
    for row in rows:
        free, fixed, mine = row["free"], row["fixed"], row["ours"]
        bits = "keeps" if row["keeps"] else "changes"
        r.figure(f"{row['shape']}, {row['rows']} rows TFLOP/s", mine,
                 f"{mine / free:.0%} of cuBLASLt's {free}; one algorithm for all: {fixed}, which {bits} "
                 "a row's bits" if free else "")
    cost = cost_of_equal_bits(rows)
    for m, part in cost.items():
        r.figure(f"8B's products, {m} rows: longer than by the library's free choice", round(part, 3))
    b.law2 = sum(cost.values()) / len(cost) if cost else None


# ---- beside PyTorch ----

def beside(r, what, *words, most=100):
    """A line of JSON of what PyTorch makes of the same; {}: there is none, or it could not."""
    script = pathlib.Path(__file__).resolve().parent / "beside_torch.py"
    status, out, err = r.run("python3", script, what, *words, most=most)
    for line in (err if status else "").splitlines()[-3:]:
        r.say("          | PyTorch: " + line[:300])
    merged = {}
    for line in lines_of_json(out):
        merged.update(line)
    return merged


def beside_pytorch(r, b):
    """The same shapes in the same minutes; ours were measured by the sections before."""
    about = beside(r, "about", most=60)
    if not about.get("torch"):
        r.leave_out("PyTorch beside", f"python3 has no PyTorch here ({about.get('why', 'no python3')})")
        return
    r.say(f"          | PyTorch {about['torch']}, transformers {about.get('transformers', 'none')}, "
          f"on {about['device']}")
    for name in program.BESIDE:
        theirs = beside(r, "model", *program.torch_words(name), most=110)
        for what, value in theirs.items():
            mine = b.got.get((name, what))
            if isinstance(value, str):
                r.say(f"          | PyTorch {name} {what}: {value}")
                continue
            r.figure(f"PyTorch {name} {what}", value,
                     f"ours {mine:.4g}, {mine / value:.2f} times" if mine and value else "")


# ---- all ----

def aims(r, b):
    """The aims on a GPU, a line each, whether or not they could be measured."""
    got = b.got.get
    read, peak = b.limit["read_gb_s"], b.limit["product_tflop_s"]
    percent = program.percent
    r.aim("8B bf16, one stream: of the measured bandwidth", percent(got(("8B", "read GB/s")), read), 80, "%")
    r.aim("8B bf16, prompts: of the measured bf16 rate", percent(got(("8B", "prompt TFLOP/s")), peak), 70,
          "%")
    many, one = got(("8B", f"decode {program.MANY}")), got(("8B", "decode 1"))
    r.aim(f"8B bf16, {program.MANY} streams together: of one after another",
          many / one if many and one else None, 100, "times")
    r.aim("law 2 costs (mean over rows of 8B's products)", None if b.law2 is None else 100 * b.law2, 5,
          "%", at_most=True)
    r.aim("8B from page cache to first token", got(("8B", "start s")), 3, "s", at_most=True)
    r.aim("8B LoRA training: of the measured bf16 rate", percent(got(("8B", "LoRA TFLOP/s")), peak), 50, "%")
    r.aim("the server's own time between steps", got(("8B", "between %")), 3, "%", at_most=True)


def run_all(r, b):
    """Each with the seconds that it may take."""
    p = program
    r.section("the GPU's limits", 70, limits, b)
    r.section("8B: weights, start", 120, p.make_and_start, b, "8B")
    r.section("8B: one stream, prompts, many streams", 110, p.engine, b, "8B")
    r.section("8B: LoRA training", 60, p.training, b, "8B", (16,))
    r.section("8B: a server", 80, p.server, b, "8B")
    r.section("products beside cuBLASLt's", 80, products, b)
    r.section("8B: time of each kernel", 40, p.kernels, b, "8B")
    r.section("1.2B: weights, start", 40, p.make_and_start, b, "1.2B")
    r.section("1.2B: engine", 50, p.engine, b, "1.2B")
    r.section("1.2B: training", 50, p.training, b, "1.2B", (16, 0))
    r.section("beside PyTorch", 180, beside_pytorch, b)
    r.section("collectives", 60, p.collectives, b)
    r.section("32B in bf16", 60, p.large, b, "none")
    r.section("8B in int8", 40, p.engine_int8, b, "8B")
    r.section("32B in int8", 60, p.large, b, "int8")


def main():
    r = Report("bench-gpu", MINUTES)
    kept = os.environ.get("GPU_MODELS")
    folder = pathlib.Path(kept or tempfile.mkdtemp(prefix="tandem-gpu-", dir=program.room()))
    b = Bench(folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        r.section("machine", 60, describe)
        run_all(r, b)
    finally:
        if not kept:
            shutil.rmtree(folder, ignore_errors=True)
        aims(r, b)
        failed = r.close()
    return failed


if __name__ == "__main__":
    sys.exit(main())
