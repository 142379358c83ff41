#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Two builds of this program beside each other: does a change keep every bit?

    tests/peer/same_bits.py OLD NEW [--asks 200] [--steps 20]

OLD and NEW are build folders (build/release of two trees). For each family a model of random weights is
made; both programs serve it and answer the same random requests (greedy and sampled, with
log-probabilities, penalties, stops, several choices, several at a time), and both train it: an adapter
and all of its weights. Tokens, log-probabilities to the last digit, vectors, losses and the trained
files must be equal. A line for each, the last one counts.
"""
import argparse
import concurrent.futures
import hashlib
import json
import pathlib
import random
import re
import subprocess
import sys
import tempfile
import time
import urllib.request

KINDS = {  # of make_model, and what the program is told
    "llama bf16": (["--family", "llama", "--rope", "llama3"], []),
    "mistral f32, window": (["--family", "mistral", "--dtype", "f32", "--window", 40], []),
    "qwen2 int8": (["--family", "qwen2"], ["--quantize", "int8"]),
    "qwen3 bf16": (["--family", "qwen3", "--tied"], []),
    "gpt2 f32": (["--family", "gpt2", "--dtype", "f32"], []),
    "bert f32": (["--family", "bert", "--dtype", "f32"], []),
}
SHAPE = ["--hidden", 128, "--ff", 320, "--layers", 3, "--heads", 4, "--kv-heads", 2, "--ctx", 512]


def run(*words):
    return subprocess.run([str(w) for w in words], capture_output=True, text=True, check=True)


class Server:
    def __init__(self, build, model, options):
        self.log = tempfile.TemporaryFile("w+b")
        words = [build / "tandem", "serve", model, "--name", "m", "--port", 0, "--drain-delay", 0,
                 "--kv-memory", "64M", "--no-access-log", *options]
        self.process = subprocess.Popen([str(w) for w in words], stdout=self.log, stderr=self.log)
        while True:
            self.log.seek(0)
            said = self.log.read().decode("utf-8", "replace")
            if self.process.poll() is not None:
                sys.exit(f"{build}: {said}")
            port = re.search(r'listening\b.*\bport"?[=:](\d+)\D', said)
            if port and " ready " in said:
                self.url = f"http://127.0.0.1:{port[1]}"
                return
            time.sleep(0.05)

    def ask(self, path, body):
        r = urllib.request.Request(self.url + path, json.dumps(body).encode(),
                                   {"Content-Type": "application/json"})
        with urllib.request.urlopen(r) as answer:
            return json.load(answer)

    def end(self):
        self.process.terminate()
        self.process.wait()


def request(rng):
    body = {"model": "m", "prompt": [rng.randrange(3, 250) for _ in range(rng.randint(1, 150))],
            "max_tokens": rng.randint(1, 64), "temperature": rng.choice([0, 0, 0.7, 1.3]),
            "seed": rng.randrange(1 << 30), "logprobs": rng.randint(0, 5)}
    if rng.random() < 0.3:
        body |= {"n": 2, "top_p": 0.9, "top_k": 40}
    if rng.random() < 0.3:
        body |= {"presence_penalty": 0.5, "frequency_penalty": 0.3}
    if rng.random() < 0.2:
        body |= {"echo": True}
    if rng.random() < 0.2:
        body |= {"prompt": (body["prompt"][:8] * 12)[:96]}
    return "/v1/completions", body


def embedding(rng):
    text = "".join(rng.choice("abcdefgh ") for _ in range(rng.randint(1, 200)))
    return "/v1/embeddings", {"model": "m", "input": text}


def answers(build, model, options, asks):
    server = Server(build, model, options)
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda a: server.ask(*a), asks))
    server.end()
    # ids and times are not the model's; nor is where in the text a token stands
    choices = [f.get("choices", f.get("data")) for f in found]
    for c in sum(choices, []):
        (c.get("logprobs") or {}).pop("text_offset", None)
    return choices


def digests(root):
    return {p.name: hashlib.sha256(p.read_bytes()).hexdigest()
            for p in sorted(root.rglob("*.safetensors")) if "checkpoint" not in str(p)}


def trained(build, model, options, rows, out, rank):
    """What was written, and what each step said of its loss."""
    p = run(build / "tandem", "train", "--model", model, "--data", rows, "--out", out, "--epochs", 1,
            "--batch", 4, "--rank", rank, "--lr", "1e-3", "--seed", 5, "--threads", 2, *options)
    return digests(out), re.findall(r"loss[ =]([0-9.e+-]+)", p.stdout + p.stderr)


def main():
    p = argparse.ArgumentParser(description="Do two builds give the same bits?")
    p.add_argument("old", type=pathlib.Path)
    p.add_argument("new", type=pathlib.Path)
    p.add_argument("--asks", type=int, default=200)
    p.add_argument("--steps", type=int, default=20)
    p.add_argument("--seed", type=int, default=1)
    opt = p.parse_args()
    passed = failed = 0

    def say(what, same, detail=""):
        nonlocal passed, failed
        passed, failed = passed + same, failed + (not same)
        print(f"same      {what}" if same else f"DIFFERENT {what} {detail}", flush=True)

    with tempfile.TemporaryDirectory() as tmp:
        tmp = pathlib.Path(tmp)
        for kind, (shape, options) in KINDS.items():
            rng = random.Random(f"{opt.seed} {kind}")
            model = tmp / kind.replace(" ", "_")
            run(opt.old / "tests/tools/make_model", model, *SHAPE, *shape)
            make = embedding if kind.startswith("bert") else request
            asks = [make(rng) for _ in range(opt.asks)]
            old, new = (answers(b, model, options, asks) for b in (opt.old, opt.new))
            wrong = [i for i, (a, b) in enumerate(zip(old, new)) if a != b]
            say(f"{kind}: {len(asks)} answers", not wrong, f"first {asks[wrong[0]]}" if wrong else "")
            if make is embedding:
                continue
            rows = tmp / "rows.jsonl"
            rows.write_text("".join(json.dumps({
                "prompt": "".join(rng.choice("abc d") for _ in range(rng.randint(1, 60))) + "\n",
                "completion": "".join(rng.choice("xyz ") for _ in range(rng.randint(1, 60)))}) + "\n"
                for _ in range(4 * opt.steps)))
            for rank in (8, 0):
                if rank == 0 and "int8" in kind:
                    continue
                got = [trained(b, model, options, rows, tmp / f"{kind}.{rank}.{i}".replace(" ", "_"),
                               rank) for i, b in enumerate((opt.old, opt.new))]
                name = "an adapter" if rank else "all weights"
                say(f"{kind}: {opt.steps} steps of {name}",
                    bool(got[0][0]) and list(got[0][0].values()) == list(got[1][0].values()),
                    f"{got[0][0]} {got[1][0]}")
                say(f"{kind}: the losses of {name}", bool(got[0][1]) and got[0][1] == got[1][1])
    print(f"{passed} passed, {failed} failed")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
