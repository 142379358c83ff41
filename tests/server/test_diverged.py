#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Numbers that are not finite, in the weights, in an adapter, in a training: an error that says so for
who asked, and nothing for anybody else.

Faults they can catch: a job that succeeds on weights or steps that make no sense; one that fails
without a cause, or takes its good checkpoints with it; an answer made of NaN; a server that ends, or
answers others differently.

Standard library only."""
import json
import pathlib
import re
import shutil
import struct
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "lib"))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from serving import BIN, Cases, Tandem, scratch  # noqa: E402
from test_tuning import JOBS, MODEL, Client, rows  # noqa: E402

INF, NAN = float("inf"), float("nan")


def poison(file, tensor, value):
    """Writes one value into a safetensors file: the first of the first tensor of that name."""
    b = bytearray(file.read_bytes())
    n = struct.unpack("<Q", b[:8])[0]
    header = json.loads(b[8:8 + n])
    found = next(v for k, v in header.items() if tensor in k)
    at, bits = 8 + n + found["data_offsets"][0], struct.pack("<f", value)
    bits = {"F32": bits, "BF16": bits[2:]}[found["dtype"]]
    b[at:at + len(bits)] = bits
    file.write_bytes(b)


def serve(model, tmp, *options):
    return Tandem(model, "--name", "tiny", "--data-dir", tmp / "data", "--no-access-log",
                  "--kv-memory", "8M", "--max-lora-rank", "16", *options)


def says_so(r):
    assert r.status == 500 and r.error["code"] == "diverged", r
    assert "not finite" in r.error["message"], r
    assert r.headers["x-should-retry"] == "false", r.headers


def diverged(c, job, least=1):
    j = c.wait(job)
    assert j["status"] == "failed" and j["error"]["code"] == "training_diverged", j
    assert j["finished_at"] and j["fine_tuned_model"] is None and j["result_files"] == [], j
    said = j["error"]["message"]
    step = int(said.split(":")[0].split()[1])
    assert said.startswith("step ") and step >= least, j
    last = c.get(f"{JOBS}/{job}/events?limit=1").json["data"][0]
    assert last["level"] == "error" and said in last["message"], last
    steps = [e["data"]["step"] for e in c.get(f"{JOBS}/{job}/events?limit=1000").json["data"]
             if e["type"] == "metrics"]
    assert steps == list(range(step - 1, 0, -1)), (steps, step)
    return step


def weights(tmp):
    for i, (tensor, value) in enumerate((("q_proj", NAN), ("down_proj", INF), ("layernorm", 3e38))):
        at = tmp / f"model{i}"
        shutil.copytree(MODEL, at)
        poison(at / "model.safetensors", tensor, value)
        with serve(at, at) as s:
            c = Client(s, {})
            says_so(c.say("tiny"))
            file = c.file(rows(12))
            for _ in range(2):
                assert diverged(c, c.job(file)) == 1
            says_so(c.say("tiny"))
            assert s.get("/readyz").status == 200


def explosion(c):
    """The learning rate grows until a step makes nothing but overflows."""
    base, file = c.say("tiny").json["choices"], c.file(rows(12))
    job = c.job(file, seed=1, hyperparameters={
        "n_epochs": 50, "batch_size": 4, "learning_rate_multiplier": 1e6, "lora_rank": 1,
        "lora_alpha": 1e5, "schedule": "constant", "warmup_steps": 10000})
    step = diverged(c, job, least=7)
    points = c.get(f"{JOBS}/{job}/checkpoints").json["data"]
    assert [p["step_number"] for p in points] == [s for s in range(150, 0, -3) if s < step][:3], points
    for p in points:
        assert c.say(p["fine_tuned_model_checkpoint"]).status == 200
    assert c.say("tiny").json["choices"] == base
    c.done(c.job(file))
    return f"at step {step}"


def adapter(c, tmp):
    base, file = c.say("tiny").json["choices"], c.file(rows(12))
    j = c.done(c.job(file))
    at = tmp / "root/bad"
    shutil.copytree(tmp / "data/adapters" / j["id"], at)
    for value in (NAN, INF):
        poison(at / "adapter_model.safetensors", "lora_B", value)
        r = c.ask("POST", "/v1/adapters", {"name": "bad"})
        if r.status == 200:
            says_so(c.say("bad"))
        else:
            assert r.status == 400 and "finite" in r.error["message"], r
        assert c.say("tiny").json["choices"] == base
        assert c.say(j["fine_tuned_model"]).status == 200


def sums_in_double():
    """Whether all kernels are the reference's, whose sums nothing here makes overflow."""
    p = subprocess.run([BIN, "doctor"], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                       check=True)
    return re.search(r"^kernels +\d+ ref$", p.stdout, re.M)


def main():
    cases = Cases()
    with scratch() as tmp:
        cases.run("in the weights", lambda: weights(tmp))
        (tmp / "root").mkdir()
        with serve(MODEL, tmp, "--adapter-root", tmp / "root") as s:
            c = Client(s, {})
            if sums_in_double():
                cases.skip("in a training", "the reference's kernels do not overflow in it")
            else:
                cases.run("in a training", lambda: explosion(c))
            cases.run("in an adapter", lambda: adapter(c, tmp))
    return cases.end()


if __name__ == "__main__":
    sys.exit(main())
