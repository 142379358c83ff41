#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""One data directory and two models of one shape with other weights: what was made over the first, or
was to be, when the second is served from it, and when the first is back.

Faults they can catch: a tuned model that answers over weights that it did not learn beside; a training
that goes on over others, or is thrown away by a server that was started with the wrong model; an adapter
that is taken because its shapes fit; rows of an older program that are lost, or belong to any base; a
training whose result nobody can ask for, since the base has an odd name.

Standard library only."""
import json
import pathlib
import shutil
import signal
import sqlite3
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "lib"))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from serving import BIN, Cases, Tandem, scratch  # noqa: E402
from test_tuning import JOBS, MODEL, Client, rows  # noqa: E402

QUICK = {"hyperparameters": {"n_epochs": 2, "batch_size": 4, "learning_rate_multiplier": 20}, "seed": 1}
LONG = {"hyperparameters": {"n_epochs": 50, "batch_size": 1, "checkpoint_steps": 2}, "seed": 2}


def other_weights(path):
    """The model with another last bit in every number."""
    shutil.copytree(MODEL, path)
    file = path / "model.safetensors"
    data = bytearray(file.read_bytes())
    begin = 8 + int.from_bytes(data[:8], "little")
    for i in range(begin, len(data), 4):
        data[i] ^= 1
    file.write_bytes(data)
    return path


def serve(model, tmp, *options, data="data", **more):
    return Tandem(model, "--name", "tiny", "--data-dir", tmp / data, "--no-access-log", *options, **more)


def ask(c, model):
    return c.ask("POST", "/v1/completions", {"model": model, "prompt": "a b a b", "max_tokens": 8,
                                             "temperature": 0, "logprobs": 1})


def names(c):
    return [m["id"] for m in c.get("/v1/models").json["data"]]


def events(c, job):
    return [e["message"] for e in c.get(f"{JOBS}/{job}/events?limit=100").json["data"]]


class World:
    """What was made over the first model: done, half run, paused after a step, not begun."""

    def __init__(self, tmp):
        self.tmp, self.b = tmp, other_weights(tmp / "b")
        with serve(MODEL, tmp) as s:
            c = Client(s)
            few, many = c.file(rows(12)), c.file(rows(2000))
            self.tuned = c.done(c.job(few, **QUICK))["fine_tuned_model"]
            self.said = ask(c, self.tuned).json["choices"]
            self.paused = c.job(many, **LONG)
            c.wait_step(self.paused, 3)
            assert c.ask("POST", f"{JOBS}/{self.paused}/pause").json["status"] == "paused"
            self.half = c.job(many, **LONG)
            self.queued = c.job(few, **QUICK)
            c.wait_step(self.half, 3)
            self.fingerprint = c.get("/v1/models").json["data"][0]["fingerprint"]
            s.stop(signal.SIGKILL)
            s.process.returncode = 0  # it was to end so
        self.dir, = (p for p in (tmp / "data/adapters").iterdir() if p.is_dir()
                     and p.name.startswith("ftjob-") and "-step-" not in p.name)


def of_another_base(w):
    shutil.copytree(w.tmp / "data", w.tmp / "at-b")
    with serve(w.b, w.tmp, data="at-b") as s:
        c = Client(s)
        here = c.get("/v1/models").json["data"][0]["fingerprint"]
        assert here != w.fingerprint
        assert names(c) == ["tiny"], names(c)
        for r in (ask(c, w.tuned), c.get(f"/v1/models/{w.tuned}")):
            assert r.status == 400 and r.error["code"] == "base_mismatch", r
            assert here in r.error["message"] and w.fingerprint in r.error["message"], r
        half = c.wait(w.half)
        assert half["status"] == "failed" and half["error"]["code"] == "base_mismatch", half
        assert here in half["error"]["message"] and w.fingerprint in half["error"]["message"], half
        assert c.look(w.queued)["status"] in ("validating_files", "queued")
        assert "waits for its base" in events(c, w.queued)[0]
        r = c.ask("POST", f"{JOBS}/{w.paused}/resume")
        assert r.status == 400 and r.error["code"] == "base_mismatch", r
        assert c.look(w.paused)["status"] == "paused"
        own = c.done(c.job(c.file(rows(12)), **QUICK))["fine_tuned_model"]
        assert c.look(w.queued)["status"] in ("validating_files", "queued")  # older, and passed over
        assert ask(c, own).status == 200 and own in names(c)
    with serve(MODEL, w.tmp, data="at-b") as s:
        c = Client(s)
        assert ask(c, w.tuned).json["choices"] == w.said
        assert ask(c, own).error["code"] == "base_mismatch"
        c.done(w.queued)
        assert c.ask("POST", f"{JOBS}/{w.paused}/resume").status == 200
        c.wait_step(w.paused, c.look(w.paused)["trained_tokens"] and 5)
        c.ask("POST", f"{JOBS}/{w.paused}/cancel")
        assert c.ask("DELETE", f"/v1/models/{own}").status == 200
        assert ask(c, own).error["code"] == "model_not_found"


def of_another_type(w, option):
    """A finished adapter is served, and the log says over what; a training waits for its own."""
    shutil.copytree(w.tmp / "data", w.tmp / option)
    with serve(MODEL, w.tmp, option, "int8", data=option) as s:
        c = Client(s)
        assert ask(c, w.tuned).status == 200 and w.tuned in names(c)
        assert "weights of another type" in s.output()
        half = c.wait(w.half, ("paused",))
        assert half["error"] is None or not half["error"].get("code"), half
        assert c.ask("POST", f"{JOBS}/{w.paused}/resume").error["code"] == "base_mismatch"
        c.done(w.queued)  # no step of it was taken before
    with serve(MODEL, w.tmp, data=option) as s:
        c = Client(s)
        assert c.ask("POST", f"{JOBS}/{w.half}/resume").status == 200
        c.wait_step(w.half, 5)
        c.ask("POST", f"{JOBS}/{w.half}/cancel")


def by_option(w):
    try:
        with Tandem(w.b, "--adapter", f"mine={w.dir}"):
            raise RuntimeError("it is served")
    except AssertionError as said:
        assert "another base: 'tiny'" in str(said) and w.fingerprint in str(said), said
    with Tandem(MODEL, "--adapter", f"mine={w.dir}") as s:
        assert s.post("/v1/completions", {"model": "mine", "prompt": "a", "max_tokens": 2}).status == 200
    plain = w.tmp / "plain"
    shutil.copytree(w.dir, plain)
    (plain / "tandem.json").unlink()  # as PEFT writes it
    with Tandem(w.b, "--adapter", f"mine={plain}") as s:
        assert s.post("/v1/completions", {"model": "mine", "prompt": "a", "max_tokens": 2}).status == 200
    p = subprocess.run([BIN, "merge", w.b, w.dir, w.tmp / "merged"], text=True, capture_output=True,
                       check=False)
    assert p.returncode and "another base" in p.stderr, p.stderr


def of_an_older_program(w):
    """Rows, checkpoints and adapters that say no base, and have no list of their files, become the
    base's where they were made."""
    data = w.tmp / "older"
    shutil.copytree(w.tmp / "data", data)
    db = sqlite3.connect(data / "store.db")
    db.executescript("UPDATE job SET fingerprint = NULL; UPDATE tuned SET fingerprint = NULL;")
    db.close()
    for name in ("tandem.json", "tandem.sha256"):
        for file in data.glob(f"adapters/*/{name}"):
            file.unlink()
    for file in data.glob("checkpoints/*/*/manifest.json"):
        manifest = json.loads(file.read_text())
        del manifest["base"]
        file.write_text(json.dumps(manifest))
    with serve(MODEL, w.tmp, data="older") as s:
        c = Client(s)
        assert ask(c, w.tuned).json["choices"] == w.said
        c.wait_step(w.half, 5)
        c.ask("POST", f"{JOBS}/{w.half}/pause")
        assert s.said().count("are taken for this one's") == 1
        c.done(w.queued)
    with serve(w.b, w.tmp, data="older") as s:
        c = Client(s)
        assert ask(c, w.tuned).error["code"] == "base_mismatch"
        assert c.ask("POST", f"{JOBS}/{w.half}/resume").error["code"] == "base_mismatch"
        assert "taken for this one's" not in s.output()


def of_any_name(tmp):
    name, data = "My Model..(v2) \u00e9", tmp / "odd"
    tuned = None
    for _ in range(2):
        with Tandem(MODEL, "--name", name, "--data-dir", data, "--no-access-log") as s:
            c = Client(s)
            if not tuned:
                job = c.job(c.file(rows(12)), model=name, suffix="a..b", **QUICK)
                tuned = c.done(job)["fine_tuned_model"]
            assert ask(c, tuned).status == 200 and tuned in names(c), (tuned, names(c))


def main():
    cases = Cases()
    with scratch() as tmp:
        cases.run("of any name", lambda: of_any_name(tmp))
        w = World(tmp)
        for case in (of_another_base, by_option, of_an_older_program):
            cases.run(case.__name__.replace("_", " "), lambda case=case: case(w))
        for option in ("--quantize", "--kv-type"):
            cases.run(f"of another type, {option}", lambda option=option: of_another_type(w, option))
    return cases.end()


if __name__ == "__main__":
    sys.exit(main())
