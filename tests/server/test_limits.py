#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What one key may have of what is everybody's: jobs, adapters, texts at once, tokens. Catches: 600 jobs
or 64 adapters of one key that leave nothing to another; a refusal that does not say which limit it is; a
limit of tokens that runs into debt; a time to come back that is not true; bodies of one key that leave no memory
to another's; files whose number has no end since they hold nothing; an address that may have another part of the
connections than the documents say."""
import contextlib
import http.client
import pathlib
import select
import socket
import sqlite3
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
from serving import ENDLESS, SLOW, Cases, Tandem, make_model, scratch  # noqa: E402

ANN, BOB, CYD, DOT = ({"Authorization": f"Bearer {who}-key-{who}-key"} for who in ("ann", "bob", "cyd", "dot"))
EVE, FAY = ({"Authorization": f"Bearer {who}-key-{who}-key"} for who in ("eve", "fay"))
KEYS = ("ann all ann-key-ann-key\nbob all bob-key-bob-key\n"
        "cyd all cyd-key-cyd-key tpm=300\ndot all dot-key-dot-key texts=8 jobs=2 adapters=1\n"
        "eve all eve-key-eve-key adapters=1\nfay all fay-key-fay-key model_bytes=1000\n")
JOBS = "/v1/fine_tuning/jobs"
BOUNDARY = "x-boundary-x"
FILES = 100000  # of a key


def sent(s, key, n, purpose="fine-tune"):
    rows = b'{"prompt": "a b c", "completion": "d e f"}\n' * n
    part = f"--{BOUNDARY}\r\nContent-Disposition: form-data; name="
    body = (f'{part}"purpose"\r\n\r\n{purpose}\r\n{part}"file"; filename="rows.jsonl"\r\n\r\n'.encode()
            + rows + f"\r\n--{BOUNDARY}--\r\n".encode())
    return s.ask("POST", "/v1/files", body, **key,
                 **{"Content-Type": f"multipart/form-data; boundary={BOUNDARY}"})


def upload(s, *more):
    r = sent(s, *more)
    assert r.status == 200, r
    return r.json["id"]


def job(s, key, file, epochs=50):
    return s.post(JOBS, {"model": "tiny", "training_file": file,
                         "hyperparameters": {"n_epochs": epochs, "batch_size": 1}}, **key)


def six_hundred_jobs(s):
    file = upload(s, ANN, ENDLESS)
    made = [job(s, ANN, file) for _ in range(600)]
    good = [r for r in made if r.status == 200]
    bad = [r for r in made if r.status != 200]
    assert len(good) == 100, len(good)
    assert all(r.status == 429 and "jobs_waiting" in r.error["message"] for r in bad), bad[0]
    r = job(s, BOB, upload(s, BOB, 12), 1)
    assert r.status == 200, r
    for one in good:
        r = s.post(f"{JOBS}/{one.json['id']}/cancel", {}, **ANN)
        assert r.status == 200, r
    assert job(s, ANN, file).status == 200, "jobs that ended still count"


def what_was_made_before_is_no_further_job(s):
    file = upload(s, DOT, 12)
    again = {**DOT, "Idempotency-Key": "once"}
    first = job(s, again, file, 1)
    assert first.status == 200, first
    assert job(s, DOT, file, 1).status == 200
    r = job(s, DOT, file, 1)
    assert r.status == 429 and "(jobs)" in r.error["message"] and r.headers["x-should-retry"] == "false", r
    r = job(s, again, file, 1)
    assert r.status == 200 and r.json["id"] == first.json["id"], r


def trained(s, data):
    """The folder of an adapter that a job of bob's made."""
    end = time.monotonic() + 120 * SLOW
    while time.monotonic() < end:
        for at in data.glob("adapters/*/adapter_model.safetensors"):
            if ".tmp" not in at.parent.name:
                return at.parent
        time.sleep(0.05)
    raise AssertionError("bob's job made no adapter")


def adapters_and_one_more(s, root):
    def load(name, key):
        return s.post("/v1/adapters", {"name": name, "path": "one"}, **key)
    for i in range(4):
        r = load(f"ann-{i}", ANN)
        assert r.status == 200, r
    r = load("ann-4", ANN)
    assert r.status == 429 and "adapters" in r.error["message"], r
    assert load("ann-3", ANN).status == 200, "a new version is no further adapter"
    r = load("dot-0", DOT)
    assert r.status == 200, r
    assert load("dot-1", DOT).status == 429
    assert s.ask("DELETE", "/v1/adapters/ann-0", **ANN).status == 200
    assert load("ann-4", ANN).status == 200


def models_that_jobs_made(s):
    """Their bytes: one that has as many as it may have begins no further job, until it has deleted one."""
    file = upload(s, FAY, 12)
    ended(s, job(s, FAY, file, 1), FAY)
    r = s.post(JOBS, {"model": "tiny", "training_file": file}, **{**FAY, "Idempotency-Key": "late"})
    assert r.status == 400 and r.error["code"] == "models_quota_exceeded" and "model_bytes" in r.error["message"], r
    for name in served(s, FAY):
        assert s.ask("DELETE", f"/v1/models/{name}", **FAY).status == 200
    ended(s, job(s, FAY, file, 1), FAY)


def served(s, key):
    return [m["id"] for m in s.get("/v1/models", **key).json["data"] if m["id"].startswith("ft:")]


def ended(s, made, key):
    assert made.status == 200, made
    end = time.monotonic() + 120 * SLOW
    while (state := s.get(f"{JOBS}/{made.json['id']}", **key).json["status"]) != "succeeded":
        assert state in ("validating_files", "queued", "running") and time.monotonic() < end, state
        time.sleep(0.05)


def results_need_no_place(s):
    """What a key's jobs make answers, whatever the key may load by name (one adapter)."""
    file = upload(s, EVE, 12)
    for _ in range(2):
        ended(s, job(s, EVE, file, 1), EVE)
    results_answer(s)


def results_answer(s):
    names = served(s, EVE)
    assert len(names) == 2, names
    for name in names:
        assert s.post("/v1/completions", {"model": name, "prompt": "a", "max_tokens": 1}, **EVE).status == 200, name


def texts_at_once(s):
    r = s.post("/v1/completions", {"prompt": ["a"] * 9, "max_tokens": 1}, **DOT)
    assert r.status == 400 and r.error["code"] == "over_limit" and "texts" in r.error["message"], r
    assert r.error["param"] == "prompt", r
    assert s.post("/v1/completions", {"prompt": ["a"] * 8, "max_tokens": 1}, **DOT).status == 200
    r = s.post("/v1/completions", {"prompt": "a", "n": 9, "max_tokens": 1}, **DOT)
    assert r.status == 400 and r.error["param"] == "n", r
    assert s.post("/v1/embeddings", {"input": ["a"] * 9}, **DOT).status == 400


def tokens_without_debt(s):
    def ask(max_tokens, **more):
        return s.post("/v1/completions", {"prompt": "a", "max_tokens": max_tokens, **more}, **CYD)
    r = ask(301)
    assert r.status == 400 and "tpm" in r.error["message"] and r.error["param"] == "max_tokens", r
    r = s.post("/v1/responses", {"input": "a", "max_output_tokens": 301}, **CYD)
    assert r.status == 400 and r.error["param"] == "max_output_tokens", r
    r = ask(250, ignore_eos=True)
    assert r.status == 200 and r.json["usage"]["completion_tokens"] == 250, r
    assert 0 <= int(r.headers["x-ratelimit-remaining-tokens"]) <= 50, r.headers
    r = ask(250)
    assert r.status == 429 and "tpm" in r.error["message"], r
    wait = int(r.headers["Retry-After"])
    assert 1 <= wait <= 41, wait  # 200 of 300 a minute
    assert len(r.headers.get_all("x-ratelimit-remaining-tokens")) == 1, r.headers


def files_without_bytes(model, data, *options):
    """So many rows of a key, whatever is in them; another key's count for nothing."""
    with Tandem(model, *options) as s:
        one = upload(s, EVE, 0)
    with contextlib.closing(sqlite3.connect(data / "store.db")) as db, db:
        row = dict(zip([x[1] for x in db.execute("PRAGMA table_info(file)")],
                       db.execute("SELECT * FROM file WHERE id = ?", (one,)).fetchone()))
        row = {k: v for k, v in row.items() if k != "seq"}
        db.executemany(f"INSERT INTO file ({', '.join(row)}) VALUES ({', '.join('?' * len(row))})",
                       (tuple({**row, "id": f"file-{i}"}.values()) for i in range(FILES - 1)))
    with Tandem(model, *options) as s:
        r = s.post("/v1/uploads", {"purpose": "batch", "filename": "a", "bytes": 1, "mime_type": "text/plain"}, **EVE)
        assert r.status == 400 and r.error["code"] == "files_limit", r
        assert upload(s, BOB, 0)
        r = sent(s, EVE, 0)
        assert r.status == 400 and r.error["code"] == "files_limit", r
        assert s.ask("DELETE", f"/v1/files/{one}", **EVE).status == 200
        assert upload(s, EVE, 0)


def sent_so_far(s, key, n):
    """A request whose body has n bytes, and lacks the last one."""
    c = socket.create_connection(("127.0.0.1", s.port))
    head = (f"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nAuthorization: {key['Authorization']}\r\n"
            f"Content-Type: application/json\r\nContent-Length: {n + 1}\r\n\r\n")
    c.sendall(head.encode() + b" " * n)
    return c


def bodies_that_come_slowly(model, *options):
    """They may hold half of the memory that is for all."""
    mb = 1 << 20
    with Tandem(model, *options, "--body-memory", "4M") as s, contextlib.ExitStack() as held:
        hers = [held.enter_context(contextlib.closing(sent_so_far(s, ANN, mb - 4096))) for _ in range(3)]
        refused, _, _ = select.select(hers, [], [], 60 * SLOW)
        said = refused[0].recv(4096)
        assert said.startswith(b"HTTP/1.1 429 ") and b"Retry-After: " in said, said
        c = held.enter_context(contextlib.closing(sent_so_far(s, BOB, mb - 4096)))
        c.sendall(b"{")
        c.settimeout(60 * SLOW)
        said = c.recv(4096)
        assert said.startswith(b"HTTP/1.1 400 "), said  # it was read


def connections_of_an_address(model):
    """Three quarters of them all; one more is closed without an answer."""
    with Tandem(model, "--http-threads", 1, "--max-connections", 40) as s, contextlib.ExitStack() as opened:
        s.wait_idle()
        n = 0
        while n < 40:
            c = opened.enter_context(contextlib.closing(http.client.HTTPConnection("127.0.0.1", s.port, timeout=60)))
            try:
                c.request("GET", "/health")
                assert c.getresponse().read()
            except (ConnectionError, http.client.HTTPException):
                break
            n += 1
    assert n == 30, n


cases = Cases()
with scratch() as tmp:
    (tmp / "keys").write_text(KEYS, encoding="utf-8")
    (tmp / "root").mkdir()
    data = tmp / "data"
    with Tandem(make_model(tmp / "tiny"), "--api-key-file", tmp / "keys", "--name", "tiny", "--data-dir", data,
                "--adapter-root", tmp / "root", "--max-adapters", 8) as server:
        cases.run("600 jobs of one key", lambda: six_hundred_jobs(server))
        cases.run("a job that was made before is no further one",
                  lambda: what_was_made_before_is_no_further_job(server))
        made = trained(server, data)
        (tmp / "root" / "one").mkdir()
        for name in ("adapter_model.safetensors", "adapter_config.json"):
            (tmp / "root" / "one" / name).write_bytes((made / name).read_bytes())
        cases.run("as many adapters as a key may have, and one more",
                  lambda: adapters_and_one_more(server, tmp / "root"))
        cases.run("texts at once", lambda: texts_at_once(server))
        cases.run("tokens a minute leave no debt", lambda: tokens_without_debt(server))
    cases.run("files without bytes", lambda: files_without_bytes(
        tmp / "tiny", tmp / "many", "--api-key-file", tmp / "keys", "--name", "tiny", "--data-dir", tmp / "many"))
    cases.run("bodies that come slowly", lambda: bodies_that_come_slowly(
        tmp / "tiny", "--api-key-file", tmp / "keys", "--name", "tiny"))
    own = ("--api-key-file", tmp / "keys", "--name", "tiny", "--data-dir", tmp / "own", "--max-adapters", 8)
    with Tandem(tmp / "tiny", *own) as server:
        cases.run("what jobs make needs no place of the key's own", lambda: results_need_no_place(server))
        cases.run("models that jobs made", lambda: models_that_jobs_made(server))
    with Tandem(tmp / "tiny", *own) as server:
        cases.run("nor when the server starts again", lambda: results_answer(server))
    cases.run("connections of one address", lambda: connections_of_an_address(tmp / "tiny"))
raise SystemExit(cases.end())
