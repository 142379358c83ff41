#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`--parallel auto` of `tandem serve` and `tandem train`: on the CPU, on the twins of four GPUs, and with
processes that were started together. What is taken is what then runs, and the log says why. (Which sizes
are taken is test_parallel.c's.)

Faults they can catch: more ranks than are needed; processes that take different sizes; a choice that
contradicts --tp unheard; a start that goes on where nothing fits.

Standard library only."""
import json
import os
import pathlib
import re
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "lib"))
from ranks import Sockets  # noqa: E402
from serving import BIN, BUILD, SLOW, Cases, Tandem, scratch  # noqa: E402

MODEL = "tests/golden/models/llama_tied"
PLUG = BUILD / "tests/fake/cuda/plug.so"
ENOUGH, NOTHING = 1 << 30, 100 << 10


def gpus(memory, n=4):
    plug = str(PLUG.resolve())  # a twin of NCCL is in it too
    return {"TANDEM_CUDA_PLUG": plug, "TANDEM_NCCL": plug, "FAKE_CUDA_DEVICES": str(n),
            "FAKE_CUDA_MEMORY": str(memory)}


def run(*words, **env):
    return subprocess.run([BIN, *map(str, words)], capture_output=True, text=True, check=False,
                          stdin=subprocess.DEVNULL, timeout=120 * SLOW, env={**os.environ, **env})


def serves(want, *options, **env):
    with Tandem(MODEL, "--parallel", "auto", "--threads", 1, "--ctx", 32, "--kv-memory", "64K", *options,
                env=env) as s:
        said = re.search(r"parallel tp=(\d+) why=(.*)", s.said())
        assert said and int(said[1]) == want, s.output()
        r = s.post("/v1/completions", {"model": s.get("/v1/models").json["data"][0]["id"],
                                       "prompt": [1, 2, 3], "max_tokens": 4, "temperature": 0})
        assert r.status == 200, r
    return said[2]


def refuses(status, said, *words, **env):
    p = run(*words, **env)
    assert p.returncode == status and re.search(said, p.stderr), (p.returncode, p.stderr)


def train_words(tmp, out, *more):
    return ["train", "--model", MODEL, "--data", tmp / "rows.jsonl", "--out", tmp / out, "--epochs", 1,
            "--rank", 2, "--threads", 1, "--quantize", "f32", "--parallel", "auto", *more]


def trains(want, *words, **env):
    p = run(*words, **env)
    assert p.returncode == 0 and p.stderr.count("--parallel auto:") == 1, p.stderr
    assert re.search(want, p.stderr), p.stderr
    return re.search(r"--parallel auto: (.*)", p.stderr)[1]


def processes(tmp):
    group = Sockets([BIN, *train_words(tmp, "processes")], 2)
    status = group.wait(120 * SLOW)
    assert status == [0, 0], (status, group.said())
    assert group.said().count("--parallel auto: --tp 1 --dp 2: each of 2 processes") == 1, group.said()
    assert (tmp / "processes/adapter/adapter_model.safetensors").exists()


def write_rows(path):
    path.write_text("".join(json.dumps({"prompt": "a b " * (1 + i % 5), "completion": "b a b a"}) + "\n"
                            for i in range(12)))


def main():
    cases = Cases()
    cases.run("serve, CPU", lambda: serves(1, "--device", "cpu"))
    cases.run("serve, --tp as well", lambda: refuses(
        2, "give one of them", "serve", MODEL, "--port", 0, "--parallel", "auto", "--tp", 2))
    cases.run("serve, large GPUs", lambda: serves(1, "--device", "cuda", **gpus(ENOUGH)))
    cases.run("serve, nothing fits", lambda: refuses(
        2, "--parallel auto: with 4 ranks each", "serve", MODEL, "--port", 0, "--parallel", "auto",
        **gpus(NOTHING)))
    with scratch() as tmp:
        write_rows(tmp / "rows.jsonl")
        cases.run("train, CPU", lambda: trains(
            "auto: one rank: on a CPU", *train_words(tmp, "cpu"), "--device", "cpu"))
        cases.run("train, large GPUs", lambda: trains(
            "auto: --tp 1 --dp 4: each of 4 GPUs", *train_words(tmp, "large"), **gpus(ENOUGH)))
        cases.run("train, nothing fits", lambda: refuses(
            2, "does not fit", *train_words(tmp, "none"), **gpus(NOTHING)))
        cases.run("train, processes", lambda: processes(tmp))
    return cases.end()


sys.exit(main())
