#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Files, jobs and names as attackers and accidents use them. Catches: a quota that is a byte off, or
one key's that another feels, or that uploads pass while they come; a file, a descriptor or memory
that stays behind an upload that does not; a name that leads out of the server's folders; requests
that are taken for each other; a log line that a client writes; a model that is deleted under its
readers, or twice; followers that go and stay in the server's books; an upload that a SIGTERM cuts;
results that cannot be served because checkpoints are."""
import concurrent.futures
import contextlib
import json
import os
import pathlib
import re
import signal
import sys
import time
import urllib.parse

from attack import (SLOW, Cases, Holdings, Opens, Raw, Tandem, events, log_text, make_model, request,
                    scratch, size, together)

KEYS = "ann all ann-key-ann-key-ann-key\nbob all bob-key-bob-key-bob-key\n"
ANN, BOB = ({"Authorization": f"Bearer {k}-key-{k}-key-{k}-key"} for k in ("ann", "bob"))
JOBS = "/v1/fine_tuning/jobs"
ROWS = b'{"prompt": "a b c", "completion": "d e f"}\n' * 12
QUOTA = 10_000
BOUNDARY = "x-boundary-x"


def form(data):
    part = f'--{BOUNDARY}\r\nContent-Disposition: form-data; name='
    return (f'{part}"purpose"\r\n\r\nfine-tune\r\n{part}"file"; filename="rows.jsonl"\r\n\r\n'.encode()
            + data + f"\r\n--{BOUNDARY}--\r\n".encode())


def begin(server, data, n_sent, **key):
    """An upload of which so many bytes came."""
    body, c = form(data), Raw(server)
    head = {"Host": "localhost", "Content-Length": len(body),
            "Content-Type": f"multipart/form-data; boundary={BOUNDARY}", **key}
    lines = "".join(f"{k}: {v}\r\n" for k, v in head.items())
    c.send(f"POST /v1/files HTTP/1.1\r\n{lines}\r\n".encode() + body[:n_sent])
    return c, body[n_sent:]


def wait(until, what):
    end = time.monotonic() + 60 * SLOW
    while not until():
        assert time.monotonic() < end, what()
        time.sleep(0.01)


def send(server, data, **key):
    return server.ask("POST", "/v1/files", form(data), **{
        **key, "Content-Type": f"multipart/form-data; boundary={BOUNDARY}"})


def job(server, file, **hyper):
    r = server.post(JOBS, {"model": "tiny", "training_file": file, "hyperparameters": hyper})
    assert r.status == 200, r
    return r.json["id"]


def done(server, job_id):
    end = time.monotonic() + 120 * SLOW
    while time.monotonic() < end:
        j = server.get(f"{JOBS}/{job_id}").json
        if j["status"] in ("succeeded", "failed", "cancelled"):
            return j
        time.sleep(0.02)
    raise AssertionError(f"the job does not end: {j}")


def answering(server):
    return {m["id"] for m in server.get("/v1/models").json["data"]} - {"tiny"}


def log_lines(server):
    return log_text(server.log).split("\n")[:-1]


# ---- keys


def quota(server):
    first = send(server, bytes(QUOTA - 100), **ANN)
    assert first.status == 200, first
    r = send(server, bytes(101), **ANN)
    assert r.status == 400 and r.error["code"] == "files_quota_exceeded", r
    assert send(server, bytes(100), **ANN).status == 200
    for _ in range(50):  # who was refused holds nothing when it reads so: not even for a moment
        r = send(server, bytes(QUOTA), **ANN)
        assert r.status == 400 and r.error["message"].startswith("This key's files have"), r
    r = send(server, b"1", **ANN)
    assert r.status == 400 and r.error["param"] == "file", r
    assert send(server, bytes(QUOTA), **BOB).status == 200, "another's quota"
    assert server.ask("DELETE", f"/v1/files/{first.json['id']}", **ANN).status == 200
    with concurrent.futures.ThreadPoolExecutor(8) as pool:  # none of them sees the others in work
        all_ = [r.status for r in pool.map(lambda _: send(server, bytes(QUOTA // 3), **ANN), range(8))]
    assert sorted(all_) == [200, 200] + [400] * 6, all_


def quota_under_way(server, data):
    """Of uploads that come together as many are on the disk as the key may have files."""
    third, folder = bytes(QUOTA // 3), data / "files"
    before = set(os.listdir(folder))
    all_ = [begin(server, third, -20, **ANN) for _ in range(8)]

    def sizes():
        with contextlib.suppress(FileNotFoundError):  # None: one went meanwhile
            return [(folder / x).stat().st_size for x in set(os.listdir(folder)) - before]
    wait(lambda: sizes() == [len(third)] * 3, sizes)
    got, kept = [], []
    for c, rest in all_:
        c.send(rest)
        status, text = c.reply()
        got.append(status)
        c.close()
        if status == 200:
            kept.append(json.loads(text)["id"])
        else:
            assert json.loads(text)["error"]["code"] == "files_quota_exceeded", text
    assert sorted(got) == [200] * 3 + [400] * 5, got
    for k in kept:  # not before: the place of one is free for an upload that the server comes to late
        server.ask("DELETE", f"/v1/files/{k}", **ANN)


def aborted_uploads(server, data):
    """A thousand of them, cut anywhere, leave nothing."""
    for _ in range(8):  # what is made once
        send(server, bytes(1 << 18))
    server.wait_idle()
    before, held = sorted(os.listdir(data / "files")), Holdings(server)

    def some(rng):
        for _ in range(size(8, 125)):
            c, _ = begin(server, bytes(1 << 18), rng.choice([0, 1, 150, rng.randrange(1 << 18), -1]))
            if rng.random() < 0.5:
                time.sleep(rng.random() / 100)
            c.close(rudely=rng.random() < 0.5)
    together(8, some)
    said = held.check()  # a descriptor goes before its file
    wait(lambda: sorted(os.listdir(data / "files")) == before, lambda: os.listdir(data / "files"))
    return said


# ---- names


def hostile(tmp):
    """Names of a file beside the server's folders, as paths and as they stand in a URL."""
    secret = tmp / "outside/secret"
    names = ["../" * n + "outside/secret" for n in (1, 2, 3)]
    names += [str(secret), os.path.relpath(secret), "file-/" + names[2], "./" + names[0], "link/secret"]
    names += [x.replace("/", "\\") for x in names[:3]] + [x + "\0.json" for x in names[:2]]
    quoted = [urllib.parse.quote(x, safe="") for x in names]
    return names, (quoted + [x.replace("%2F", "/") for x in quoted[:4]]
                   + [x.replace("%", "%25") for x in quoted]
                   + [x.replace("%2F", "%c0%af").replace("..", "%2e%2e") for x in quoted])


def bodies(name, file):
    """Requests that name a file, a model or a folder."""
    text = {"prompt": "a", "max_tokens": 1}
    tune = {"model": "tiny", "training_file": file}
    yield "/v1/completions", {**text, "model": name}
    yield "/v1/chat/completions", {"model": name, "messages": [{"role": "user", "content": "a"}]}
    yield "/v1/embeddings", {"input": "a", "model": name}
    for field in ("model", "training_file", "validation_file", "suffix"):
        yield JOBS, {**tune, field: name}
    yield "/v1/fine_tuning/preview", {"model": name, "rows": "{}"}
    for field in ("name", "path"):
        yield "/v1/adapters", {"name": "x", "path": "good", field: name}


def routes():
    table = (pathlib.Path(__file__).parents[2] / "server/http/routes.def").read_text()
    return re.findall(r'^ROUTE\(\w+, "(\w+)", "(\S*\{\w+\}\S*)"', table, re.M)


def names_stay_inside(server, tmp, opens):
    """Whatever is asked for, nothing beside the server's folders is opened, made or removed."""
    names, quoted = hostile(tmp)
    file = send(server, ROWS).json["id"]
    assert len(routes()) > 10
    for name in quoted:
        for method, path in routes():
            r = server.ask(method, re.sub(r"\{\w+\}", name, path), b"{}" if method == "POST" else None)
            assert 400 <= r.status < 500, (method, path, name, r)
    for name in names:
        for path, body in bodies(name, file):
            r = server.post(path, body)
            assert 400 <= r.status < 500, (path, body, r)
    seen = opens.take()
    assert seen <= {"adapters", "b", "m"}, f"outside its folders: {seen}"
    mine = tuple(str(tmp / x) for x in ("adapters", "b", "m"))
    files = [x for x in server.open_files() if x.startswith("/") and not x.startswith(mine)]
    assert all(x.startswith(("/dev/", "/proc/")) or x.endswith("(deleted)") for x in files), files


def make_outside(tmp):
    """A file to be kept from, and a link to it within the folder of adapters."""
    for folder in ("outside", "adapters/good"):
        (tmp / folder).mkdir(parents=True)
    for name in ("secret", "adapter_config.json"):
        (tmp / "outside" / name).write_text("{}")
    (tmp / "adapters/link").symlink_to(tmp / "outside")
    return Opens(tmp, tmp / "outside")


def equal_ids(server):
    """The client's own name of a request is told back, and is no key to anything."""
    bodies = [{"prompt": f"{i} " * (i % 7 + 1), "max_tokens": 8, "seed": i, "ignore_eos": True}
              for i in range(size(24, 1000))]

    def text(body, **head):
        r = server.post("/v1/completions", body, **head)
        assert r.status == 200 and (not head or r.headers["x-request-id"] == "same"), r
        return r.json["choices"][0]["text"]
    alone = [text(b) for b in bodies]
    with concurrent.futures.ThreadPoolExecutor(24) as pool:
        got = list(pool.map(lambda b: text(b, **{"x-request-id": "same"}), bodies))
    assert got == alone


def one_line_each(server):
    """What clients put into the log stays within its line, and formats nothing."""
    evil = "%n%s\x1b[31m\u202e"
    before, ids = len(log_lines(server)), []
    for path in ("/v1/models/%0a2026-01-01T00:00:00Z%20info%20%20forged", "/%1b[31m", "/%25n%25s"):
        ids.append(server.get(path).headers["x-request-id"])
    for field in ("model", "user", "prompt"):
        r = server.post("/v1/completions",
                        {"prompt": "a", "max_tokens": 1, field: evil + "\nforged\r\n"})
        ids.append(r.headers["x-request-id"])
    with Raw(server) as c:
        c.send(b"GET /livez HTTP/1.1\r\nHost: localhost\r\nUser-Agent: \x1b]0;x\x07\r\n"
               b"x-request-id: a\tforged\r\nConnection: close\r\n\r\n")
        ids.append(c.head()[1]["x-request-id"])
    end, is_said = time.monotonic() + 60 * SLOW, False
    while not is_said:  # a line is written behind the answer
        assert time.monotonic() < end, (ids, log_lines(server)[before:])
        time.sleep(0.02)
        lines = log_lines(server)[before:]
        is_said = all(any(f' request id="{i}" ' in x for x in lines) for i in ids)
    assert all(sum(f' request id="{i}" ' in x for x in lines) == 1 for i in ids), (ids, lines)
    assert not [x for x in lines if "forged" in x and " request id=" not in x], lines
    assert all(x.isascii() and x.isprintable() for x in lines), lines


# ---- models


def stream_from(server, model, n):
    all_ = [Raw(server) for _ in range(n)]
    for c in all_:
        c.send(request("/v1/completions", {"model": model, "prompt": "a", "max_tokens": 300,
                                           "stream": True, "ignore_eos": True}))
    for c in all_:
        assert c.until(b"data:"), c.got
    return all_


def deleted_in_use(server):
    """Readers end on what they began with; of many who delete it one does."""
    file = send(server, ROWS).json["id"]
    name = done(server, job(server, file, n_epochs=1))["fine_tuned_model"]
    streams = stream_from(server, name, 4)
    with concurrent.futures.ThreadPoolExecutor(12) as pool:
        all_ = list(pool.map(lambda _: server.ask("DELETE", f"/v1/models/{name}").status, range(12)))
    assert sorted(all_) == [200] + [404] * 11, all_
    r = server.post("/v1/completions", {"model": name, "prompt": "a", "max_tokens": 1})
    assert r.status == 404 and r.error["code"] == "model_not_found", r
    for c in streams:
        assert c.until(b"[DONE]"), c.got[-300:]
        last = json.loads(events(c.got)[-2])
        assert last["choices"][0]["finish_reason"] == "length" and last["model"] == name, last
        c.close()


def followers_leave(server):
    """Who follows a job and goes, with a word or without, costs neither it nor the server."""
    file = send(server, ROWS).json["id"]
    at = job(server, file, n_epochs=50, batch_size=1)
    before = server.descriptors()
    all_ = [Raw(server) for _ in range(size(40, 1000))]
    for c in all_:
        c.send(f"GET {JOBS}/{at}/events?stream=true HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
    for c in all_:
        assert c.until(b"data:"), c.got
    for i, c in enumerate(all_):
        c.close(rudely=i % 2)
    assert done(server, at)["status"] == "succeeded"
    server.wait_idle()
    assert server.descriptors() < before + 10, (before, server.descriptors())


# ---- the end


def upload_in_drain(server, data):
    """An upload that had begun when SIGTERM came ends, and its file is there."""
    before = os.listdir(data / "files")
    c, rest = begin(server, bytes(1 << 20), 9999)
    with c:
        wait(lambda: os.listdir(data / "files") != before, lambda: before)
        os.kill(server.pid, signal.SIGTERM)
        wait(lambda: server.get("/readyz").status == 503, lambda: "it is ready")
        c.send(rest)
        status, text = c.reply()
    assert status == 200, (status, text)
    assert server.stop() == 0, server.output()
    assert (data / "files" / json.loads(text)["id"]).stat().st_size == 1 << 20


def main():
    cases = Cases()
    with scratch() as tmp:
        model = make_model(tmp / "m", "--ctx", 512)
        options = (model, "--name", "tiny", "--kv-memory", "16M")
        (tmp / "keys").write_text(KEYS)
        (tmp / "keys").chmod(0o600)
        with Tandem(*options, "--data-dir", tmp / "a", "--api-key-file", tmp / "keys",
                    "--files-quota", QUOTA) as s:
            cases.run("a quota of what comes", lambda: quota_under_way(s, tmp / "a"))
            cases.run("a quota to the byte", lambda: quota(s))
        opens = make_outside(tmp)
        with Tandem(*options, "--data-dir", tmp / "b", "--adapter-root", tmp / "adapters") as s:
            opens.take()
            if opens.sees():
                cases.run("names stay inside", lambda: names_stay_inside(s, tmp, opens))
            else:
                cases.skip("names stay inside", "inotify does not say here who opens what")
            cases.run("aborted uploads", lambda: aborted_uploads(s, tmp / "b"))
            cases.run("requests of one id", lambda: equal_ids(s))
            cases.run("a line for a request", lambda: one_line_each(s))
            cases.run("deleted in use", lambda: deleted_in_use(s))
            cases.run("followers leave", lambda: followers_leave(s))
            cases.run("an upload in a drain", lambda: upload_in_drain(s, tmp / "b"))
    return cases.end()


sys.exit(main())
