#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The commands that run a model in the program's own process: run, graph, plan, bench. They answer
what the engine answers in its own tests, and every broken model directory is one clear line and
status 2. Catches: a mode or a chunk that changes the text; a fault without the file's name; a
broken file that is read all the same."""
import json
import os
import pathlib
import re
import shutil
import struct
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "lib"))
from serving import Cases, make_model, said  # noqa: E402

TANDEM = os.environ.get("TANDEM_BIN", "build/tandem")
MODELS = pathlib.Path("tests/golden/models")
GGUF = pathlib.Path("tests/golden/gguf")
MODEL = MODELS / "llama_tied"
cases = Cases()


def run(*words, **kw):
    return subprocess.run([TANDEM, *map(str, words)], stdin=kw.pop("stdin", subprocess.DEVNULL),
                          capture_output=True, text=True, check=False, **kw)


def expect(name, ok, p):
    cases.check(name, ok, said(p))


def greedy_text():
    golden = json.loads((MODELS / "llama_plain" / "golden.json").read_text())
    ids, want = golden["prompt"], golden["greedy"]
    for words in ([], ["--mode", "eager"], ["--threads", "1"], ["--kernels", "ref"], ["--tp", "2"],
                  ["--tp", "3", "--mode", "eager"]):
        p = run("run", MODELS / "llama_plain", "--ids", ",".join(map(str, ids)), "-n", len(want),
                "--ignore-eos", *words)
        expect(f"run {words}", p.stdout.strip() == ",".join(map(str, want)), p)


def text_in_text_out():
    p = run("run", MODEL, "-p", "The cat sat", "-n", 12, "--stats")
    expect("run -p", p.returncode == 0 and p.stdout and "loaded in" in p.stderr, p)
    with tempfile.TemporaryFile("w+") as f:
        f.write("The cat sat")
        f.seek(0)
        q = run("run", MODEL, "-p", "-", "-n", 12, stdin=f)
    expect("run -p -", q.stdout == p.stdout, q)
    words = ["run", MODEL, "-p", "A", "-n", 20, "--temperature", "1", "--ignore-eos"]
    one, two = run(*words, "--seed", 4), run(*words, "--seed", 4, "--mode", "eager")
    expect("same seed, same text", one.returncode == 0 and one.stdout == two.stdout, two)
    expect("other seed, other text", run(*words, "--seed", 5).stdout != one.stdout, one)
    p = run("run", MODEL, "-p", "A", "-n", 4, "--profile")
    expect("run --profile", "linear_f32" in p.stderr and "new tokens" in p.stderr, p)
    p = run("run", MODEL, "-p", "A", "-n", 4, "--quantize", "int8", "--json")
    expect("run --json", json.loads(p.stderr.splitlines()[-1])["new_tokens"] <= 4, p)
    p = run("run", MODEL, "-p", "A", "-n", 4, "--quantize", "int4", "--profile")
    expect("run --quantize int4", p.returncode == 0 and "linear_int4" in p.stderr, p)


def gguf_files():
    """A GGUF file answers what the directory answers that it was made of."""
    golden = json.loads((MODELS / "llama_plain" / "golden.json").read_text())
    ids, want = golden["prompt"], golden["greedy"]
    for words in ([], ["--tp", "2"], ["--kernels", "ref"]):
        p = run("run", GGUF / "llama_plain.gguf", "--ids", ",".join(map(str, ids)), "-n", len(want),
                "--ignore-eos", *words)
        expect(f"run GGUF {words}", p.stdout.strip() == ",".join(map(str, want)), p)
    for file, directory in ((GGUF / "llama_tied.gguf", MODEL),
                            (GGUF / "qwen3-00001-of-00004.gguf", MODELS / "qwen3"),
                            (GGUF / "quantised.gguf", GGUF / "quantised")):
        for words in (["--ids", "9,33,7"], ["-p", "The cat sat"]):
            if words[0] == "-p" and directory != MODEL:
                continue
            p, q = (run("run", x, "-n", 20, *words) for x in (file, directory))
            expect(f"run {file.name}", p.returncode == 0 and p.stdout == q.stdout, p)


def graphs():
    p = run("graph", MODEL)
    expect("graph", p.returncode == 0 and "join" not in p.stderr and "attn" in p.stdout, p)
    before, after = run("graph", MODEL, "--after", "record"), run("graph", MODEL)
    expect("graph --after record", before.stdout.count("\n") > after.stdout.count("\n"), before)
    doc = json.loads(run("graph", MODEL, "--format", "json").stdout)
    ok = doc["nodes"] and doc["memory"]["bytes"] >= doc["memory"]["lower_bound"]
    expect("graph --format json", ok, after)
    for form, begin in (("dot", "digraph"), ("svg", "<svg")):
        p = run("graph", MODEL, "--format", form)
        expect(f"graph --format {form}", p.stdout.startswith(begin), p)
    p = run("graph", MODEL, "--after", "joyn")
    expect("graph --after joyn", p.returncode == 2 and "no such pass; record, shard" in p.stderr and
           "rope_kv, dead, in_place are" in p.stderr, p)


def gates(model):
    """Gates are in products where the kernels have that, and a plan is of where they are not."""
    words = [model, "--quantize", "bf16", "--device", "cpu"]
    tokens = ["--tokens", 64, "--format", "json"]
    within, apart = (run("graph", *words, "--kernels", "ref", *tokens, *more)
                     for more in ([], ["--lora"]))
    expect("graph of gated products", within.returncode == 0 and "swiglu" not in within.stdout, within)
    expect("graph --lora", apart.returncode == 0 and "swiglu" in apart.stdout, apart)
    codes = run("graph", model, "--quantize", "int8", "--compute", "int8", "--device", "cpu", "--kernels", "ref", *tokens)
    expect("graph of gated products of codes", codes.returncode == 0 and "swiglu" not in codes.stdout, codes)
    p = run("graph", *words, "--kernels", "avx2", *tokens)
    if "more than this CPU has" not in p.stderr:
        expect("graph where no product gates", p.returncode == 0 and "swiglu" in p.stdout, p)
    p = run("plan", *words, "--max-batch-tokens", 64, "--json")
    expect("plan where no product gates", json.loads(p.stdout)["activations"] >
           json.loads(within.stdout)["memory"]["bytes"], p)


def shared_graph():
    p = run("graph", MODELS / "llama_mha_bias", "--tp", 4)
    reduces = [line.split()[0] for line in p.stdout.splitlines() if " reduce " in line]
    expect("graph --tp", reduces == ["-1", "0", "0", "1", "1"] and "sent by each rank" in p.stdout, p)


def plans():
    p = run("plan", MODEL, "--json", "--memory", "64M")
    doc = json.loads(p.stdout)
    used = doc["weights"] + doc["rotary"] + doc["activations"]
    ok = doc["kv_tokens"] * doc["kv_per_token"] + used <= 64 << 20
    expect("plan --json", ok and doc["kv_tokens"] > 0, p)
    p = run("plan", MODEL, "--memory", "100K")
    expect("plan too small", p.returncode == 2 and "--quantize int8 or int4" in p.stderr, p)
    p = run("plan", MODEL, "--devices", "4", "--memory", "600K", "--json")
    sizes = json.loads(p.stdout)["sizes"] if p.returncode == 0 else []
    expect("plan of devices: every size that divides them", [s["tp"] for s in sizes] == [1, 2, 4], p)
    expect("plan of devices: parts get smaller",
           all(a["weights"] > b["weights"] for a, b in zip(sizes, sizes[1:])), p)
    expect("plan of devices: the smallest that fits is taken",
           sizes and json.loads(p.stdout)["tp"] == min(s["tp"] for s in sizes if s["fits"]), p)
    expect("plan of devices: only who shares sends",
           [s["collectives"] > 0 for s in sizes] == [False, True, True], p)
    p = run("plan", MODEL, "--devices", "4", "--memory", "600K")
    expect("plan of devices in words", p.returncode == 0 and "Taken: --tp" in p.stdout, p)
    p = run("plan", MODEL, "--devices", "2", "--memory", "300K")
    expect("plan of too few devices", p.returncode == 2 and "2 ranks take" in p.stderr, p)
    p = run("plan", MODELS / "bert_mean")
    expect("plan of an encoder", p.returncode == 0 and "bert" in p.stdout, p)


def plan_of_states():
    p = run("plan", MODELS / "qwen3_5", "--ctx", "64", "--memory", "2M")
    said = dict(re.findall(r"^  (\S.*?) {2,}(\d+)", p.stdout, re.M))
    expect("plan of states: each sequence has one", p.returncode == 0 and
           0 < int(said["sequences of that length"]) < int(said["room for"]) // 64, p)


def vectors_by_modules(tmp):
    """A module Dense stands behind the pooling of any family; what is written leaves it out."""
    model, modules = tmp / "lfm2", MODELS / "gemma3_mean"
    shutil.copytree(MODELS / "lfm2", model)
    for name in ("modules.json", "sentence_bert_config.json"):
        shutil.copy(modules / name, model)
    for name in ("1_Pooling", "2_Dense", "3_Dense"):
        shutil.copytree(modules / name, model / name)
    p = run("plan", model)
    expect("plan of modules behind a decoder", p.returncode == 0, p)
    p = run("merge", model, MODELS / "lfm2/lora", tmp / "merged")
    expect("merge of modules", p.returncode == 2 and "modules" in p.stderr and not (tmp / "merged").exists(), p)


def bench_engine():
    p = run("bench", "engine", MODEL, "--prompt", 16, "--new-tokens", 2, "--streams", 3, "--depth",
            4, "--input-tokens", 8, "--output-tokens", 5, "--rounds", 1, "--json")
    rows = [json.loads(line) for line in p.stdout.splitlines()]
    expect("bench engine", [r["case"] for r in rows] == ["prompt", "one", "together",
                                                  "served", "burst", "requests", "clients"], p)
    last = rows[-1]
    expect("bench engine, clients", last["tokens"] == 3 * 2 * 5 and last["first_ms"] > 0, p)
    p = run("bench", "engine", MODEL, "--case", "burst", "--rounds", 1, "--streams", 2, "--json",
            "--prompt", 16, "--new-tokens", 2, "--depth", 4)
    expect("bench engine --case", json.loads(p.stdout)["case"] == "burst", p)
    p = run("bench", "engine", MODEL, "--case", "together", "--rounds", 1, "--streams", 3, "--json",
            "--prompt", 16, "--new-tokens", 2, "--depth", 4, "--adapters", 2, "--rank", 3,
            "--adapter-type", "bf16")
    rows = [json.loads(line)["case"] for line in p.stdout.splitlines()]
    expect("bench engine --adapters", rows == ["together", "adapted"], p)


def bench_drafts():
    p = run("bench", "drafts", MODEL, "--prompt", 8, "--new-tokens", 20, "--streams", 2,
            "--rounds", 2, "--json")
    rows = [json.loads(line) for line in p.stdout.splitlines()]
    expect("bench drafts", [r["case"] for r in rows] == ["loop", "copy", "fresh"] and
           all(r["ratio"] > 0 and 0 <= r["right"] <= 1 for r in rows), p)
    p = run("bench", "drafts", MODEL, "--case", "loop", "--prompt", 8, "--new-tokens", 1)
    expect("bench drafts, one token", p.returncode == 2 and "--new-tokens" in p.stderr, p)


def bench_masks():
    p = run("bench", "masks", MODEL, "--prompt", 8, "--new-tokens", 20, "--streams", 2, "--rounds", 2,
            "--schemas", 3, "--bytes", 2000, "--json")
    rows = [json.loads(line) for line in p.stdout.splitlines()]
    expect("bench masks", [r["case"] for r in rows] == ["streams", "compile"] and rows[0]["ratio"] > 0 and
           rows[1]["schemas"] == 3 and rows[1]["bytes"] >= 2000 and rows[1]["p99_ms"] >= rows[1]["p50_ms"], p)


def refused(name, directory, words, *command):
    p = run(*(command or ("run", directory, "--ids", "1", "-n", "1")))
    one_line = p.stderr.count("\n") == 1
    expect(name, p.returncode == 2 and one_line and all(w in p.stderr for w in words), p)


def bad_requests():
    refused("no prompt", MODEL, ["-p TEXT"], "run", MODEL)
    refused("too long", MODEL, ["the context holds"], "run", MODEL, "-p", "A", "-n", 10 ** 6)
    refused("bad id", MODEL, ["vocabulary"], "run", MODEL, "--ids", "999999", "-n", "1")
    refused("bad ids", MODEL, ["token ids with commas"], "run", MODEL, "--ids", "1,x")
    refused("encoder", MODEL, ["vectors, not text"], "run", MODELS / "bert_cls", "--ids", "1")
    refused("no model", MODEL, ["/no/such"], "run", "/no/such", "--ids", "1")


def broken_directories(tmp):
    weights = (MODEL / "model.safetensors").read_bytes()
    n = struct.unpack("<Q", weights[:8])[0]
    header = json.loads(weights[8:8 + n])
    first = next(k for k in header if k.endswith("gate_proj.weight"))

    def case(name, words, change):
        d = tmp / name.replace(" ", "_")
        shutil.copytree(MODEL, d)
        change(d)
        refused(name, d, words)

    def put(d, data):
        (d / "model.safetensors").write_bytes(data)

    def put_header(d, h):
        text = json.dumps(h).encode()
        put(d, struct.pack("<Q", len(text)) + text + weights[8 + n:])

    def shape_of(name, shape):
        h = json.loads(json.dumps(header))
        h[name]["shape"] = shape
        return h

    step = max(1, len(weights) // 12)
    for cut in [0, 1, 7, 8, 9, n // 2, 8 + n - 1, 8 + n, *range(8 + n + 1, len(weights), step)]:
        case(f"cut at {cut}", ["model.safetensors"], lambda d, c=cut: put(d, weights[:c]))
    case("header too long", ["model.safetensors"], lambda d: put(d, b"\xff" * 8 + weights[8:]))
    rows, cols = header[first]["shape"]
    case("turned tensor", [first, "expected", str(cols)],
         lambda d: put_header(d, shape_of(first, [cols, rows])))
    case("lying shape", [first], lambda d: put_header(d, shape_of(first, [rows + 1, cols])))
    case("no weights", ["model.safetensors"], lambda d: (d / "model.safetensors").unlink())
    case("missing shard", ["model-00002-of-00002"], lambda d: (
        (d / "model.safetensors").rename(d / "model-00001-of-00002.safetensors"),
        (d / "model.safetensors.index.json").write_text(json.dumps({"weight_map": {
            k: f"model-0000{1 + i % 2}-of-00002.safetensors"
            for i, k in enumerate(k for k in header if k != "__metadata__")}}))))
    case("tensor of another name", [first],
         lambda d: put_header(d, {k + ("x" if k == first else ""): v for k, v in header.items()}))

    def config(d, **kw):
        c = json.loads((d / "config.json").read_text())
        c.update(kw)
        (d / "config.json").write_text(json.dumps(c))

    case("unknown activation", ["hidden_act", "relu6"], lambda d: config(d, hidden_act="relu6"))
    case("unknown architecture", ["architectures"],
         lambda d: config(d, architectures=["FooForCausalLM"], model_type="foo"))
    case("no config", ["config.json"], lambda d: (d / "config.json").unlink())
    case("more layers than there are", ["layers."], lambda d: config(d, num_hidden_layers=40))


def bench_train():
    for words in ([], ["--rank", 0], ["--checkpoint", "--profile"]):
        p = run("bench", "train", MODEL, "--length", 32, "--rows", 2, "--steps", 2, "--json", *words)
        got = json.loads(p.stdout) if p.returncode == 0 else {}
        expect(f"bench train {words}", got.get("tokens_per_s", 0) > 0 and got["gflops"] > 0, p)
    calls = []
    for steps in (1, 2):  # the profile is of these, and not of the step before them
        p = run("bench", "train", MODEL, "--length", 32, "--rows", 2, "--steps", steps, "--profile")
        table = p.stderr[p.stderr.find("calls"):].splitlines()[1:]
        calls.append({row.split()[0]: int(row.split()[1]) for row in table})
    both = calls[0].keys() & calls[1].keys()
    expect("bench train, its profile", both and all(calls[1][k] == 2 * calls[0][k] for k in both), p)


def bench_beside():
    p = run("bench", "beside", MODEL, "--ctx", 64, "--streams", 2, "--prompt", 4, "--new-tokens", 8,
            "--length", 16, "--rank", 2, "--seconds", 0.4, "--turn", 60, "--think", 5, "--json")
    got = json.loads(p.stdout) if p.returncode == 0 else {}
    expect("bench beside", got.get("steps", 0) > 0 and min(got["gaps"]) >= 0
           and 0 <= got["busy_taken"] <= 1 and 0 <= got["idle_used"] <= 1, p)
    p = run("bench", "beside", MODEL, "--train-share", 2)
    expect("bench beside, refused", p.returncode == 2 and "--train-share" in p.stderr, p)


def bench_comm():
    p = run("bench", "comm", "--ranks", 3, "--bytes", 4096, "--json")
    got = [json.loads(line) for line in p.stdout.splitlines()] if p.returncode == 0 else []
    expect("bench comm", len(got) == 5 and all(g["us"] > 0 and g["ranks"] == 3 for g in got), p)
    p = run("bench", "comm", "--ranks", 1, "--bytes", 4096, "--json")
    got = [json.loads(line) for line in p.stdout.splitlines()] if p.returncode == 0 else []
    idle = {g["collective"] for g in got if g["copy_us"] == 0}
    expect("bench comm, alone nobody has what is broadcast to copy", idle == {"broadcast", "barrier"}, p)


def main():
    greedy_text()
    text_in_text_out()
    gguf_files()
    graphs()
    shared_graph()
    plans()
    plan_of_states()
    bench_engine()
    bench_drafts()
    bench_masks()
    bench_train()
    bench_beside()
    bench_comm()
    bad_requests()
    with tempfile.TemporaryDirectory() as tmp:
        gates(make_model(pathlib.Path(tmp) / "gated"))
        vectors_by_modules(pathlib.Path(tmp))
        broken_directories(pathlib.Path(tmp))
    return cases.end()


sys.exit(main())
