#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""More tuned models than may be loaded: each of them answers, with the text that it has alone, whoever
asks beside; what is in use stays, and what is not makes place.

Faults they can catch: a model that is refused, or answers as another one, because it was not loaded; one
that is put out under a request; a request that waits for ever behind others; places that are all taken by
adapters that stay; a model that comes back after it was deleted; one whose files were altered while it
was not loaded, and is served; a start that reads them all; other ranks that keep what is gone; a load by name
that waits for a place, and holds up whoever looks at a name or a disk; a key that asks for many models, behind
all of which another key's one waits.

TEST_MODELS=N has as many at the start (200). Random weights; standard library only."""
import concurrent.futures
import contextlib
import datetime
import http.client
import json
import os
import pathlib
import re
import shutil
import sqlite3
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "lib"))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from serving import SLOW, Cases, Tandem, scratch  # noqa: E402
from test_tuning import MODEL, Client, rows  # noqa: E402

MODELS = int(os.environ.get("TEST_MODELS") or 200)
PLACES = 2
KEYS = "".join(f"{who} all {who}-key-{who}-key\n" for who in ("anonymous", "bob"))
ANN, BOB = ({"Authorization": f"Bearer {who}-key-{who}-key"} for who in ("anonymous", "bob"))
CROWD = 60
OPTIONS = ("--name", "tiny", "--kv-memory", "8M", "--max-lora-rank", "16")


def serve(data, *more):
    return Tandem(MODEL, *OPTIONS, "--data-dir", data, "--max-adapters", PLACES, *more)


def text(s, model, n=12, who=None):
    r = s.post("/v1/completions", {"model": model, "prompt": "a b", "max_tokens": n, "temperature": 0,
                                   "logprobs": 1, "ignore_eos": True}, **(who or {}))
    assert r.status == 200, (model, r)
    return json.dumps(r.json["choices"])


def loaded(s):
    """The adapters that are there now."""
    said = re.search(r'running_lora_adapters="([^"]*)"', s.get("/metrics").body.decode())
    return [x for x in said[1].split(",") if x]


def make(s):
    """Four models of different rows, and what each says."""
    c, names = Client(s, {}), []
    for i in range(4):
        job = c.job(c.file(rows(12, answer="a b " * (i + 1))), seed=i,
                    hyperparameters={"n_epochs": 3, "batch_size": 4, "learning_rate_multiplier": 30})
        names.append(c.done(job)["fine_tuned_model"])
    return names


def all_answer(s, names, want):
    """One after the other, in turns, and many at once."""
    for _ in range(2):
        for name in names:
            assert text(s, name) == want[name], name
            assert len(loaded(s)) <= PLACES, loaded(s)
    asked = [names[i * 7 % len(names)] for i in range(48)]
    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        for name, got in zip(asked, pool.map(lambda name: text(s, name), asked)):
            assert got == want[name], name
    assert len(loaded(s)) <= PLACES, loaded(s)
    listed = {m["id"] for m in s.get("/v1/models").json["data"]}
    assert set(names) <= listed, listed


def tuned(tmp, want):
    with serve(tmp / "data") as s:
        names = make(s)
        want.update({name: text(s, name) for name in names})
        assert len(set(want.values())) > 1, want
        all_answer(s, names, want)


def again(tmp, want, *more):
    with serve(tmp / "data", *more) as s:
        if more:  # ranks' sums are in an order of their own
            want = {name: text(s, name) for name in want}
        all_answer(s, list(want), want)


def long_stream(s, model, who=None):
    c = http.client.HTTPConnection("127.0.0.1", s.port, timeout=120 * SLOW)
    c.request("POST", "/v1/completions", json.dumps(
        {"model": model, "prompt": "a", "max_tokens": 3000, "ignore_eos": True, "stream": True}),
        {"Content-Type": "application/json", **(who or {})})
    r = c.getresponse()
    assert r.status == 200 and r.readline(), r.status
    return c


def held_places(tmp, want):
    """Streams hold both places: who asks for a third model waits, and has it when one of them ends."""
    one, two, three, _ = want
    with serve(tmp / "data", "--ctx", "4096") as s, concurrent.futures.ThreadPoolExecutor(1) as pool:
        with contextlib.closing(long_stream(s, one)), contextlib.closing(long_stream(s, two)):
            waits = pool.submit(text, s, three)
            assert set(loaded(s)) == {one, two}, loaded(s)
        assert waits.result() == want[three]
        assert three in loaded(s), loaded(s)


def load_waits(tmp, want):
    """Streams hold both places, and a load by name waits for one: meanwhile others' names come and go."""
    data, (one, two, three, _) = tmp / "waits", want
    shutil.copytree(tmp / "data", data)
    job, = [p for p in (data / "adapters").iterdir() if p.name.endswith(one[-8:])]
    shutil.copytree(job, tmp / "root" / "late")
    with serve(data, "--ctx", "4096", "--adapter-root", tmp / "root") as s, \
            concurrent.futures.ThreadPoolExecutor(1) as pool:
        with contextlib.closing(long_stream(s, one)), contextlib.closing(long_stream(s, two)):
            waits = pool.submit(s.post, "/v1/adapters", {"name": "late"})
            while str(tmp / "root" / "late") not in s.open_files():
                assert not waits.done(), waits.result()
                time.sleep(0.01)
            assert s.ask("DELETE", f"/v1/models/{three}").status == 200
            assert s.ask("DELETE", "/v1/adapters/none").status == 404
            assert s.get("/v1/files").status == 200
            assert not waits.done(), waits.result()
        assert waits.result().status == 200, waits.result()
        assert text(s, "late") == want[one]


def stays(tmp, want):
    """What was loaded by name has its place, and leaves one to models."""
    first = next(iter(want))
    job, = [p for p in (tmp / "data/adapters").iterdir() if p.name.endswith(first[-8:])]
    shutil.copytree(job, tmp / "mine")
    with serve(tmp / "data", "--adapter", f"mine={tmp / 'mine'}") as s:
        all_answer(s, list(want), want)
        assert "mine" in loaded(s) and text(s, "mine") == want[first]
    with Tandem(MODEL, *OPTIONS, "--data-dir", tmp / "data", "--max-adapters", 1, "--adapter", f"mine={tmp / 'mine'}") as s:
        r = s.post("/v1/completions", {"model": first, "prompt": "a"})
        assert r.status == 503 and r.error["code"] == "adapters_full" and r.headers["Retry-After"] == "1", r


def deleted(tmp, want):
    """Not loaded, and deleted: it is gone. Its files altered while it is not loaded: it says so."""
    data = tmp / "copy"
    shutil.copytree(tmp / "data", data)
    with serve(data) as s:
        gone, hurt, *kept = want
        for name in kept:
            text(s, name)
        assert not {gone, hurt} & set(loaded(s)), loaded(s)
        assert s.ask("DELETE", f"/v1/models/{gone}").status == 200
        assert s.post("/v1/completions", {"model": gone, "prompt": "a"}).status == 404
        job, = [p for p in (data / "adapters").iterdir() if p.name.endswith(hurt[-8:])]
        with open(job / "adapter_model.safetensors", "r+b") as f:
            f.seek(-1, 2)
            f.write(b"\x01")
        for _ in range(2):
            r = s.post("/v1/completions", {"model": hurt, "prompt": "a"})
            assert r.status == 500 and r.error["code"] == "model_altered", r
            assert "adapter_model.safetensors" in r.error["message"] and str(data) not in r.error["message"], r
        for name in kept:
            assert text(s, name) == want[name], name


def grown(data, n, model, **other):
    """So many rows of models beside the first one's, each with a folder of its own."""
    with contextlib.closing(sqlite3.connect(data / "store.db")) as db, db:
        row = dict(zip([x[1] for x in db.execute("PRAGMA table_info(tuned)")],
                       db.execute("SELECT * FROM tuned WHERE name = ?", (model,)).fetchone()))
        for i in range(n):
            x = f"{i}{other.get('owner', '')}"
            new = {**row, "seq": None, "id": f"ftmodel_{x:0>24}", "name": f"{model}-{x}",
                   "dir": f"{row['dir']}-step-{10**6 + i + 10**5 * len(other)}", **other}
            shutil.copytree(data / "adapters" / row["dir"], data / "adapters" / new["dir"], copy_function=os.link)
            db.execute(f"INSERT INTO tuned ({', '.join(new)}) VALUES ({', '.join('?' * len(new))})", list(new.values()))


def many(tmp, want):
    """A start with all of them, and answers of some."""
    data, first = tmp / "many", next(iter(want))
    shutil.copytree(tmp / "data", data)
    grown(data, MODELS, first)
    began = time.monotonic()
    with serve(data) as s:
        seconds, rss = time.monotonic() - began, s.rss()
        for i in range(0, MODELS, max(1, MODELS // 50)):
            assert text(s, f"{first}-{i}") == want[first], i
        more = s.rss() - rss
        assert len(s.get("/v1/models").json["data"]) > MODELS
        assert len(loaded(s)) <= PLACES
    return f"{MODELS} models: ready in {seconds:.1f} s, {more / 2**20:.1f} MB more behind 50 of them"


def ended_meanwhile(log):
    """Of each of Bob's requests how many of Ann's ended while the server had it, by its own clock."""
    found = re.findall(r'^(\S+) info  request id="\S+" method="POST" .* ms=([\d.]+) key="(\w+)"', log, re.M)
    rows = [(datetime.datetime.fromisoformat(at[:-1]).timestamp(), float(ms) / 1000, who) for at, ms, who in found]
    return [sum(end - took < at < end for at, _, other in rows if other != "bob")
            for end, took, who in rows if who == "bob"]


def a_crowd_of_models(tmp, want):
    """One key's requests wait for places, each for a model of its own: another key's has the next place but one."""
    data, first = tmp / "crowd", next(iter(want))
    shutil.copytree(tmp / "data", data)
    grown(data, CROWD, first)
    grown(data, 3, first, owner="bob")
    (tmp / "keys").write_text(KEYS)
    with serve(data, "--ctx", "4096", "--api-key-file", tmp / "keys") as s, \
            concurrent.futures.ThreadPoolExecutor(CROWD) as pool:
        with contextlib.ExitStack() as held:
            for name in list(want)[1:3]:
                held.enter_context(contextlib.closing(long_stream(s, name, ANN)))
            crowd = [pool.submit(text, s, f"{first}-{i}", who=ANN) for i in range(CROWD)]
            while s.metrics(**ANN)["tandem_http_connections"] < CROWD + 3:
                assert not any(x.done() for x in crowd)
        for i in range(3):
            assert text(s, f"{first}-{i}bob", who=BOB) == want[first]
        for x in crowd:
            assert x.result() == want[first]
    passed = ended_meanwhile(s.said())
    assert len(passed) == 3 and max(passed) <= 2 * PLACES + 2, f"so many of another key's went first: {passed}"


def main():
    cases, want = Cases(), {}
    with scratch() as tmp:
        cases.run("more models than places", lambda: tuned(tmp, want))
        cases.run("behind a start", lambda: again(tmp, want))
        cases.run("of two ranks", lambda: again(tmp, want, "--tp", "2"))
        for case in (held_places, load_waits, stays, deleted, many, a_crowd_of_models):
            cases.run(case.__name__, lambda case=case: case(tmp, want))
    return cases.end()


if __name__ == "__main__":
    sys.exit(main())
