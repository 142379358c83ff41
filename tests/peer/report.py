#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the program reaches on this machine, beside what the machine allows and beside other programs.

    make bench-report [ARGS="..."]
    tests/peer/report.py [--preset smollm-135m | --model DIR] [--gguf FILE] [--rounds 3] [--out build/report]

writes OUT/index.html, with plots, and OUT/figures.json. Measured is: the machine's bandwidth and peaks
(`tandem-kernels bench`), the largest products beside them, `tandem bench engine` and `tandem bench train`.
The limit of one stream is how often a second the weights can be read, that of many rows and of training what the
peak allows; each is measured in turn with what it bounds, for a machine that others use changes. Where this Python
has the package llama_cpp, llama.cpp stands beside it, on a GGUF file of the same weights (`tandem export`, or --gguf);
where it has torch, a training by PyTorch. `make bench-report PYTHON=VENV/bin/python` says which Python.

Some minutes at most as it stands. Nothing is judged. Standard library only."""
import argparse
import html
import importlib.util
import json
import os
import pathlib
import platform
import re
import statistics
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True
import plot  # noqa: E402

HERE = pathlib.Path(__file__).resolve().parent
BUILD = pathlib.Path(os.environ.get("TANDEM_BUILD", "build/release"))
CASES = {"prompt": ("A prompt of 512 tokens", 512, 1), "one": ("One stream", 32, 1),
         "together": ("32 streams together", 16, 32)}
PEERS = {"llama.cpp": "llama_cpp", "PyTorch": "torch"}
DEPTH = 64  # tokens that stand before those that are measured
WEIGHT_BYTES = {"float32": 4, "bfloat16": 2, "float16": 2}
FRAME = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Tandem, measured</title>
<style>
:root { color-scheme: light dark; }
body { max-width: 820px; margin: 0 auto; padding: 16px; font: 16px/1.5 system-ui, sans-serif;
  background: light-dark(#faf9f7, #131415); color: light-dark(#1d1c1a, #e9e7e3); }
figure { margin: 1.5em 0; overflow-x: auto; }
pre { padding: 10px; overflow-x: auto; background: light-dark(#f1efeb, #232527); }
table { border-collapse: collapse; }
th, td { padding: 3px 10px; border: 1px solid light-dark(#e3dfd8, #303235); text-align: left; }
svg text { fill: currentColor; font: 13px system-ui, sans-serif; }
svg .tick { font-size: 11px; opacity: 0.75; }
svg .grid { stroke: light-dark(#e3dfd8, #303235); }
svg .tandem { fill: light-dark(#0b6e69, #57c4ba); }
svg .peer { fill: light-dark(#8f8a82, #6f7378); }
svg path.limit { stroke: light-dark(#a84e0b, #f0a258); stroke-width: 2; stroke-dasharray: 5 3; }
svg text.limit { fill: light-dark(#a84e0b, #f0a258); }
</style>
</head>
<body>
<h1>Tandem, measured</h1>
"""


def parse(words=None):
    p = argparse.ArgumentParser(description="what the program reaches, beside limits and peers")
    p.add_argument("--preset", default="smollm-135m", help="of make_model: the shape of a real model")
    p.add_argument("--model", help="a Llama's directory, in place of a preset")
    p.add_argument("--gguf", help="the same model for llama.cpp, in place of one that is written")
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--length", type=int, default=512, help="tokens of a row of training")
    p.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    p.add_argument("--out", default="build/report")
    return p.parse_args(words)


def lines(*words):
    """What a command prints, a JSON object a line."""
    out = subprocess.run(list(map(str, words)), check=True, capture_output=True, text=True).stdout
    return [json.loads(x) for x in out.splitlines() if x.startswith("{")]


# ---- the machine


def machine(a, *kernels):
    """Bandwidth and peaks of all threads together, in GB/s and GFLOP/s, and the kernels that were asked for."""
    said = lines(BUILD / "tandem-kernels", "bench", *(kernels or ("onnx",)), "--threads", a.threads, "--json")
    limits = {x["machine"]: x.get("gbps") or x.get("gflops") for x in said
              if "machine" in x and x["threads"] == a.threads}
    return limits, [x for x in said if "kernel" in x]


def work(config, case):
    """(Operations of a token, bytes of weights that a step reads). A prompt's last row alone meets the head."""
    h, layers, heads = config["hidden_size"], config["num_hidden_layers"], config["num_attention_heads"]
    d = config.get("head_dim") or h // heads
    kv, inner = config.get("num_key_value_heads", heads), config["intermediate_size"]
    products = layers * (2 * h * heads * d + 2 * h * kv * d + 3 * h * inner)
    head = h * config["vocab_size"]
    seen = {"prompt": 256, "one": DEPTH + 16, "together": DEPTH + 8}[case]
    attention = 4 * seen * heads * d * layers
    head_of = head / 512 if case == "prompt" else head
    dtype = config.get("dtype") or config.get("torch_dtype", "bfloat16")
    return 2 * (products + head_of) + attention, WEIGHT_BYTES[dtype] * (products + head)


def limit_of(config, case, limits):
    """Tokens a second that the machine allows, and by what."""
    flops, weights = work(config, case)
    by_peak = limits["bf16 dot products"] * 1e9 / flops
    by_memory = limits["read memory"] * 1e9 / weights * CASES[case][2]
    if case == "prompt" or by_peak < by_memory:
        return by_peak, "peak of bf16 products"
    return by_memory, "bandwidth of the memory"


# ---- what is measured


def engine(a, model, config):
    out = []
    for case, (title, n_new, _) in CASES.items():
        before, _ = machine(a)
        got, = lines(BUILD / "tandem", "bench", "engine", model, "--ctx", 1024, "--rounds", a.rounds, "--case", case,
                     "--new-tokens", n_new, "--threads", a.threads, "--json")
        rows = [("tandem", got["tokens_per_s"], "tandem")]
        if a.gguf:
            said = subprocess.run([sys.executable, HERE / "llama.py", a.gguf, "--alone", "--case", case, "--threads",
                                   str(a.threads)], check=True, capture_output=True, text=True).stdout
            rows.append(("llama.cpp", json.loads(said.strip().splitlines()[-1]), "peer"))
        after, _ = machine(a)
        limit = statistics.mean(limit_of(config, case, x)[0] for x in (before, after))
        out.append({"title": title, "unit": "tokens a second", "rows": rows,
                    "limit": (limit, limit_of(config, case, before)[1])})
    return out


def training(a, model):
    out = []
    for rank, title in ((16, "Training an adapter of rank 16"), (0, "Training all weights")):
        before, _ = machine(a)
        got, = lines(BUILD / "tandem", "bench", "train", model, "--rank", rank, "--length", a.length, "--steps", a.rounds,
                     "--threads", a.threads, "--json")
        rows = [("tandem", got["tokens_per_s"], "tandem")]
        if importlib.util.find_spec("torch"):
            said = subprocess.run([sys.executable, HERE / "train_torch.py", model, "--rank", str(rank), "--length",
                                   str(a.length), "--steps", str(a.rounds), "--threads", str(a.threads)], check=True,
                                  capture_output=True, text=True).stdout
            rows.append(("PyTorch", float(re.search(r"([\d.]+) tokens/s", said)[1]), "peer"))
        after, _ = machine(a)
        peak = statistics.mean(x["bf16 dot products"] for x in (before, after))
        out.append({"title": f"{title}, rows of {a.length} tokens", "unit": "tokens a second", "rows": rows,
                    "limit": (got["tokens_per_s"] * peak / got["gflops"], "peak of bf16 products")})
    return out


def products(a):
    """The share of its limit that each shape's product has: the median over shapes."""
    out = []
    for rows, what in ((1, "one row, of the bandwidth"), (256, "256 rows, of the peak")):
        _, found = machine(a, "linear_bf16", "linear_f32", "--rows", rows)
        kernels = {}
        for x in found:
            kernels.setdefault(x["kernel"], []).append(100 * x["fraction"])
        out.append({"title": f"Products: {what}", "unit": "%", "limit": (100, "limit"),
                    "rows": [(k, statistics.median(v), "tandem") for k, v in sorted(kernels.items())]})
    return out


# ---- the page


def page(a, figures):
    told = "".join(f"<tr><th>{html.escape(k)}</th><td>{html.escape(str(v))}</td></tr>" for k, v in figures["told"].items())
    plots = "".join(f"<h2>{html.escape(f['title'])}</h2>\n<figure>"
                    f"{plot.bars(f['title'], f['unit'], f['rows'], f['limit'])}</figure>\n" for f in figures["plots"])
    return (f"{FRAME}<p>Bars are tokens a second, or a share of the limit; the dashed line is what the machine allows, "
            f"measured before and after: a bar that passes it says that others used the machine meanwhile.</p>\n<table>{told}</table>\n{plots}"
            f"<p>Again: <code>tests/peer/report.py {html.escape(' '.join(sys.argv[1:]))}</code></p>\n</body>\n</html>\n")


def cpu():
    with open("/proc/cpuinfo", encoding="ascii", errors="replace") as f:
        return next((x.split(":", 1)[1].strip() for x in f if x.startswith("model name")), platform.machine())


def main():
    a = parse()
    out = pathlib.Path(a.out)
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as tmp:
        model = pathlib.Path(a.model or f"{tmp}/model")
        if not a.model:
            subprocess.run([BUILD / "tests/tools/make_model", model, "--preset", a.preset], check=True,
                           stdout=subprocess.DEVNULL)
        config = json.loads((model / "config.json").read_text())
        missing = [who for who, package in PEERS.items() if not importlib.util.find_spec(package)]
        if "llama.cpp" in missing:
            a.gguf = None
        elif not a.gguf:
            a.gguf = f"{tmp}/model.gguf"
            subprocess.run([BUILD / "tandem", "export", model, a.gguf], check=True, stdout=subprocess.DEVNULL)
        limits, _ = machine(a)
        figures = {"told": {
            "machine": f"{cpu()}, {a.threads} threads", "when": time.strftime("%Y-%m-%d %H:%M"),
            "program": subprocess.run([BUILD / "tandem", "version"], check=True, capture_output=True,
                                      text=True).stdout.splitlines()[0],
            "model": a.model or f"{a.preset}, random weights",
            "not beside it": ", ".join(f"{who} (package {PEERS[who]})" for who in missing) or "nothing",
            **{k: f"{v:,.0f} {'GB/s' if 'read' in k else 'GFLOP/s'}" for k, v in limits.items()}}}
        figures["plots"] = [*engine(a, model, config), *training(a, model), *products(a)]
    (out / "figures.json").write_text(json.dumps(figures, indent=1) + "\n")
    (out / "index.html").write_text(page(a, figures))
    print(out / "index.html")


if __name__ == "__main__":
    main()
