#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a fine-tuning API must show to clients of OpenAI's, point by point, and which test shows it:

 1  a file is kept to the byte, and gone when deleted    here; test_tuning: files are kept; sdk: files
 2  no purpose, an unknown one; a file that is too large here: large; test_tuning: files are refused
 3  a new job has all its members                        test_tuning: a job succeeds; sdk: job
 4  the same seed, the same losses, byte for byte        here: seeds
 5  values out of their bounds                           test_tuning: jobs are refused; sdk: bounds
 6  too few examples                                     test_tuning: jobs fail
 7  rows of another method; no role; nothing to learn    here: rows; test_tuning: jobs fail;
                                                         test_train_file.c: bad_rows
 8  a message of weight 0 costs nothing                  here: weights; test_preview: the mask
 9  trained tokens are served tokens                     test_preview: as it is served
10  events page while there are more of them             here: events; test_tuning: events
11  checkpoints answer while the job runs                here: checkpoints; test_tuning: checkpoints
12  the end of a job                                     test_tuning: a job succeeds, a model is
                                                         deleted; test_preview: as it is trained
13  cancelled, and its memory given back                 here: cancel; sdk: states
14  paused and resumed, to the same losses               test_tuning: pause
15  killed and started again                             test_tuning: killed in the middle;
                                                         test_killed
16  lists at their ends, and filtered                    here: lists; test_tuning: lists, file lists
17  batches                                              test_batches; sdk: batches
18  uploads in parts                                     here: absent
19  graders                                              test_graders
20  every error has its four members                     here: errors; sdk: errors

sdk: tests/clients/sdk, with the official library. Here curl asks, where it is installed, and else a
client of the standard library.

Faults they can catch: each of these promises, broken."""
import json
import math
import pathlib
import shutil
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "lib"))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from serving import ENDLESS, MODE, SLOW, Cases, Reply, scratch  # noqa: E402
from test_preview import said, show  # noqa: E402
from test_tuning import ANN, JOBS, KEYS, Client, form, rows, serve  # noqa: E402

CURL = shutil.which("curl")
LONG = {"n_epochs": 50, "batch_size": 1}


class Curl(Client):
    """The same questions, asked by curl."""

    def ask(self, method, path, body=None, **headers):
        if not CURL:
            return super().ask(method, path, body, **headers)
        if body is not None and not isinstance(body, bytes):
            body = json.dumps(body).encode()
            headers = {"Content-Type": "application/json", **headers}
        words = [CURL, "-sS", "-g", "-i", "--noproxy", "*", "-X", method, self.server.url + path]
        for k, v in {**self.key, **headers}.items():
            words += ["-H", f"{k}: {v}"]
        if body is not None:
            words += ["-H", "Expect:", "--data-binary", "@-"]
        out = subprocess.run(words, input=body or b"", stdout=subprocess.PIPE, check=True).stdout
        head, _, content = out.partition(b"\r\n\r\n")
        first, *lines = head.decode("latin-1").split("\r\n")
        return Reply(int(first.split()[1]), dict(s.split(": ", 1) for s in lines), content)

    def form(self, path, *fields):
        """curl's own form, as people write it."""
        words = [CURL, "-sS", "--noproxy", "*", self.server.url + path]
        for k, v in self.key.items():
            words += ["-H", f"{k}: {v}"]
        for f in fields:
            words += ["-F", f]
        return json.loads(subprocess.run(words, stdout=subprocess.PIPE, check=True).stdout)


def forms(c, tmp):
    """A form as curl -F sends it."""
    data = "".join(json.dumps({"messages": said(f"é {i}", "b")}) + "\n" for i in range(10)).encode()
    (tmp / "my rows.jsonl").write_bytes(data)
    f = c.form("/v1/files", "purpose=fine-tune", f"file=@{tmp}/my rows.jsonl")
    assert (f["object"], f["bytes"], f["status"]) == ("file", len(data), "processed"), f
    assert f["filename"] == "my rows.jsonl" and f["purpose"] == "fine-tune", f
    assert c.get(f"/v1/files/{f['id']}/content").body == data
    assert c.ask("DELETE", f"/v1/files/{f['id']}").json["deleted"] is True
    assert c.get(f"/v1/files/{f['id']}").status == 404
    e = c.form("/v1/files", f"file=@{tmp}/my rows.jsonl")["error"]
    assert e["param"] == "purpose" and e["code"] and e["type"], e


def large(c):
    """Refused by its length before it comes, and by its bytes where nobody said how many."""
    before = c.server.rss()
    for more in ({}, {"Transfer-Encoding": "chunked"}):
        body, headers = form({"purpose": "fine-tune"}, bytes(40 << 20))
        try:
            r = c.ask("POST", "/v1/files", body, **headers, **more)
        except (subprocess.CalledProcessError, OSError):
            continue  # the answer came, and the rest of the file was not taken any more
        assert r.status == 413 and r.error["param"] == "file", r
    grown = c.server.rss() - before
    assert grown < 16 << 20, f"{grown >> 20} MiB more"
    assert c.get("/v1/files").status == 200


def seeds(c, file):
    hyper = {"n_epochs": 3, "batch_size": 5, "learning_rate_multiplier": 10, "lora_dropout": 0.1}
    curves = [c.curve(c.done(c.job(file, seed=s, hyperparameters=hyper))) for s in (42, 42, 43)]
    assert curves[0] == curves[1] != curves[2], curves


def bad_rows(c):
    talk = said("a", "b", "c", "d")
    for change, words in (
            (lambda m: m[2].pop("role"), ("Example 100", "messages", "2", "role")),
            (lambda m: m[1].pop("content"), ("Example 100", "messages", "1", "content")),
            (lambda m: [m.pop() for _ in range(4)] and m.append(talk[0]),
             ("Example 100", "assistant"))):
        broken = [dict(m) for m in talk]
        change(broken)
        data = [{"messages": talk}] * 99 + [{"messages": broken}]
        j = c.wait(c.job(c.file("\n".join(map(json.dumps, data)).encode())))
        assert j["status"] == "failed" and j["error"]["code"] == "invalid_training_file", j
        assert all(w in j["error"]["message"] for w in words), (words, j)


def weights(c):
    """The loss of the first step is the mean of what serving says of the trained tokens: a turn of
    weight 0 is no part of it."""
    lines = []
    for i in range(10):
        talk = said(f"a {i}", "b c " * (i % 3 + 1), "d", "e f")
        talk[1 if i % 2 else 3]["weight"] = 0
        lines.append({"messages": talk})
    total, n = 0.0, 0
    for row in lines:
        p = show(c, row=row)
        r = c.ask("POST", "/v1/completions", {"prompt": p["tokens"], "echo": True, "logprobs": 0,
                                              "max_tokens": 0})
        assert r.status == 200, r
        lp = r.json["choices"][0]["logprobs"]["token_logprobs"][:p["total_tokens"]]
        total -= sum(x for x, w in zip(lp, p["weights"]) if w)
        n += p["trained_tokens"]
    job = c.done(c.job(c.file("\n".join(map(json.dumps, lines)).encode()),
                       hyperparameters={"n_epochs": 1, "batch_size": 10}))
    loss = float(c.curve(job).decode().splitlines()[1].split(",")[1])
    assert math.isclose(loss, total / n, rel_tol=1e-4), (loss, total / n)
    return f"{loss} over {n} tokens"


def events(c, file):
    """Pages from a moment on go down to the first event, while others are put on top."""
    job = c.job(file, hyperparameters=LONG)
    c.wait_step(job, 30)
    seen, after = [], ""
    while True:
        page = c.get(f"{JOBS}/{job}/events?limit=7{after}").json
        seen += page["data"]
        if not page["has_more"]:
            break
        after = f"&after={seen[-1]['id']}"
    running = c.look(job)["status"]
    c.ask("POST", f"{JOBS}/{job}/cancel")
    every, page = [], {"has_more": True}
    while page["has_more"]:
        after = f"&after={every[-1]['id']}" if every else ""
        page = c.get(f"{JOBS}/{job}/events?limit=1000{after}").json
        every += page["data"]
    assert seen == every[-len(seen):] and len(every) > len(seen) > 30, (len(seen), len(every))
    assert running == "running", running
    return f"{len(seen)} of {len(every)}"


def checkpoints(c, file):
    """Listed and answering, while the job goes on."""
    job = c.job(file, suffix="live", hyperparameters={**LONG, "checkpoint_steps": 60})
    end = time.monotonic() + 120 * SLOW
    while not (page := c.get(f"{JOBS}/{job}/checkpoints").json["data"]):
        assert time.monotonic() < end, c.look(job)
        time.sleep(0.01)
    c.ask("POST", f"{JOBS}/{job}/pause")
    c.ask("POST", f"{JOBS}/{job}/resume")
    c.wait(job, ("running",))
    stays = False
    while not stays:  # three are kept: one may go while it is asked
        assert time.monotonic() < end, page
        p = c.get(f"{JOBS}/{job}/checkpoints").json["data"][0]
        r = c.ask("POST", "/v1/chat/completions", {
            "model": p["fine_tuned_model_checkpoint"], "messages": said("a")[:1], "max_tokens": 2})
        listed = {m["id"] for m in c.get("/v1/models").json["data"]}
        page = c.get(f"{JOBS}/{job}/checkpoints").json["data"]
        stays = p["id"] in {x["id"] for x in page}
    assert c.look(job)["status"] == "running"
    c.ask("POST", f"{JOBS}/{job}/cancel")
    assert r.status == 200 and p["fine_tuned_model_checkpoint"] in listed, (r, listed)
    assert p["step_number"] % 60 == 0 and ":live:" in p["fine_tuned_model_checkpoint"], p
    assert p["fine_tuned_model_checkpoint"].endswith(f":ckpt-step-{p['step_number']}"), p
    assert p["metrics"]["step"] == p["step_number"] and p["metrics"]["train_loss"] > 0, p
    assert all(isinstance(v, (int, float)) for v in p["metrics"].values()), p


def cancel(c, file):
    """Its memory comes back: the tenth cancelled job leaves no more behind than the second."""
    sizes = []
    for _ in range(10):
        job = c.job(file, hyperparameters={**LONG, "lora_rank": 16})
        c.wait_step(job, 2)
        assert c.ask("POST", f"{JOBS}/{job}/cancel").json["status"] == "cancelled"
        sizes.append(c.server.rss())
        r = c.ask("POST", f"{JOBS}/{job}/cancel")
        assert r.status == 400 and r.error["code"] == "invalid_job_state", r
        for p in c.get(f"{JOBS}/{job}/checkpoints").json["data"]:
            c.ask("DELETE", f"/v1/models/{p['fine_tuned_model_checkpoint']}")
    grown = min(sizes[-3:]) - max(sizes[1:4])
    assert grown < 8 << 20 or MODE in ("asan", "tsan"), [s >> 10 for s in sizes]


def lists(c, file):
    """A page that ends where the list does says so."""
    for i in range(3):
        c.job(c.file(rows(1)), metadata={"of": "lists", "i": str(i)})
    for path, n in ((f"{JOBS}?metadata[of]=lists", 3), (f"{JOBS}?metadata[of]=lists&metadata[i]=1", 1),
                    (f"{JOBS}?metadata[of]=none", 0)):
        for limit in range(max(1, n - 1), n + 2):
            page = c.get(f"{path}&limit={limit}").json
            assert len(page["data"]) == min(n, limit) and page["has_more"] is (n > limit), page
            ids = [j["id"] for j in page["data"]]
            assert [page["first_id"], page["last_id"]] == (ids[:1] + ids[-1:] or [None, None]), page
    job = c.get(f"{JOBS}?metadata[of]=lists&limit=1").json["data"][0]["id"]
    c.wait(job)
    n = len(c.get(f"{JOBS}/{job}/events?limit=1000").json["data"])
    for limit in (n - 1, n, n + 1):
        assert c.get(f"{JOBS}/{job}/events?limit={limit}").json["has_more"] is (n > limit)
    page = c.get(f"{JOBS}/{job}/checkpoints").json
    assert page["data"] == [] and page["has_more"] is False and page["first_id"] is None, page


def absent(c):
    for method, path, what in (
            ("POST", "/v1/moderations", "Moderations"), ("POST", "/v1/images/edits", "Images"),
            ("GET", "/v1/fine_tuning/checkpoints/ft:x:ckpt-step-1/permissions", "Permissions")):
        r = c.ask(method, path, {} if method == "POST" else None)
        assert r.status == 404 and r.error["code"] == "not_supported", (path, r)
        assert what in r.error["message"], (path, r)


def errors(c, file):
    wrong = Curl(c.server, {"Authorization": "Bearer wrong"})
    for r, status in (
            (c.get("/v1/files/file-none"), 404), (c.get(f"{JOBS}/ftjob-none"), 404),
            (c.get("/v1/models/none"), 404), (c.get(f"{JOBS}/ftjob-none/events"), 404),
            (c.ask("POST", "/v1/completions", {"model": "none", "prompt": "a"}), 404),
            (c.get("/v1/none"), 404), (wrong.get(JOBS), 401),
            (Curl(c.server, {}).get(JOBS), 401), (c.ask("PUT", JOBS), 405),
            (c.ask("POST", JOBS, b"{", **{"Content-Type": "application/json"}), 400),
            (c.ask("POST", JOBS, b"\xff", **{"Content-Type": "application/json"}), 400),
            (c.ask("POST", JOBS, b"{}", **{"Content-Type": "text/plain"}), 415),
            (c.ask("POST", JOBS, {"model": "x" * (1 << 20), "training_file": file}), 413)):
        assert r.status == status, (status, r)
        e = r.error
        assert set(e) == {"message", "type", "param", "code"}, e
        assert e["message"] and e["type"] and (e["code"] or status == 400), e


def main():
    cases = Cases()
    with scratch() as tmp:
        (tmp / "keys").write_text(KEYS)
        (tmp / "keys").chmod(0o600)
        with serve(tmp, "--file-bytes-max", "16M") as s:
            c = Curl(s, ANN)
            file, many = c.file(rows(12)), c.file(rows(ENDLESS))
            if CURL:
                cases.run("forms", lambda: forms(c, tmp))
            else:
                cases.skip("forms", "curl is not installed")
            cases.run("large", lambda: large(c))
            cases.run("seeds", lambda: seeds(c, file))
            cases.run("rows", lambda: bad_rows(c))
            cases.run("weights", lambda: weights(c))
            cases.run("events", lambda: events(c, many))
            cases.run("checkpoints", lambda: checkpoints(c, many))
            cases.run("cancel", lambda: cancel(c, many))
            cases.run("lists", lambda: lists(c, file))
            cases.run("absent", lambda: absent(c))
            cases.run("errors", lambda: errors(c, file))
    return cases.end()


if __name__ == "__main__":
    sys.exit(main())
