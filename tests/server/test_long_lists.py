#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Lists of many rows of which few or none fit what is asked for: who asks for something small meanwhile is answered in
between, and what is found is all that there is. Random weights; standard library only."""
import contextlib
import http.client
import json
import pathlib
import select
import socket
import sqlite3
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "lib"))
from serving import Cases, Tandem, make_model, scratch  # noqa: E402

N, BETWEEN, TRIES = 100000, 10, 3
CHATS = "/v1/chat/completions"
MANY = "WITH RECURSIVE k (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM k WHERE i < ?) "


def fill(data):
    """As a server leaves them: chats, each tenth with other metadata; files, the first for another purpose."""
    with contextlib.closing(sqlite3.connect(data / "store.db")) as db, db:
        db.execute(MANY + "INSERT INTO response (id, owner, input, body, bytes, created, expires, kind, model, metadata) "
                   "SELECT 'chatcmpl-' || i, 'anonymous', '[]', '{\"id\":\"chatcmpl-' || i || '\",\"object\":"
                   "\"chat.completion\"}', 100, 1, 1 << 40, 1, 'tiny', '{\"tenth\":\"' || (i % 10 = 0) || '\",\"at\":\"' "
                   "|| i || '\"}' FROM k", (N,))
        db.execute(MANY + "INSERT INTO file (id, owner, purpose, name, sha256, bytes, created, expires) "
                   "SELECT 'file-' || i, 'anonymous', iif(i = 1, 'batch', 'user_data'), 'a', '00', 0, 1, 0 FROM k", (N,))
        for i in (1, N):
            (data / "files" / f"file-{i}").write_bytes(b"")


class Asked:
    """A request that is on its way; whether its answer has begun, and what it is."""

    def __init__(self, server, path):
        self.s = socket.create_connection(("127.0.0.1", server.port))
        self.s.sendall(f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n".encode())

    def is_told(self):
        return bool(select.select([self.s], [], [], 0)[0])

    def answer(self):
        with contextlib.closing(self.s):
            r = http.client.HTTPResponse(self.s)
            r.begin()
            assert r.status == 200, (r.status, r.read())
            return json.loads(r.read())


def answered_between(server, path):
    """How many small requests for the same desk were answered before the list was."""
    slow, n = Asked(server, path), 0
    small = http.client.HTTPConnection("127.0.0.1", server.port)
    with contextlib.closing(small):
        while not slow.is_told():
            small.request("GET", "/v1/files/file-none")
            small.getresponse().read()
            n += 1
    return n, slow.answer()


def lets_others_through(server, path):
    """Catches: a list that goes through all rows in one turn, while everybody else stands."""
    seen = []
    for _ in range(TRIES):
        n, page = answered_between(server, path)
        assert page["data"] == [] and not page["has_more"], page
        seen.append(n)
    assert max(seen) >= BETWEEN, seen
    return f"{seen} answers in between"


def finds_all(server):
    """Catches: what is found in a later turn and lost, said twice, or behind the page's end."""
    def ids(query):
        page = server.get(f"{CHATS}?{query}").json
        found = [c["id"] for c in page["data"]]
        assert (page["first_id"], page["last_id"]) == ((found[0], found[-1]) if found else (None, None)), page
        return found, page["has_more"]
    assert ids(f"metadata[at]={N}") == ([f"chatcmpl-{N}"], False)
    assert ids("metadata[at]=1&order=desc&model=tiny") == (["chatcmpl-1"], False)
    tenth = [f"chatcmpl-{10 * i}" for i in range(1, 201)]
    assert ids("metadata[tenth]=1&limit=100") == (tenth[:100], True)
    assert ids(f"metadata[tenth]=1&limit=100&after={tenth[99]}") == (tenth[100:], True)
    assert ids(f"limit=100&after=chatcmpl-{N - 100}") == ([f"chatcmpl-{i}" for i in range(N - 99, N + 1)], False)
    assert ids("model=other") == ([], False)
    page = server.get("/v1/files?purpose=batch").json
    assert [f["id"] for f in page["data"]] == ["file-1"] and not page["has_more"], page
    page = server.get("/v1/files").json
    assert [f["id"] for f in page["data"]] == [f"file-{N - i}" for i in range(10000)] and page["has_more"], page["last_id"]


def main():
    cases = Cases()
    with scratch() as tmp:
        model, data = make_model(tmp / "m"), tmp / "data"
        options = (model, "--name", "tiny", "--ctx", 512, "--no-access-log", "--data-dir", data, "--responses-quota", "1G")
        with Tandem(*options):
            pass
        fill(data)
        with Tandem(*options) as s:
            cases.run("filtered", lambda: lets_others_through(s, f"{CHATS}?metadata[none]=x"))
            cases.run("finds_all", lambda: finds_all(s))
    return cases.end()


if __name__ == "__main__":
    sys.exit(main())
