#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Files and fine-tuning over loopback, as a client of OpenAI's API meets them: uploads that are kept
byte for byte or not at all, jobs from their creation to a model that answers, their events, ends and
lists, and a server that dies in between.

Faults they can catch: an upload that is cut short and stays; a field out of bounds that is taken; a
file or job of another key that shows; a page that repeats or leaves out; a job that is lost, or
called succeeded, because its server was killed; a run that paused and does not end as one that did
not; a model that cannot be asked for while it is trained, or still can when it is deleted.

Standard library only."""
import contextlib
import http.client
import json
import pathlib
import signal
import sqlite3
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "lib"))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from serving import ENDLESS, SLOW, Cases, Tandem, scratch, waiting  # noqa: E402
from test_routes import Description  # noqa: E402

MODEL = "tests/golden/models/llama_tied"
KEYS = """ann all ann-key-ann-key-ann-key
bob all bob-key-bob-key-bob-key
low inference low-key-low-key-low-key
"""
ANN, BOB, LOW = ({"Authorization": f"Bearer {k}-key-{k}-key-{k}-key"} for k in ("ann", "bob", "low"))
JOBS = "/v1/fine_tuning/jobs"
REQUIRED = {"id", "created_at", "error", "fine_tuned_model", "finished_at", "hyperparameters", "model",
            "object", "organization_id", "result_files", "status", "trained_tokens", "training_file",
            "validation_file", "seed"}
# What of the description must have been seen in a real answer; FileRequest and JobRequest are asked.
SCHEMAS = {"File", "FileList", "FileDeleted", "Job", "JobList", "JobEvent", "JobEventList",
           "Checkpoint", "CheckpointList", "ModelDeleted", "Error"}
# What is tested here of server/http/routes.def: file_add files file file_content file_drop job_add jobs job
# job_cancel job_pause job_resume job_events job_checkpoints model_drop.
ENDS = ("succeeded", "failed", "cancelled")
FILE_MOST = 4 << 20


def rows(n, answer="b a b a"):
    """n lines of prompts and completions that the tiny tokenizer knows."""
    return "".join(json.dumps({"prompt": f"{'a b ' * (1 + i % 5)}", "completion": answer}) + "\n"
                   for i in range(n)).encode()


def form(fields, file=None, name="rows.jsonl", boundary="x-boundary-x"):
    parts = [f'--{boundary}\r\nContent-Disposition: form-data; name="{k}"\r\n\r\n{v}\r\n'.encode()
             for k, v in fields.items()]
    if file is not None:
        parts.append(f'--{boundary}\r\nContent-Disposition: form-data; name="file"; '
                     f'filename="{name}"\r\n\r\n'.encode("utf-8", "surrogateescape") + file + b"\r\n")
    return b"".join(parts) + f"--{boundary}--\r\n".encode(), {
        "Content-Type": f"multipart/form-data; boundary={boundary}"}


class Client:
    """What a test asks again and again, with one key."""

    def __init__(self, server, key=ANN):
        self.server, self.key = server, key

    def ask(self, method, path, body=None, **headers):
        return self.server.ask(method, path, body, **{**self.key, **headers})

    def get(self, path):
        return self.ask("GET", path)

    def send(self, file, fields=None):
        body, headers = form(fields or {"purpose": "fine-tune"}, file)
        return self.ask("POST", "/v1/files", body, **headers)

    def file(self, data):
        r = self.send(data)
        assert r.status == 200, r
        return r.json["id"]

    def make(self, file, headers=None, **more):
        return self.ask("POST", JOBS, {"model": "tiny", "training_file": file, **more},
                        **(headers or {}))

    def job(self, file, **more):
        r = self.make(file, **more)
        assert r.status == 200, r
        return r.json["id"]

    def look(self, job):
        r = self.get(f"{JOBS}/{job}")
        assert r.status == 200, r
        return r.json

    def wait(self, job, wanted=ENDS, seconds=240):
        for _ in waiting(seconds * SLOW):
            j = self.look(job)
            if j["status"] in wanted:
                return j
            assert j["status"] not in ENDS, j
        raise AssertionError(f"still {self.look(job)['status']}: {self.server.output()}")

    def done(self, job):
        j = self.wait(job)
        assert j["status"] == "succeeded", j
        return j

    def wait_step(self, job, step):
        for _ in waiting(120 * SLOW, 0.01):
            events = self.get(f"{JOBS}/{job}/events?limit=10").json["data"]
            if any((e["data"] or {}).get("step", 0) >= step for e in events):
                return
        raise AssertionError(f"step {step} does not come: {self.look(job)}")

    def curve(self, job):
        file = job["result_files"][0]
        r = self.get(f"/v1/files/{file}/content")
        assert r.status == 200 and r.headers["Content-Type"].startswith("text/csv"), r
        return r.body

    def say(self, model):
        return self.ask("POST", "/v1/completions",
                        {"model": model, "prompt": "a b", "max_tokens": 4, "temperature": 0,
                         "logprobs": 1})


# ---- files


def files_are_kept(c, data):
    content = rows(10)
    r = c.send(content)
    f = r.json
    assert r.status == 200 and f["object"] == "file" and f["status"] == "processed", r
    assert f["bytes"] == len(content) and f["purpose"] == "fine-tune", f
    assert c.get(f"/v1/files/{f['id']}").json == f
    assert c.get(f"/v1/files/{f['id']}/content").body == content
    r = c.ask("DELETE", f"/v1/files/{f['id']}")
    assert r.status == 200 and r.json["deleted"] is True, r
    for path in ("", "/content"):
        r = c.get(f"/v1/files/{f['id']}{path}")
        assert r.status == 404 and r.error["code"], r
    assert not (data / "files" / f["id"]).exists()


def names_are_data(c):
    """A file's name is told as it came, leads nowhere, and spoils nobody's list."""
    for name, told in (("caf\udce9.jsonl", "caf\ufffd.jsonl"), ("\udced\udca0", "\ufffd\ufffd"),
                       ("../../x", "../../x"), ("\x1b[31m\u2603", "\x1b[31m\u2603"), ("", "")):
        body, headers = form({"purpose": "fine-tune"}, b"x", name)
        f = c.ask("POST", "/v1/files", body, **headers).json
        assert f["filename"] == told, (name, f)
        assert c.get("/v1/files?limit=1").json["data"] == [f]
        assert c.ask("DELETE", f"/v1/files/{f['id']}").status == 200


def nothing_is_left(data, before):
    """What was refused is cleared away behind its answer."""
    end = time.monotonic() + 60 * SLOW
    while sorted(p.name for p in (data / "files").iterdir()) != before:
        assert time.monotonic() < end, "a refused upload's bytes are still there"
        time.sleep(0.02)


def files_are_refused(c, data):
    before = sorted(p.name for p in (data / "files").iterdir())
    for fields, file, status, param in (
            ({"x": "1"}, b"x", 400, "x"),
            ({"expires_after[anchor]": "created_at"}, b"x", 400, "purpose"),
            ({"purpose": "fun"}, b"x", 400, "purpose"),
            ({"purpose": "fine-tune"}, None, 400, "file"),
            ({"purpose": "fine-tune", "expires_after[anchor]": "now",
              "expires_after[seconds]": "3600"}, b"x", 400, "expires_after[anchor]"),
            ({"purpose": "fine-tune", "expires_after[anchor]": "created_at",
              "expires_after[seconds]": "3599"}, b"x", 400, "expires_after[seconds]"),
            ({"purpose": "fine-tune"}, bytes(FILE_MOST + 1), 413, "file")):
        body, headers = form(fields, file)
        r = c.ask("POST", "/v1/files", body, **headers)
        assert r.status == status and r.error["param"] == param, (fields, r)
    body, headers = form({"purpose": "fine-tune"}, b"whole")
    assert c.ask("POST", "/v1/files", body[:-10], **headers).status == 400
    assert c.ask("POST", "/v1/files", {"purpose": "fine-tune"}).status == 415
    nothing_is_left(data, before)


def files_expire(c):
    f = c.send(b"x", {"purpose": "fine-tune", "expires_after[anchor]": "created_at",
                      "expires_after[seconds]": "3600"}).json
    assert f["expires_at"] == f["created_at"] + 3600, f


def file_lists_page(c):
    made = [c.file(rows(1)) for _ in range(4)]
    seen, after = [], ""
    while True:
        r = c.get(f"/v1/files?limit=3{after}").json
        ids = [f["id"] for f in r["data"]]
        assert (r["first_id"], r["last_id"]) == (ids[0], ids[-1])
        seen += ids
        if not r["has_more"]:
            break
        after = f"&after={r['last_id']}"
    assert seen[:4] == made[::-1] and len(set(seen)) == len(seen), (seen, made)
    n = len(seen)
    assert c.get(f"/v1/files?limit={n}").json["has_more"] is False
    assert c.get(f"/v1/files?limit={n - 1}").json["has_more"] is True
    assert [f["id"] for f in c.get("/v1/files?order=asc").json["data"]] == seen[::-1]
    assert c.get("/v1/files?purpose=batch").json["data"] == []
    assert c.get("/v1/files?limit=0").error["param"] == "limit"
    r = c.get("/v1/files?after=file-never")
    assert r.status == 400 and r.error["param"] == "after", r
    for page in range(2):  # what a client has just been told, it deletes, and goes on behind it
        r = c.get(f"/v1/files?limit=2{after if page else ''}").json
        assert [f["id"] for f in r["data"]] == made[::-1][2 * page:2 * page + 2], (page, r)
        after = f"&after={r['last_id']}"
        for f in r["data"]:
            assert c.ask("DELETE", f"/v1/files/{f['id']}").status == 200


# ---- jobs


def supervised(**hyper):
    return {"type": "supervised", "supervised": {"hyperparameters": hyper}}


def jobs_refuse(c, file):
    for more, param in (
            *(({"hyperparameters": {"n_epochs": v}}, "n_epochs") for v in (0, 51, "abc")),
            *(({"hyperparameters": {"batch_size": v}}, "batch_size") for v in (0, 257)),
            ({"hyperparameters": {"learning_rate_multiplier": 0}}, "learning_rate_multiplier"),
            ({"method": supervised(lora_rank=17)}, "lora_rank"),
            ({"method": supervised(target_modules=["q_proj", "w_proj"])}, "target_modules"),
            ({"method": supervised(modules_to_save=["lm_head", "score"])}, "modules_to_save"),
            ({"method": supervised(lora_dropout=1)}, "supervised.hyperparameters.lora_dropout"),
            ({"method": supervised(use_dora=True, lora_dropout=0.1)}, "supervised.hyperparameters.use_dora"),
            ({"suffix": ""}, "suffix"), ({"suffix": "x" * 65}, "suffix"),
            ({"seed": -1}, "seed"), ({"seed": 2**31}, "seed"),
            ({"metadata": {str(i): "" for i in range(17)}}, "metadata"),
            ({"metadata": {"k" * 65: ""}}, "metadata"), ({"metadata": {"k": "v" * 513}}, "metadata"),
            ({"training_file": "file-none"}, "training_file"),
            ({"validation_file": "file-none"}, "validation_file"),
            ({"method": {"type": "reinforcement"}}, "method.reinforcement.grader")):
        r = c.ask("POST", JOBS, {"model": "tiny", "training_file": file, **more})
        assert r.status == 400 and param in (r.error["param"] or ""), (more, r)
    r = c.ask("POST", JOBS, {"model": "large", "training_file": file})
    assert r.status == 404 and r.error["code"] == "model_not_found", r
    other = c.send(rows(10), {"purpose": "batch"}).json["id"]
    assert c.make(other).error["param"] == "training_file"
    assert c.ask("POST", JOBS, b"{").error["message"]
    assert c.get("/v1/fine_tuning/jobs/ftjob-none").error["code"]
    for what in ("cancel", "pause", "resume"):
        assert c.ask("POST", f"{JOBS}/ftjob-none/{what}").status == 404
    assert c.ask("PUT", JOBS).status == 405


def job_succeeds(c, file):
    base = c.say("tiny").json
    r = c.make(file, suffix="two words"[:3], seed=42, metadata={"run": "first"},
               hyperparameters={"n_epochs": 4, "batch_size": 4, "learning_rate_multiplier": 50})
    j = r.json
    assert r.status == 200 and REQUIRED <= set(j), r
    assert j["status"] in ("validating_files", "queued") and j["result_files"] == [], j
    assert j["fine_tuned_model"] is None and j["error"] is None and j["seed"] == 42, j
    j = c.done(j["id"])
    assert j["trained_tokens"] > 0 and j["trained_tokens"] % 4 == 0 and j["finished_at"], j
    head, *lines = c.curve(j).decode().splitlines()
    assert head.startswith("step,train_loss"), head
    assert len(lines) == 4 * 3 and float(lines[-1].split(",")[1]) < float(lines[0].split(",")[1])
    model = j["fine_tuned_model"]
    assert c.get(f"/v1/models/{model}").json["id"] == model
    tuned = c.say(model)
    assert tuned.status == 200, tuned
    a, b = (x["choices"][0]["logprobs"]["token_logprobs"] for x in (base, tuned.json))
    assert a != b
    return j


def events_page(c, job):
    every = c.get(f"{JOBS}/{job}/events?limit=1000").json
    assert every["has_more"] is False
    events, seen, after = every["data"], [], ""
    for _ in range(len(events)):
        r = c.get(f"{JOBS}/{job}/events?limit=1{after}").json
        seen += r["data"]
        after = f"&after={seen[-1]['id']}"
    assert seen == events and r["has_more"] is False
    for path in (f"{JOBS}?after=none", f"{JOBS}/{job}/events?after=none",
                 f"{JOBS}/{job}/events?stream=true&after=none", f"{JOBS}/{job}/checkpoints?after={job}"):
        r = c.get(path)
        assert r.status == 400 and r.error["param"] == "after", (path, r)
    assert {e["level"] for e in events} <= {"info", "warn", "error"}
    assert {e["type"] for e in events} == {"message", "metrics"}
    assert all("step" in e["data"] for e in events if e["type"] == "metrics")
    steps = [e["data"] for e in events if e["message"].startswith("Step")][::-1]
    assert all(a["trained_tokens"] < b["trained_tokens"] for a, b in zip(steps, steps[1:])), steps
    assert all(s["tokens_per_second"] > 0 and s["estimated_finish"] > 0 for s in steps), steps
    texts = [e["message"] for e in events][::-1]
    assert texts[0] == f"Created fine-tuning job: {job}", texts
    assert texts[-1] == "The job has successfully completed", texts
    steps = [e["data"]["step"] for e in events if e["message"].startswith("Step")]
    assert steps == sorted(steps, reverse=True) and len(steps) == len(set(steps))


def checkpoints_are_there(c, job, model):
    r = c.get(f"{JOBS}/{job}/checkpoints").json
    names = [p["fine_tuned_model_checkpoint"] for p in r["data"]]
    assert r["first_id"] == r["data"][0]["id"] and names[0] == model, r
    assert names[1:] == [f"{model}:ckpt-step-{s}" for s in (9, 6, 3)], names
    for p in r["data"]:  # each says where the training stood
        assert p["metrics"]["step"] == p["step_number"] and p["metrics"]["train_loss"] > 0, p
    assert c.say(names[2]).status == 200
    models = {m["id"] for m in c.get("/v1/models").json["data"]}
    assert set(names) <= models
    r = c.get(f"{JOBS}/{job}/checkpoints?limit=1").json
    assert r["has_more"] is True and len(r["data"]) == 1


def model_is_deleted(c, other, model):
    assert other.ask("DELETE", f"/v1/models/{model}").status == 404
    r = c.ask("DELETE", f"/v1/models/{model.replace(':', '%3A')}")
    assert r.status == 200 and r.json == {"id": model, "object": "model", "deleted": True}, r
    assert c.say(model).status == 404
    assert c.ask("DELETE", f"/v1/models/{model}").status == 404
    assert c.ask("DELETE", "/v1/models/tiny").status == 404


def jobs_fail(c):
    for data, code, word in (
            (rows(7), "invalid_n_examples", "7 example(s)"),
            (b'{"messages":[{"content":"x"}]}\n' + rows(10), "invalid_training_file", "Example 1"),
            (b'{"messages":[{"role":"user","content":"a"},{"role":"assistant","content":"b",'
             b'"weight":0}]}\n' * 10, "no_trainable_tokens", ""),
            (b'{"input":{"messages":[{"role":"user","content":"x"}]},"preferred_output":'
             b'[{"role":"assistant","content":"a"}],"non_preferred_output":'
             b'[{"role":"assistant","content":"b"}]}\n' + rows(10), "invalid_file_format",
             "supervised")):
        j = c.wait(c.job(c.file(data)))
        assert j["status"] == "failed" and j["finished_at"], j
        assert j["error"]["param"] == "training_file" and word in j["error"]["message"], j
        assert j["error"]["code"] == code, j
        events = c.get(f"{JOBS}/{j['id']}/events").json["data"]
        assert events[0]["level"] == "error", events
        assert not any(e["message"] == "Fine-tuning job started" for e in events)


def lists_and_filters(c):
    small = c.file(rows(1))
    made = [c.job(small, metadata={"who": "list", "n": str(i)}) for i in range(3)]
    path = f"{JOBS}?metadata%5Bwho%5D=list"
    r = c.get(path).json
    assert [j["id"] for j in r["data"]] == made[::-1] and r["has_more"] is False
    assert c.get(f"{path}&limit=3").json["has_more"] is False
    r = c.get(f"{path}&limit=2").json
    assert [j["id"] for j in r["data"]] == made[:0:-1] and r["has_more"] is True
    r = c.get(f"{path}&limit=2&after={r['last_id']}").json
    assert [j["id"] for j in r["data"]] == made[:1] and r["has_more"] is False
    assert [j["id"] for j in c.get(f"{path}&metadata[n]=1").json["data"]] == made[1:2]
    assert all(j["metadata"] is None for j in c.get(f"{JOBS}?metadata=null").json["data"])
    for list_ in (JOBS, f"{JOBS}/{made[0]}/events", f"{JOBS}/{made[0]}/checkpoints"):
        for limit in ("0", "-1", "1001", "", "x"):
            r = c.get(f"{list_}?limit={limit}")
            assert r.status == 400 and r.error["param"] == "limit", (list_, limit, r)
    for job in made:
        c.wait(job)


def retries_find_the_first(c):
    small = c.file(rows(1))
    first = c.job(small, suffix="r")
    assert c.make(small, suffix="r", headers={"x-stainless-retry-count": "1"}).json["id"] == first
    assert c.job(small, suffix="r") != first
    key = {"Idempotency-Key": "once"}
    first = c.make(small, headers=key).json["id"]
    assert c.make(small, headers=key).json["id"] == first
    assert c.make(small, headers=key, suffix="s").error["code"] == "idempotency_key_reused"
    assert c.make(small, more=1).headers["x-tandem-ignored"] == "more"


def validated_beside_what_runs(c, data):
    """Each file is told of at once, while another job trains: what is good waits as `queued`."""
    busy = c.job(c.file(rows(ENDLESS)), **LONG)
    c.wait(busy, ("running",))
    good = c.file(rows(12))
    held = c.job(good)  # its file is deleted while it waits, as scripts do behind a creation
    assert c.ask("DELETE", f"/v1/files/{good}").json["deleted"] is True
    assert c.get(f"/v1/files/{good}").status == 404
    assert c.make(good).error["code"] == "file_not_found"
    (data / "files" / good).write_bytes(b"{}\n" * 12)  # read and tokenized once: nobody looks again
    waits = c.wait(c.job(c.file(rows(12))), ("queued",))
    assert waits["hyperparameters"]["n_epochs"] == 16, waits
    barren = b"".join(json.dumps({"messages": [{"role": "user", "content": "a"}, {
        "role": "assistant", "content": "b", "weight": 0}]}).encode() + b"\n" for _ in range(200))
    for training, validation, code, param in (
            (b"{}\n" * 12, None, "invalid_training_file", "training_file"),
            (rows(12), b"{}\n" * 12, "invalid_validation_file", "validation_file"),
            (rows(12), b"not json\n", "invalid_validation_file", "validation_file"),
            (rows(12), barren, "invalid_validation_file", "validation_file")):
        more = {"validation_file": c.file(validation)} if validation else {}
        j = c.wait(c.job(c.file(training), **more), ("failed",))
        assert (j["error"]["code"], j["error"]["param"]) == (code, param), j
        assert validation != barren or "has a token to measure" in j["error"]["message"], j
    assert c.look(busy)["status"] == "running"
    c.ask("POST", f"{JOBS}/{waits['id']}/cancel")
    c.ask("POST", f"{JOBS}/{busy}/cancel")
    c.done(held)


LONG = {"hyperparameters": {"n_epochs": 50, "batch_size": 1}, "seed": 7}


def followed(c, job):
    """The events of a stream, which must end."""
    r = c.get(f"{JOBS}/{job}/events?stream=true")
    assert r.status == 200 and r.headers["Content-Type"].startswith("text/event-stream"), r
    lines = [s[6:] for s in r.body.decode().split("\n\n") if s.startswith("data: ")]
    assert lines.pop() == "[DONE]", r
    return [json.loads(s) for s in lines]


def cancel(c):
    job = c.job(c.file(rows(ENDLESS)), **LONG)
    c.wait_step(job, 2)
    r = c.ask("POST", f"{JOBS}/{job}/cancel")
    assert r.status == 200 and r.json["status"] == "cancelled", r
    r = c.ask("POST", f"{JOBS}/{job}/cancel")
    assert r.status == 400 and r.error["code"] == "invalid_job_state", r
    assert c.ask("POST", f"{JOBS}/{job}/resume").status == 400
    events = followed(c, job)
    assert events[0]["message"].startswith("Created") and "cancelled" in events[-1]["message"]


def pause(c, file, straight):
    """Halted and resumed, it has the curve of one that was not; and a checkpoint of it answers
    while it runs."""
    for _ in range(20):  # where this process stood still for long, a job has ended
        job = c.job(file, **LONG)
        c.wait_step(job, 25)
        r = c.ask("POST", f"{JOBS}/{job}/pause")
        if r.status == 200:
            break
        assert r.error["code"] == "invalid_job_state" and c.done(job), r
    assert r.status == 200 and r.json["status"] == "paused", r
    assert c.ask("POST", f"{JOBS}/{job}/pause").json["status"] == "paused"
    names = [p["fine_tuned_model_checkpoint"]
             for p in c.get(f"{JOBS}/{job}/checkpoints").json["data"]]
    assert names and c.say(names[0]).status == 200, names
    steps = c.get(f"{JOBS}/{job}/events?limit=1").json["data"]
    time.sleep(0.2)
    assert c.get(f"{JOBS}/{job}/events?limit=1").json["data"] == steps
    r = c.ask("POST", f"{JOBS}/{job}/resume")
    assert r.status == 200 and r.json["status"] == "queued", r
    assert c.curve(c.done(job)) == straight


def strangers(c, other, low, file, job):
    for path in (f"/v1/files/{file}", f"/v1/files/{file}/content", f"{JOBS}/{job}",
                 f"{JOBS}/{job}/events", f"{JOBS}/{job}/checkpoints",
                 f"{JOBS}/{job}/events?stream=true"):
        r = other.get(path)
        assert r.status == 404 and r.error["code"], (path, r)
        assert low.get(path).status == 403
        assert c.server.get(path).status == 401
    assert other.get(JOBS).json["data"] == [] and other.get("/v1/files").json["data"] == []
    assert other.ask("DELETE", f"/v1/files/{file}").status == 404
    assert other.ask("POST", f"{JOBS}/{job}/cancel").status == 404
    assert other.make(file).error["param"] == "training_file"


def answers_fit(c, file, job):
    """Real answers against what /openapi.json says of them."""
    api = Description(c.get("/openapi.json").json)
    made = c.file(rows(1))
    for method, path, schema in (
            ("GET", "/v1/files", "FileList"), ("GET", f"/v1/files/{file}", "File"),
            ("DELETE", f"/v1/files/{made}", "FileDeleted"), ("GET", JOBS, "JobList"),
            ("GET", f"{JOBS}/{job}", "Job"), ("GET", f"{JOBS}/{job}/events", "JobEventList"),
            ("GET", f"{JOBS}/{job}/checkpoints", "CheckpointList"),
            ("DELETE", f"/v1/models/{c.look(job)['fine_tuned_model']}", "ModelDeleted"),
            ("GET", f"{JOBS}/none", "Error")):
        r = c.ask(method, path)
        assert (r.status == 200) is (schema != "Error"), (path, r)
        api.check(r.json, {"$ref": f"#/components/schemas/{schema}"})
    lacks = SCHEMAS - api.met
    assert not lacks, f"no real answer had {sorted(lacks)}"


def large_upload_is_flat(c):
    """32 MB through the server grow it by far less."""
    before = c.server.rss()
    r = c.send(bytes(32 << 20))
    assert r.status == 200 and r.json["bytes"] == 32 << 20, r
    more = c.server.rss() - before
    assert more < 12 << 20, more
    assert len(c.get(f"/v1/files/{r.json['id']}/content").body) == 32 << 20
    more = c.server.rss() - before
    assert more < 12 << 20, more


def serve(tmp, *options):
    return Tandem(MODEL, "--name", "tiny", "--api-key-file", tmp / "keys", "--data-dir",
                  tmp / "data", "--no-access-log", "--kv-memory", "8M", "--max-lora-rank", "16",
                  *options)


def first_life(tmp, cases):
    with serve(tmp, "--file-bytes-max", FILE_MOST) as s:
        c, other, low, data = Client(s), Client(s, BOB), Client(s, LOW), tmp / "data"
        cases.run("files are kept", lambda: files_are_kept(c, data))
        cases.run("names are data", lambda: names_are_data(c))
        cases.run("files are refused", lambda: files_are_refused(c, data))
        cases.run("files expire", lambda: files_expire(c))
        cases.run("file lists", lambda: file_lists_page(c))
        file = c.file(rows(12))
        cases.run("jobs are refused", lambda: jobs_refuse(c, file))
        done = {}
        cases.run("a job succeeds", lambda: done.update(job_succeeds(c, file)))
        cases.run("strangers", lambda: strangers(c, other, low, file, done["id"]))
        cases.run("events", lambda: events_page(c, done["id"]))
        cases.run("checkpoints",
                  lambda: checkpoints_are_there(c, done["id"], done["fine_tuned_model"]))
        cases.run("a model is deleted",
                  lambda: model_is_deleted(c, other, done["fine_tuned_model"]))
        cases.run("jobs fail", lambda: jobs_fail(c))
        cases.run("lists", lambda: lists_and_filters(c))
        cases.run("validated beside what runs", lambda: validated_beside_what_runs(c, tmp / "data"))
        cases.run("retries", lambda: retries_find_the_first(c))
        cases.run("cancel", lambda: cancel(c))
        straight = c.curve(c.done(c.job(file, **LONG)))
        cases.run("pause", lambda: pause(c, file, straight))
        last = c.job(file, hyperparameters={"n_epochs": 2})
        c.done(last)
        cases.run("answers fit", lambda: answers_fit(c, file, last))
        return file, straight


def lives_on(tmp, cases, file, straight):
    """Killed in the middle of a job, started again: the job goes on and ends as it would have."""
    with serve(tmp) as s:
        c = Client(s)
        cases.run("a large upload", lambda: large_upload_is_flat(c))
        job = c.job(file, **LONG)
        c.wait_step(job, 20)
        s.stop(signal.SIGKILL)
        s.process.returncode = 0
    with serve(tmp) as s:
        c = Client(s)

        def goes_on():
            j = c.look(job)
            assert j["status"] not in ("failed", "cancelled"), j
            j = c.done(job)
            assert c.curve(j) == straight
            assert c.say(j["fine_tuned_model"]).status == 200
        cases.run("killed in the middle", goes_on)


def killed_anywhere(tmp, cases):
    """Killed while files and jobs are made: what was acknowledged is there, and nothing else is."""
    files, jobs = {}, {}  # the bytes of a file; whether a job's has rows enough

    def work(s, seconds):
        c, end = Client(s), time.monotonic() + seconds
        timer = threading.Timer(seconds, s.process.kill)
        timer.start()
        with contextlib.suppress(OSError, http.client.HTTPException):
            while time.monotonic() < end + 5:
                n = 9 + len(files) % 3
                file = c.file(rows(n))
                files[file] = rows(n)
                jobs[c.job(file, hyperparameters={"n_epochs": 1})] = n > 9
        timer.join()
        s.process.wait()
        s.process.returncode = 0

    def lives():
        for i in range(4):
            with serve(tmp) as s:
                work(s, 0.05 + 0.1 * i)
        (tmp / "data/files/file-of-nobody").write_bytes(b"written, not entered")
        with serve(tmp) as s:
            c = Client(s)
            for file, data in files.items():
                assert c.get(f"/v1/files/{file}/content").body == data
            seen = [(enough, c.wait(job)["status"]) for job, enough in jobs.items()]
            assert (True, "succeeded") in seen or True not in jobs.values(), seen
            assert (False, "succeeded") not in seen, seen
            for job in c.get(f"{JOBS}?limit=100").json["data"]:
                c.wait(job["id"])  # those too whose creation was not answered any more
            entered = {f["id"] for f in c.get("/v1/files").json["data"]}
            lie = {p.name for p in (tmp / "data/files").iterdir()}
            lie -= {f"{name}.json" for name in entered}
            assert entered == lie, (entered - lie, lie - entered)
        with contextlib.closing(sqlite3.connect(tmp / "data/store.db")) as db:
            assert db.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        return f"{len(files)} files, {len(jobs)} jobs"
    cases.run("killed anywhere", lives)


def off(cases):
    with Tandem(MODEL, "--no-access-log") as s:
        def refused():
            body, headers = form({"purpose": "fine-tune"}, b"x")
            for r in (s.get("/v1/files"), s.get(JOBS), s.ask("POST", "/v1/files", body, **headers)):
                assert r.status == 403 and "--data-dir" in r.error["message"], r
        cases.run("off without --data-dir", refused)


def main():
    cases = Cases()
    with scratch() as tmp:
        (tmp / "keys").write_text(KEYS)
        (tmp / "keys").chmod(0o600)
        off(cases)
        file, straight = first_life(tmp, cases)
        lives_on(tmp, cases, file, straight)
        killed_anywhere(tmp, cases)
    return cases.end()


if __name__ == "__main__":
    sys.exit(main())
