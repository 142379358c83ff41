#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""/v1/batches against a running server: what a line is answered is what its route answers, in two files
in the order of the input; lines that are wrong are said by number before anything is asked; a key sees its
own; cancelling, expiring and a quota keep what was answered; a disk that is full ends nothing; a server
that is killed at any moment answers each line once; and requests of clients go first. TEST_FAULTS=full kills
20 times among 5000 requests; TEST_SEED=N draws the same moments again. Random weights;
standard library only."""
import contextlib
import http.client
import json
import os
import pathlib
import random
import shutil
import signal
import sqlite3
import sys
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "lib"))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from serving import SLOW, Cases, Tandem, make_model, scratch  # noqa: E402
from test_full_disk import Disk  # noqa: E402
from test_routes import Description  # noqa: E402

# What is tested here of server/http/routes.def: batch_add batches batch_cancel batch. Of schema.def:
# BatchRequest, Batch, BatchList.

EMBEDS = "tests/golden/models/bert_mean"
LONG = 32000  # tokens of a text that is not at its end before something else is
OPTIONS = ("--name", "tiny", "--no-access-log", "--ctx", str(LONG + 768))
KEYS = ("ann inference,training ann-key-ann-key bytes=200000\nbob inference,training bob-key-bob-key\n"
        "root all root-key-root-key\n")
ROOT_ONLY = KEYS.splitlines(True)[-1]
ANN = {"Authorization": "Bearer ann-key-ann-key"}
BOB = {"Authorization": "Bearer bob-key-bob-key"}
ROOT_KEY = {"Authorization": "Bearer root-key-root-key"}
TEXT, CHAT, EMBED, RESPONSE = "/v1/completions", "/v1/chat/completions", "/v1/embeddings", "/v1/responses"
ENDS = ("completed", "failed", "expired", "cancelled")
SEED = int(os.environ.get("TEST_SEED") or random.SystemRandom().randrange(1 << 32))
FULL = os.environ.get("TEST_FAULTS") == "full"


def line(i, url=TEXT, **body):
    if url == TEXT:
        body = {"prompt": "a b", "max_tokens": 4, "temperature": 1, "seed": i, **body}
    return {"custom_id": f"line-{i}", "method": "POST", "url": url, "body": body}


def slow(i):
    """One that takes long enough for something else to come between."""
    return line(i, max_tokens=400, ignore_eos=True)


def jsonl(lines):
    return "".join((x if isinstance(x, str) else json.dumps(x)) + "\n" for x in lines).encode()


class Client:
    def __init__(self, server, key=None):
        self.server, self.key = server, key or {}

    def ask(self, method, path, body=None):
        return self.server.ask(method, path, body, **self.key)

    def good(self, method, path, body=None):
        r = self.ask(method, path, body)
        assert r.status == 200, r
        return r.json

    def upload(self, data, purpose="batch"):
        head = "--x\r\nContent-Disposition: form-data; name=\"purpose\"\r\n\r\n" + purpose + "\r\n--x\r\n" \
            "Content-Disposition: form-data; name=\"file\"; filename=\"in.jsonl\"\r\n\r\n"
        r = self.server.ask("POST", "/v1/files", head.encode() + data + b"\r\n--x--\r\n",
                            **{"Content-Type": "multipart/form-data; boundary=x", **self.key})
        assert r.status == 200, r
        return r.json["id"]

    def create(self, lines, endpoint=TEXT, **more):
        data = lines if isinstance(lines, bytes) else jsonl(lines)
        return self.good("POST", "/v1/batches", {"input_file_id": self.upload(data), "endpoint": endpoint,
                                                 "completion_window": "24h", **more})

    def get(self, batch):
        return self.good("GET", f"/v1/batches/{batch}")

    def wait(self, batch, until=lambda b: b["status"] in ENDS, seconds=120):
        end = time.monotonic() + seconds * SLOW
        while not until(b := self.get(batch)):
            assert time.monotonic() < end, b
            time.sleep(0.02)
        return b

    def rows(self, file):
        if file is None:
            return []
        r = self.ask("GET", f"/v1/files/{file}/content")
        assert r.status == 200, r
        return [json.loads(x) for x in r.body.splitlines()]

    def ended(self, lines, endpoint=TEXT, **more):
        """The batch, its answers, its errors."""
        b = self.wait(self.create(lines, endpoint, **more)["id"])
        return b, self.rows(b["output_file_id"]), self.rows(b["error_file_id"])


def ids(rows):
    return [r["custom_id"] for r in rows]


def once(lines, out, bad):
    """Each line stands in one of the files, once, in its order."""
    want = [x["custom_id"] for x in lines]
    assert sorted(ids(out) + ids(bad)) == sorted(want), (len(out), len(bad), len(want))
    for rows in (out, bad):
        assert ids(rows) == [x for x in want if x in set(ids(rows))], ids(rows)
    assert len({r["id"] for r in out + bad}) == len(want)


def plain(body):
    """Without what is new in each answer."""
    body = json.loads(json.dumps(body))
    for name in ("id", "created", "created_at", "completed_at"):
        body.pop(name, None)
    if "output" in body:
        body["output"] = [{k: v for k, v in x.items() if k != "id"} for x in body["output"]]
    for x in ("prompt_tokens_details", "input_tokens_details"):
        body.get("usage", {}).pop(x, None)
    return body


# ---- what is answered


def as_over_http(server, endpoint, bodies):
    """Catches: a field or a number of inputs that a batch takes otherwise than its route; a figure that is not
    its answers'."""
    c = Client(server)
    lines = [line(i, endpoint, **x) for i, x in enumerate(bodies)]
    b, out, bad = c.ended(lines, endpoint, metadata={"a": "b"})
    once(lines, out, bad)
    assert b["status"] == "completed" and b["metadata"] == {"a": "b"} and b["errors"] is None, b
    assert b["request_counts"] == {"total": len(lines), "completed": len(out), "failed": len(bad)}, b
    tokens = [0, 0]
    for row in out + bad:
        i = int(row["custom_id"][5:])
        want, got = server.post(endpoint, bodies[i]), row["response"]
        assert got["status_code"] == want.status and row["error"] is None and got["request_id"], (row, want)
        assert plain(got["body"]) == plain(want.json), (row, want)
        usage = want.json.get("usage", {})
        tokens[0] += usage.get("prompt_tokens", usage.get("input_tokens", 0))
        tokens[1] += usage.get("completion_tokens", usage.get("output_tokens", 0))
    assert [b["usage"]["input_tokens"], b["usage"]["output_tokens"]] == tokens, (b, tokens)
    return f"{len(out)} answers, {len(bad)} errors"


def looks_right(server):
    """Catches: a batch or a list of another shape than the description's, times out of order, files of
    another purpose or for ever, a page that repeats or leaves out."""
    c, api = Client(server), Description(server.get("/openapi.json").json)
    form = api.schemas
    made = c.create([line(0)], output_expires_after={"anchor": "created_at", "seconds": 3600})
    assert made["status"] == "validating" and made["expires_at"] == made["created_at"] + 86400, made
    b = c.wait(made["id"])
    api.check(b, form["Batch"])
    assert b["created_at"] <= b["in_progress_at"] <= b["finalizing_at"] <= b["completed_at"], b
    assert b["model"] == "tiny" and b["error_file_id"] is None, b
    f = c.good("GET", f"/v1/files/{b['output_file_id']}")
    assert (f["purpose"], f["filename"]) == ("batch_output", f"{b['id']}_output.jsonl"), f
    assert f["expires_at"] == f["created_at"] + 3600, f
    more = [c.create([line(0)])["id"] for _ in range(3)]
    page = c.good("GET", "/v1/batches?limit=2")
    api.check(page, form["BatchList"])
    seen = [x["id"] for x in page["data"]]
    while page["has_more"]:
        page = c.good("GET", f"/v1/batches?limit=2&after={seen[-1]}")
        seen += [x["id"] for x in page["data"]]
    assert seen[:4] == [*more[::-1], b["id"]] and len(seen) == len(set(seen)), (seen, more)
    for x in more:
        c.wait(x)


def wrong_files(server):
    """Catches: a line that is wrong and asked, or said by another number; a file that is no batch and is
    begun; a state that is not failed."""
    c = Client(server)
    good = [line(0), line(1)]
    for lines, number, code, word in (
            ([*good, {**line(2), "custom_id": "line-0"}], 3, "duplicate_custom_id", "another line"),
            ([*good, "", {**line(2), "method": "GET"}], 4, "invalid_method", "POST"),
            ([{**line(0), "url": CHAT}, *good[1:]], 1, "mismatched_endpoint", TEXT),
            ([*good, "{"], 3, None, ""), ([*good, "[]"], 3, None, ""),
            ([*good, {**line(2), "custom_id": ""}], 3, "invalid_custom_id", "512"),
            ([*good, {**line(2), "body": 7}], 3, "invalid_request", "object"),
            ([*good, line(2, stream=True)], 3, "invalid_request", "stream"),
            ([*good, line(2, model="nobody")], 3, "model_not_found", "model"),
            (["", "  "], None, "empty_file", "no requests")):
        b, out, bad = c.ended(lines)
        assert b["status"] == "failed" and b["failed_at"] and not out and not bad, b
        assert b["errors"]["object"] == "list" and len(b["errors"]["data"]) == 1, b
        e = b["errors"]["data"][0]
        assert e["line"] == number and word in e["message"] and code in (None, e["code"]), (e, lines)
    b, _, _ = c.ended([{**line(i), "method": "PUT"} for i in range(300)])
    assert [e["line"] for e in b["errors"]["data"]] == list(range(1, 101)), b


def refused(server):
    """Catches: a creation that is taken and cannot be meant."""
    c, file = Client(server), Client(server).upload(jsonl([line(0)]))
    whole = {"input_file_id": file, "endpoint": TEXT, "completion_window": "24h"}
    tune = c.upload(b"{}\n", "fine-tune")
    for more, param in (({"input_file_id": None}, "input_file_id"), ({"input_file_id": "file-no"}, "input_file_id"),
                        ({"input_file_id": tune}, "input_file_id"), ({"endpoint": None}, "endpoint"),
                        ({"endpoint": "/v1/moderations"}, "endpoint"), ({"completion_window": "1h"}, "completion_window"),
                        ({"metadata": {"a": 1}}, "metadata"), ({"output_expires_after": {}}, "output_expires_after"),
                        ({"output_expires_after": {"anchor": "created_at", "seconds": 5}}, "output_expires_after.seconds")):
        r = c.ask("POST", "/v1/batches", {**whole, **more})
        assert r.status == 400 and r.error["param"] == param, (r, more)
    r = c.ask("POST", "/v1/batches", {k: v for k, v in whole.items() if k != "completion_window"})
    assert r.status == 400 and r.error["param"] == "completion_window", r
    for path in ("/v1/batches/batch_no", "/v1/batches/batch_no/cancel"):
        assert c.ask("POST" if path.endswith("cancel") else "GET", path).status == 404
    b, _, _ = c.ended([line(0)])
    r = c.ask("POST", f"/v1/batches/{b['id']}/cancel")
    assert r.status == 400 and r.error["code"] == "invalid_state", r


def made_once(server):
    """Catches: a creation that is sent again and makes a second batch, or is refused for what became of its
    file; one that is taken for another with the same key."""
    c, key = Client(server), {"Idempotency-Key": "once"}
    ask = {"input_file_id": c.upload(jsonl([line(0)])), "endpoint": TEXT, "completion_window": "24h"}
    first = server.post("/v1/batches", ask, **key).json["id"]
    c.wait(first)
    c.good("DELETE", f"/v1/files/{ask['input_file_id']}")
    assert server.post("/v1/batches", ask, **key).json["id"] == first
    r = server.post("/v1/batches", {**ask, "metadata": {"a": "b"}}, **key)
    assert r.status == 400 and r.error["code"] == "idempotency_key_reused", r
    r = server.post("/v1/batches", ask, **{"Idempotency-Key": "k" * 256})
    assert r.status == 400 and r.error["param"] == "Idempotency-Key", r
    ask["input_file_id"] = c.upload(jsonl([line(0)]))
    two = [server.post("/v1/batches", ask).json["id"] for _ in range(2)]
    assert len({first, *two}) == 3, two
    assert server.post("/v1/batches", ask, **{"x-stainless-retry-count": "2"}).json["id"] == two[1]


def dropped_input(server):
    """Catches: a batch that loses its file when the client deletes it."""
    c = Client(server)
    b = c.create([slow(i) for i in range(500)])
    c.good("DELETE", f"/v1/files/{b['input_file_id']}")
    assert c.ask("GET", f"/v1/files/{b['input_file_id']}").status == 404
    c.wait(b["id"], lambda x: x["status"] == "in_progress")
    c.good("POST", f"/v1/batches/{b['id']}/cancel")
    assert c.wait(b["id"])["status"] == "cancelled"


def grows(server):
    """Catches: a body that is longer when it was read and written anew than a line may be, and halts."""
    c = Client(server)
    text = '{"custom_id":"line-0","method":"POST","url":"%s","body":{"prompt":"a","max_tokens":1,"metadata":[%s]}}'
    b, out, bad = c.ended((text % (TEXT, ",".join(["1e15"] * 1900000)) + "\n").encode())
    assert b["status"] == "completed" and ids(out + bad) == ["line-0"], b
    return (out + bad)[0]["response"]["status_code"]


def cancelled(server):
    """Catches: what was answered that is lost by cancelling, a line that is in no file, a batch that goes on."""
    c, lines = Client(server), [line(i) for i in range(20)] + [slow(i) for i in range(20, 500)]
    b = c.create(lines)
    c.wait(b["id"], lambda x: x["request_counts"]["completed"] >= 5)
    got = c.good("POST", f"/v1/batches/{b['id']}/cancel")
    assert got["status"] in ("cancelling", "cancelled") and got["cancelling_at"], got
    b = c.wait(b["id"])
    out, bad = c.rows(b["output_file_id"]), c.rows(b["error_file_id"])
    once(lines, out, bad)
    assert b["status"] == "cancelled" and b["cancelled_at"] and len(out) >= 5, b
    assert b["request_counts"] == {"total": 500, "completed": len(out), "failed": 0}, b
    assert all(r["response"] is None and r["error"]["code"] == "batch_cancelled" for r in bad), bad[:1]


@contextlib.contextmanager
def writing(server, n=1):
    """A client's n texts, which are written all the while."""
    with contextlib.closing(http.client.HTTPConnection("127.0.0.1", server.port, timeout=120)) as c:
        body = json.dumps({"prompt": "a", "max_tokens": LONG, "ignore_eos": True, "stream": True, "n": n})
        c.request("POST", TEXT, body, {"Content-Type": "application/json"})
        r = c.getresponse()
        assert r.status == 200 and r.readline(), r.status
        began = server.metrics()["tandem_steps_total"]
        yield
        steps = server.metrics()["tandem_steps_total"] - began
        assert steps < LONG / 2, f"{steps} steps: not all of this was beside the texts"


def tokens_beside(server):
    """Steps, and tokens that they made, all of them while a client's text ran."""
    with writing(server):
        was = now = server.metrics()
        while now["tandem_steps_total"] < was["tandem_steps_total"] + 50:
            now = server.metrics()
        return [now[x] - was[x] for x in ("tandem_steps_total", "vllm:generation_tokens_total")]


def goes_behind(server):
    """Catches: a batch that runs beside a client's request: then its steps make more than that one's token."""
    c = Client(server)
    b = c.create([slow(i) for i in range(2000)])
    while server.metrics()["tandem_batch_requests_running"] < 8:
        time.sleep(0.02)
    steps, made = tokens_beside(server)
    theirs = steps / 10 + 1  # a step in ten is the batch's, of its eight texts
    assert steps - theirs <= made <= steps + 7 * theirs, (steps, made)
    assert c.get(b["id"])["status"] == "in_progress"
    c.good("POST", f"/v1/batches/{b['id']}/cancel")
    c.wait(b["id"])
    return f"{made:.0f} tokens in {steps:.0f} steps"


def ended_beside(server, lines, n):
    """A batch comes to its end while a client's n texts are written."""
    with writing(server, n):
        b = Client(server).ended(lines)[0]
        assert b["status"] == "completed" and b["request_counts"]["completed"] == len(lines), b
        assert server.metrics()["tandem_requests_running"] == n


def ends_under_load(server):
    """Catches: a batch that stands as long as somebody else's request is in work."""
    ended_beside(server, [line(i) for i in range(10)], 1)


def search_ends_under_load(model, tmp):
    """Catches: a search of a batch that waits for seats that others hold, in the way of all that is behind it."""
    search = line(0, use_beam_search=True, n=4, temperature=0)
    with Tandem(model, *OPTIONS, "--data-dir", tmp / "data", "--batch-floor", "10", "--max-seqs", "4",
                "--speculate", "off") as s:
        ended_beside(s, [search, *[line(i) for i in range(1, 5)]], 4)


def stands_still(model, tmp):
    """Catches: a batch that runs beside requests where the operator gave it no part of the steps."""
    with Tandem(model, *OPTIONS, "--data-dir", tmp / "data", "--batch-floor", "0", "--speculate", "off") as s:
        c = Client(s)
        b = c.create([slow(i) for i in range(2000)])
        while not s.metrics()["tandem_batch_requests_running"]:
            time.sleep(0.02)
        steps, made = tokens_beside(s)
        assert steps == made and c.get(b["id"])["status"] == "in_progress", (steps, made)
        c.good("POST", f"/v1/batches/{b['id']}/cancel")
        c.wait(b["id"])


# ---- keys


def keys(server):
    """Catches: a batch or its files that another key sees, a quota that answers do not count in, and what
    was answered until then that is lost."""
    ann, bob, root = Client(server, ANN), Client(server, BOB), Client(server, ROOT_KEY)
    b, out, _ = ann.ended([line(i) for i in range(5)])
    assert len(out) == 5, b
    for other in (bob, root):
        assert other.ask("GET", f"/v1/batches/{b['id']}").status == 404
        assert other.ask("POST", f"/v1/batches/{b['id']}/cancel").status == 404
        assert other.ask("GET", f"/v1/files/{b['output_file_id']}").status == 404
        assert b["id"] not in [x["id"] for x in other.good("GET", "/v1/batches")["data"]]
        r = other.ask("POST", "/v1/batches", {"input_file_id": b["input_file_id"], "endpoint": TEXT,
                                              "completion_window": "24h"})
        assert r.status == 400 and r.error["param"] == "input_file_id", r
    assert server.post("/v1/batches", {}).status == 401
    lines = [line(i, max_tokens=60, ignore_eos=True, logprobs=5, prompt="a") for i in range(80)]
    b, out, bad = ann.ended(lines)
    assert b["status"] == "failed" and b["errors"]["data"][0]["code"] == "files_quota_exceeded", b
    assert 0 < len(out) < len(lines) and not bad, b
    r = ann.ask("POST", "/v1/batches", {"input_file_id": b["input_file_id"], "endpoint": TEXT,
                                        "completion_window": "24h"})
    assert r.status == 400 and r.error["code"] == "files_quota_exceeded", r
    return f"{len(out)} answers in the quota"


def spent(server):
    """Catches: lines that nobody answered, in a file that goes beyond the quota."""
    ann = Client(server, ANN)
    for f in ann.good("GET", "/v1/files")["data"]:
        ann.good("DELETE", f"/v1/files/{f['id']}")
    b = ann.create([{**slow(i), "custom_id": f"{i:0450}"} for i in range(200)])
    ann.wait(b["id"], lambda x: x["status"] == "in_progress")
    ann.good("POST", f"/v1/batches/{b['id']}/cancel")
    b = ann.wait(b["id"])
    bad, files = ann.rows(b["error_file_id"]), ann.good("GET", "/v1/files")["data"]
    assert b["status"] == "cancelled" and 0 < len(bad) < 190, (b, len(bad))
    assert sum(f["bytes"] for f in files) <= 200000, files


def told(server, keys, text, word):
    """Keys are read again, and the log has said so."""
    n = server.said().count(word)
    keys.write_text(text, encoding="utf-8")
    server.process.send_signal(signal.SIGHUP)
    end = time.monotonic() + 60 * SLOW
    while server.said().count(word) == n:
        assert time.monotonic() < end, server.output()
        time.sleep(0.02)


def key_gone(server, keys):
    """Catches: a batch that goes on when nobody has its key any more, or is lost when somebody has."""
    bob, n = Client(server, BOB), 400
    b = bob.create([slow(i) for i in range(n)])
    bob.wait(b["id"], lambda x: x["status"] == "in_progress")
    told(server, keys, ROOT_ONLY, "a batch waits")
    while server.metrics(**ROOT_KEY)["tandem_batch_requests_running"]:
        time.sleep(0.02)
    steps = server.metrics(**ROOT_KEY)["tandem_steps_total"]
    told(server, keys, ROOT_ONLY + "# nothing new\n", "reloaded")
    assert server.metrics(**ROOT_KEY)["tandem_steps_total"] == steps
    told(server, keys, KEYS, "reloaded")
    assert bob.wait(b["id"])["request_counts"]["completed"] == n


# ---- what happens to servers


def expires(model, tmp):
    """Catches: a batch that outlives its window, or loses what was answered in it; one that waits for its
    turn and is forgotten."""
    lines = [line(i) for i in range(10)] + [slow(i) for i in range(10, 500)]
    with Tandem(model, *OPTIONS, "--data-dir", tmp / "data") as s:
        c = Client(s)
        first, second = (c.create(lines)["id"] for _ in range(2))
        c.wait(first, lambda x: x["request_counts"]["completed"] >= 5)
        c.wait(second, lambda x: x["status"] == "in_progress")
    with contextlib.closing(sqlite3.connect(tmp / "data" / "store.db")) as db:
        db.execute("UPDATE batch SET expires = ?", (int(time.time()) - 1,))
        db.commit()
    with Tandem(model, *OPTIONS, "--data-dir", tmp / "data") as s:
        c = Client(s)
        for batch, least in ((first, 5), (second, 0)):
            b = c.wait(batch)
            out, bad = c.rows(b["output_file_id"]), c.rows(b["error_file_id"])
            once(lines, out, bad)
            assert b["status"] == "expired" and b["expired_at"] and len(out) >= least, b
            assert all(r["error"]["code"] == "batch_expired" for r in bad), bad[:1]
        assert not list((tmp / "data" / "batches").iterdir())


def left_open(data, batch, rows, expires, state=1):
    """The batch as a server leaves it that is killed behind these answers."""
    log = "".join(f"{i:07} o {json.dumps(r)}\n" for i, r in enumerate(rows))
    (data / "batches" / batch).write_text(log, encoding="utf-8")
    with contextlib.closing(sqlite3.connect(data / "store.db")) as db:
        db.execute("UPDATE batch SET state = ?, completed = 0, output_file = NULL, expires = ? WHERE id = ?",
                   (state, expires, batch))
        db.commit()


def goes_on(model, tmp):
    """Catches: a batch that is called expired though all was answered; answers that are lost with an input
    that is damaged; a batch called finalizing whose last answers a cut of power took, and that stands still."""
    data = tmp / "data"
    with Tandem(model, *OPTIONS, "--data-dir", data) as s:
        c = Client(s)
        (whole, all_of, _), (hurt, some, _), (cut, first, _) = (c.ended([line(i) for i in range(5)]) for _ in range(3))
        for b in (whole, hurt, cut):
            c.good("DELETE", f"/v1/files/{b['output_file_id']}")
    left_open(data, whole["id"], all_of, int(time.time()) - 1)
    left_open(data, hurt["id"], some[:3], int(time.time()) + 3600)
    left_open(data, cut["id"], first[:3], int(time.time()) + 3600, state=2)
    with open(data / "files" / hurt["input_file_id"], "r+b") as f:
        f.write(b"[")
    with Tandem(model, *OPTIONS, "--data-dir", data) as s:
        c = Client(s)
        b = c.wait(whole["id"])
        assert b["status"] == "completed" and c.rows(b["output_file_id"]) == all_of, b
        b = c.wait(cut["id"])
        again = c.rows(b["output_file_id"])
        assert b["status"] == "completed" and again[:3] == first[:3] and len(again) == 5, b
        b = c.wait(hurt["id"])
        assert b["status"] == "failed" and b["errors"]["data"][0]["code"] == "file_altered", b
        assert c.rows(b["output_file_id"]) == some[:3] and b["error_file_id"] is None, b
        assert b["request_counts"] == {"total": 5, "completed": 3, "failed": 0}, b


def leaves(model, tmp):
    """Catches: a server that waits for a batch before it ends, or forgets it."""
    lines = [slow(i) for i in range(60)]
    with Tandem(model, *OPTIONS, "--data-dir", tmp / "data") as s:
        batch = Client(s).create(lines)["id"]
        Client(s).wait(batch, lambda x: x["status"] == "in_progress")
        assert s.stop(signal.SIGTERM) == 0, s.output()
    with Tandem(model, *OPTIONS, "--data-dir", tmp / "data") as s:
        c = Client(s)
        b = c.wait(batch)
        out, bad = c.rows(b["output_file_id"]), c.rows(b["error_file_id"])
        once(lines, out, bad)
        assert b["status"] == "completed" and not bad, b


def behind_a_backup(model, tmp):
    """Catches: answers of a batch that was begun behind a backup of the store, and that go where that is put back."""
    data = tmp / "data"
    with Tandem(model, *OPTIONS, "--data-dir", data):
        pass
    shutil.copy(data / "store.db", tmp / "backup.db")
    with Tandem(model, *OPTIONS, "--data-dir", data) as s:
        c = Client(s)
        most = [line(i, max_tokens=3900, ignore_eos=True) for i in range(10, 300)]  # which is not at its end when we stop
        batch = c.create([line(i) for i in range(10)] + most)["id"]
        c.wait(batch, lambda x: x["request_counts"]["completed"] >= 5)
        assert s.stop(signal.SIGTERM) == 0, s.output()
    answers = (data / "batches" / batch).read_bytes()
    assert answers.count(b"\n") >= 5, answers
    shutil.copy(tmp / "backup.db", data / "store.db")
    with Tandem(model, *OPTIONS, "--data-dir", data):
        assert (data / "lost+found" / batch).read_bytes() == answers and not list((data / "batches").iterdir())


def begin_full(c, disk, lines, endpoint=TEXT):
    """A batch that finds a full disk at its first write: full from the one behind those of its creation."""
    ask = {"input_file_id": c.upload(jsonl(lines)), "endpoint": endpoint, "completion_window": "24h"}
    for k in range(100):
        disk.fill(k)
        r = c.ask("POST", "/v1/batches", ask)
        if r.status == 200:
            return r.json
        disk.free()
        assert r.status == 507, r
    raise AssertionError("it is never created")


def rests(server, disk, writes=0):
    """Waits until a batch rests, and so many writes were tried."""
    end = time.monotonic() + 60 * SLOW
    while "a batch rests" not in server.said() or disk.seen() < writes:
        assert time.monotonic() < end, server.output()
        time.sleep(0.02)


def full_disk(endpoint, tmp):
    """Catches: a full disk that ends a batch or one of its lines, repeats or loses one, or is not gone on
    from."""
    more = {"input": "a", "max_output_tokens": 4} if endpoint == RESPONSE else {}
    disk, lines = Disk(tmp), [line(i, endpoint, **more) for i in range(60)]
    with disk.serve() as s:
        c = Client(s)
        batch = begin_full(c, disk, lines, endpoint)["id"]
        rests(s, disk)
        seen = disk.seen()
        disk.fill(k=6)
        rests(s, disk, seen + 7)
        assert c.get(batch)["status"] in ("validating", "in_progress", "finalizing")
        disk.free()
        b = c.wait(batch)
        out, bad = c.rows(b["output_file_id"]), c.rows(b["error_file_id"])
        once(lines, out, bad)
        assert b["status"] == "completed" and not bad, (b, bad[:1])


def tries_again(_, tmp):
    """Catches: an attempt that holds what the one before it held, too."""
    disk = Disk(tmp)
    with disk.serve() as s:
        c = Client(s)
        b = begin_full(c, disk, [line(i) for i in range(5000)])
        rests(s, disk)
        rests(s, disk, disk.seen() + 1)
        folder = pathlib.Path(f"/proc/{s.process.pid}/fd")
        held = [x for x in folder.iterdir() if x.is_symlink() and b["input_file_id"] in os.readlink(x)]
        assert c.get(b["id"])["status"] == "validating" and len(held) <= 1, (c.get(b["id"]), held)
        disk.free()
        c.wait(b["id"], lambda x: x["status"] == "in_progress")
        c.good("POST", f"/v1/batches/{b['id']}/cancel")
        c.wait(b["id"])


def killed(model, tmp):
    """Catches: a line that is answered twice or never, a file that is there twice, a batch that is lost."""
    plan, kills, n = random.Random(SEED), *((20, 5000) if FULL else (6, 400))
    lines = [line(i, max_tokens=1 + i % 300, ignore_eos=True) for i in range(n)]
    batch, n_seen = None, 0
    taken_back = False
    for _ in range(kills):
        s = Tandem(model, *OPTIONS, "--data-dir", tmp / "data")
        c = Client(s)
        batch = batch or c.create(lines)["id"]
        timer = threading.Timer(plan.choice([0.02, 0.1, 0.3, 0.6]), s.process.kill)
        timer.start()
        with contextlib.suppress(OSError, http.client.HTTPException):
            while True:
                now = c.get(batch)["request_counts"]["completed"]
                taken_back |= now < n_seen
                n_seen = now
        timer.join()
        s.process.wait()
    with Tandem(model, *OPTIONS, "--data-dir", tmp / "data") as s:
        c = Client(s)
        b = c.wait(batch)
        out, bad = c.rows(b["output_file_id"]), c.rows(b["error_file_id"])
        once(lines, out, bad)
        assert b["status"] == "completed" and not bad, b
        assert b["request_counts"] == {"total": n, "completed": n, "failed": 0} and not taken_back, b
        want = sum(1 + i % 300 for i in range(n))
        assert b["usage"]["output_tokens"] == want, (b["usage"], want)
        files = c.good("GET", "/v1/files")["data"]
        assert len([f for f in files if f["purpose"] == "batch_output"]) == 1, files
    return f"seed {SEED}, {n_seen} of {n} answers were seen before the last of {kills} kills"


def served(cases, model, tmp):
    with Tandem(model, *OPTIONS, "--data-dir", tmp / "data", "--batch-requests", "8", "--batch-floor", "10",
                "--speculate", "off") as s:
        warm = {"max_tokens": 12, "temperature": 1}
        talk = {"messages": [{"role": "user", "content": "a"}]}
        kept = {"max_output_tokens": 8, "store": False}
        cases.run("completions", lambda: as_over_http(s, TEXT, [
            {"prompt": "a b", "seed": 3, **warm}, {"prompt": ["a", "b"], "n": 2, "seed": 1, "logprobs": 2, **warm},
            {"prompt": [5, 6, 7], "echo": True, "seed": 2, **warm}, {"prompt": "x", "max_tokens": -1},
            {"prompt": "a", "stop": ["b"], "seed": 9, "model": "tiny", **warm}, {"prompt": []}]))
        cases.run("responses", lambda: as_over_http(s, RESPONSE, [
            {"input": "a", "seed": 4, **kept}, {"input": 7},
            {"input": "a", "seed": 5, "text": {"format": {"type": "json_object"}}, **kept}]))
        cases.run("chats", lambda: as_over_http(s, CHAT, [
            {**talk, "seed": 3, **warm}, {**talk, "seed": 3, "response_format": {"type": "json_object"}, **warm},
            {"messages": []}]))
        for case in (looks_right, wrong_files, refused, made_once, dropped_input, grows, cancelled, goes_behind,
                     ends_under_load):
            cases.run(case.__name__, lambda case=case: case(s))


def main():
    cases = Cases()
    with scratch() as tmp:
        model = make_model(tmp / "m", "--ctx", LONG + 768)
        served(cases, model, tmp)
        with Tandem(EMBEDS, "--name", "tiny", "--no-access-log", "--data-dir", tmp / "vectors",
                    "--max-waiting", "4") as s:
            cases.run("embeddings", lambda: as_over_http(s, EMBED, [
                {"input": [5, 6, 7]}, {"input": [[5, 6], [7, 8, 9]], "encoding_format": "base64"},
                {"input": [[5], [6], [7], [8]]}, {"input": []}]))
        (tmp / "keys").write_text(KEYS, encoding="utf-8")
        with Tandem(model, *OPTIONS, "--data-dir", tmp / "owned", "--api-key-file", tmp / "keys",
                    "--batch-requests", "8") as s:
            cases.run("key_gone", lambda: key_gone(s, tmp / "keys"))
            cases.run("keys", lambda: keys(s))
            cases.run("spent", lambda: spent(s))
        for case in (stands_still, search_ends_under_load, expires, goes_on, leaves, behind_a_backup, tries_again, killed):
            (tmp / case.__name__).mkdir()
            cases.run(case.__name__, lambda case=case: case(model, tmp / case.__name__))
        for endpoint in (TEXT, RESPONSE):
            name = f"full_disk_{endpoint.rpartition('/')[2]}"
            (tmp / name).mkdir()
            cases.run(name, lambda endpoint=endpoint, name=name: full_disk(endpoint, tmp / name))
    return cases.end()


if __name__ == "__main__":
    sys.exit(main())
