# SPDX-License-Identifier: Apache-2.0
"""Sections of bench.py that run the program: models of random weights, the engine, a server with its
clients, training, collectives. Each puts what it found into b.got, by model and what it is."""
import os
import pathlib
import re
import shutil
import sys
import time

from machine import cuda_environment
from report import BUILD, FAKE, ROOT, gpu_environment, lines_of_json

sys.path.insert(0, str(ROOT / "tests/lib"))
from serving import Tandem  # noqa: E402

TINY = ["--preset", "tiny", "--ctx", "1024"]
SHAPES = {  # options of make_model
    "1.2B": TINY if FAKE else ["--preset", "llama-1.2b"],
    "8B": TINY if FAKE else [
        "--family", "llama", "--vocab", "128256", "--hidden", "4096", "--ff", "14336", "--layers", "32",
        "--heads", "32", "--kv-heads", "8", "--ctx", "8192", "--untied"],
    "32B": TINY if FAKE else [
        "--family", "llama", "--vocab", "152064", "--hidden", "5120", "--ff", "27648", "--layers", "64",
        "--heads", "40", "--kv-heads", "8", "--ctx", "8192", "--untied"],
}
FILE_GB = {"1.2B": 4, "8B": 18}
STREAMS = (2, 4) if FAKE else (8, 64, 256)
MANY = STREAMS[-1]
PROMPT = 32 if FAKE else 2048
BESIDE = ("8B", "1.2B")


def room():
    """Where models lie in memory, if there is enough: then the page cache has them for certain."""
    shm = "/dev/shm"
    if os.path.isdir(shm) and os.access(shm, os.W_OK) and shutil.disk_usage(shm).free > 24 << 30:
        return shm
    return None


def percent(value, limit):
    return 100 * value / limit if value and limit else None


def share(value, limit):
    return f"({value / limit:.0%} of the limit)" if limit else ""


def shape_of(path):
    """What the program's own arithmetic needs of a model's config.json."""
    import json
    c = json.loads((path / "config.json").read_text())
    heads, hidden = c["num_attention_heads"], c["hidden_size"]
    return {"layers": c["num_hidden_layers"], "width": heads * (c.get("head_dim") or hidden // heads),
            "is_tied": bool(c.get("tie_word_embeddings")),
            "outside": c["vocab_size"] * hidden * (1 if c.get("tie_word_embeddings") else 2)}


def step_bytes(path, n_param):
    """What a step of one stream reads of bf16 weights: all but an embedding that is not the head."""
    s = shape_of(path)
    return 2 * (n_param - (0 if s["is_tied"] else s["outside"] // 2))


def prompt_tflop(path, n_param, tokens):
    """What a prompt needs: the blocks' products for each token, half of the square of attention."""
    s = shape_of(path)
    return (2 * (n_param - s["outside"]) * tokens + 2 * s["layers"] * s["width"] * tokens ** 2) / 1e12


# ---- models ----

def path_of(b, name):
    return b.folder / name


def make(r, b, name, *more):
    """The model's folder, made if it is not there and fits; None: it does not."""
    path = path_of(b, name)
    if not more and not path.exists() and shutil.disk_usage(b.folder).free < (FILE_GB[name] + 2) << 30 \
            and not FAKE:
        r.leave_out(name, f"{FILE_GB[name]} GB are not free in {b.folder}")
        return None
    if not path.exists():
        out = r.step(f"{name}: random weights", BUILD / "tests/tools/make_model", path, *SHAPES[name],
                     *more, most=100)
        found = re.search(r"(\d+) parameters", out)
        if not found:
            shutil.rmtree(path, ignore_errors=True)
            return None
        (path / "n_param").write_text(found[1])
    b.got[name, "parameters"] = int((path / "n_param").read_text())
    return path


def ready(r, b, name):
    """A section's model, or a line that it is left out."""
    if (name, "parameters") in b.got:
        return path_of(b, name)
    r.leave_out(name, "its model could not be made")
    return None


def make_and_start(r, b, name):
    """Then from nothing to the first token, the files in the page cache."""
    path = make(r, b, name)
    best = None
    for _ in range(3 if path else 0):
        began = time.monotonic()
        status, out, err = r.run(BUILD / "tandem", "run", path, "--ids", "1,2,3", "-n", "1",
                                 "--ignore-eos", env=gpu_environment(), most=60)
        took = time.monotonic() - began
        if status:
            r.verdict(f"{name}: start", False, out + err)
            return
        best = took if best is None else min(best, took)
    if best is not None:
        b.got[name, "start s"] = best
        r.figure(f"{name} start to first token s", round(best, 2))


# ---- the engine ----

def bench(r, what, *words, most=60):
    out = r.step(what, BUILD / "tandem", "bench", *words, "--json", env=gpu_environment(), most=most)
    return lines_of_json(out)


def one_case(r, path, name, case, *words, most=40):
    rows = bench(r, f"{name}: {case}", "engine", path, "--case", case, *words, most=most)
    return rows[-1] if rows else None


def show_decode(r, b, name, row, streams, path=None):
    """path: of a model whose weights are bf16."""
    b.got[name, f"decode {streams}"] = row["tokens_per_s"]
    note = ""
    if streams == 1:
        gb_s = row["weight_gbps"]
        if path:
            gb_s = step_bytes(path, b.got[name, "parameters"]) * row["tokens_per_s"] / 1e9
        b.got[name, "read GB/s"] = gb_s
        note = f"{gb_s:.5g} GB/s {share(gb_s, b.limit['read_gb_s'])}"
    elif b.got.get((name, "decode 1")):
        note = f"{row['tokens_per_s'] / b.got[name, 'decode 1']:.1f} times one"
    r.figure(f"{name} {streams} streams tokens/s", row["tokens_per_s"], note)


def show_prompt(r, b, name, path, row):
    tflop = prompt_tflop(path, b.got[name, "parameters"], PROMPT) / row["best_s"]
    b.got[name, "prompt TFLOP/s"] = tflop
    b.got[name, "prompt"] = row["tokens_per_s"]
    r.figure(f"{name} prompt of {PROMPT} tokens/s", row["tokens_per_s"],
             f"{tflop:.0f} TFLOP/s {share(tflop, b.limit['product_tflop_s'])}")


def show_between(r, b, name, steps, served):
    """What a step of the engine takes beyond what the GPU works at one."""
    step, all_of_it = steps.get("device_s"), served["s"]
    if not step:
        return
    part = max(0.0, 100 * (1 - step / all_of_it))
    b.got[name, "between %"] = part
    r.figure(f"{name} engine's time between steps %", round(part, 2),
             f"{served['streams']} streams: {all_of_it:.4f} s, of which the GPU worked {step:.4f}")


def engine(r, b, name):
    path = ready(r, b, name)
    if not path:
        return
    row = one_case(r, path, name, "one")
    if row:
        show_decode(r, b, name, row, 1, path)
    row = one_case(r, path, name, "prompt", "--prompt", PROMPT)
    if row:
        show_prompt(r, b, name, path, row)
    together = None
    for streams in reversed(STREAMS):
        row = one_case(r, path, name, "together", "--streams", streams)
        together = together or row
        if row:
            show_decode(r, b, name, row, streams)
    row = one_case(r, path, name, "served", "--streams", MANY, "--new-tokens", 16 if FAKE else 64)
    if row:
        r.figure(f"{name} {MANY} streams through the engine tokens/s", row["tokens_per_s"])
    if row and together:
        each = {"s": row["s"] / (row["tokens"] / row["streams"]), "streams": row["streams"]}
        steps = together["tokens"] / together["streams"]
        show_between(r, b, name, {"device_s": together.get("device_s", 0) / steps}, each)
    row = one_case(r, path, name, "clients", "--streams", STREAMS[1])
    if row:
        r.figure(f"{name} {STREAMS[1]} clients tokens/s", row["tokens_per_s"],
                 f"first token {row['first_ms']} ms")


def engine_int8(r, b, name):
    path = ready(r, b, name)
    if not path:
        return
    for streams in (1, MANY):
        row = one_case(r, path, f"{name} int8", "one" if streams == 1 else "together", "--quantize",
                       "int8", "--streams", streams)
        if row:
            show_decode(r, b, f"{name} int8", row, streams)


def large(r, b, kind):
    """A model too large for files: its weights are drawn while it is loaded."""
    path = make(r, b, "32B", "--no-weights")
    if not path:
        return
    name = "32B" if kind == "none" else f"32B {kind}"
    drawn = ("--weights", "random", "--quantize", kind)
    b.got[name, "parameters"] = b.got["32B", "parameters"]
    for case, streams in (("one", 1), ("together", STREAMS[1])):
        row = one_case(r, path, name, case, *drawn, "--streams", streams, "--rounds", 3)
        if row:
            show_decode(r, b, name, row, streams, path if kind == "none" else None)
    row = one_case(r, path, name, "prompt", "--prompt", PROMPT, *drawn, "--rounds", 3)
    if row:
        show_prompt(r, b, name, path, row)


def kernels(r, b, name):
    """The time of each kernel: what it names is where the next work is."""
    path = ready(r, b, name)
    for case in ("one", "prompt", "together") if path else ():
        status, out, err = r.run(BUILD / "tandem", "bench", "engine", path, "--case", case, "--rounds",
                                 "2", "--prompt", PROMPT, "--profile", env=gpu_environment(), most=30)
        r.verdict(f"{name}: kernels of {case}", status == 0, out + err)
        r.quote((out + err).splitlines()[:30] if status == 0 else [])


# ---- training ----

def training(r, b, name, ranks):
    path = ready(r, b, name)
    shapes = ((2, 32),) if FAKE else ((4, 1024), (1, 4096))
    for rank in ranks if path else ():
        for rows, length in shapes:
            for row in bench(r, f"{name}: training, rank {rank}, {rows} x {length}", "train", path,
                             "--rank", rank, "--steps", "3", "--rows", rows, "--length", length, most=45):
                show_training(r, b, name, rank, row)


def show_training(r, b, name, rank, row):
    tflop, what = row["gflops"] / 1e3, "LoRA" if rank else "full training"
    b.got[name, f"{what} TFLOP/s"] = max(tflop, b.got.get((name, f"{what} TFLOP/s"), 0))
    if row["rows"] > 1:
        b.got[name, what] = row["tokens_per_s"]
    r.figure(f"{name} {what}, {row['rows']} x {row['length']} tokens/s", row["tokens_per_s"],
             f"{tflop:.0f} TFLOP/s {share(tflop, b.limit['product_tflop_s'])}, step {row['step_s']} s, "
             f"{row['peak_mib']} MiB of the host")


# ---- a server ----

def show_clients(r, b, name, row):
    clients, itl = row["clients"], row["between_tokens_ms"]
    first = row["first_token_ms"]
    r.figure(f"{name} server, {clients} clients tokens/s", row["tokens_out_per_s"],
             f"first token {first['p50']} ms, between tokens {itl['p50'] if itl else '?'} ms, "
             f"{row['bad']} bad")
    b.got[name, f"served {clients}"] = row["tokens_out_per_s"]


def server(r, b, name):
    """What clients of a server get, at 1 to many of them."""
    path = ready(r, b, name)
    if not path:
        return
    counts = ",".join(map(str, (1, *STREAMS)))
    words = ("--input-tokens", 8, "--output-tokens", 16) if FAKE else \
        ("--input-tokens", 128, "--output-tokens", 128, "--vocab", 1000)
    with Tandem(path, env={**cuda_environment(), **gpu_environment()}) as s:
        status, out, err = r.run(BUILD / "tandem", "bench", "serve", "--url", s.url, "-c", counts, "--json",
                                 "--requests", 2 * MANY if FAKE else 0, "--duration", 0 if FAKE else 8,
                                 *words, most=60)
        r.verdict(f"{name}: a server and its clients", status == 0, out + err)
        for row in lines_of_json(out):
            show_clients(r, b, name, row)


# ---- collectives ----

def collectives(r, b):
    """NCCL with one rank, and two ranks on one GPU over its memory, beside copies; then a model that
    two ranks on one GPU share, whose text must be that of one."""
    for ranks in (1, 2):
        for row in bench(r, f"collectives, {ranks} ranks", "comm", "--ranks", ranks, "--device", "cuda",
                         *(["--bytes", 4096] if FAKE else []), most=30):
            beside = f"{row['copy_us'] / row['us']:.0%} of a copy's rate" if row["copy_us"] else ""
            r.figure(f"{row['collective']} over {row['over']}, {row['ranks']} ranks, {row['bytes']} B us",
                     row["us"], f"{row['sent_gb_per_s']} GB/s {beside}")
    path = pathlib.Path("tests/golden/models/llama_plain")
    words = ("run", path, "--ids", "3,4,5", "-n", "16", "--ignore-eos", "--quantize", "bf16")
    one = r.run(BUILD / "tandem", *words, env=gpu_environment(), most=30)
    two = r.run(BUILD / "tandem", *words, "--tp", 2, env=gpu_environment(), most=30)
    r.verdict("two ranks on one GPU say something", two[0] == 0 and two[1].strip(), two[1] + two[2])
    r.say(f"          | the same as one: {'yes' if one[1] == two[1] else 'no (sums of two parts)'}")


# ---- PyTorch's side ----

def torch_words(name):
    """Of beside_torch.py: the shape, as make_model has it, and what to measure."""
    dims = {"8B": (128256, 4096, 14336, 32, 32, 8, 0), "1.2B": (128256, 2048, 8192, 16, 32, 8, 1)}[name]
    dims = (256, 64, 128, 2, 4, 2, 0) if FAKE else dims
    keys = ("vocab", "hidden", "ff", "layers", "heads", "kv-heads", "tied")
    words = [w for k, v in zip(keys, dims) for w in (f"--{k}", v)]
    return [*words, "--streams", f"1,{MANY}", "--prompt", PROMPT, "--new-tokens", 4 if FAKE else 32,
            "--rows", 2 if FAKE else 4, "--length", 32 if FAKE else 1024,
            *(["--full"] if name == "1.2B" else [])]
