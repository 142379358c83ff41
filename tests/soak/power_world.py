# SPDX-License-Identifier: Apache-2.0
"""What clients do to a server whose disk is watched (tests/fake/preload/disk_log.c), and what they were
told: the moments, as places in the log, from which on each thing must be there, may be gone, and must
be gone. test_power_cuts.py holds it against what a cut leaves."""
import json
import os
import pathlib
import signal
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "lib"))
sys.path.insert(0, str(HERE.parent / "server"))
from serving import BUILD, SLOW, Tandem  # noqa: E402
from test_full_disk import shape  # noqa: E402
from test_tuning import JOBS, MODEL, Client, rows  # noqa: E402

SHIM = BUILD.resolve() / "tests/fake/preload/disk_log.so"
HYPER = {"n_epochs": 4, "batch_size": 6, "learning_rate_multiplier": 20}
KEY = {"Authorization": "Bearer ann-key-ann-key"}
KEYS = "ann all ann-key-ann-key\n", "ann all ann-key-ann-key rpm=60000\nbob all bob-key-bob-key\n"
OPTIONS = ("--name", "tiny", "--no-access-log", "--kv-memory", "8M", "--max-lora-rank", "16", "--max-seqs", "4")
BATCH_ENDS = ("completed", "failed", "expired", "cancelled")


def serve(data, keys, env=None):
    return Tandem(MODEL, "--data-dir", data, "--api-key-file", keys, *OPTIONS, env=env)


class Thing:
    """The places in the log behind which it was acknowledged, was asked to go, and was said to be gone."""

    def __init__(self, made, what=None):
        self.made, self.asked, self.gone, self.what = made, None, None, what
        self.is_held = False  # its bytes stay for a job

    def must_be(self, at):
        return self.made <= at and (self.asked is None or at <= self.asked)

    def must_not_be(self, at):
        return self.gone is not None and self.gone <= at


def lines(n):
    return [{"custom_id": f"line-{i}", "method": "POST", "url": "/v1/completions",
             "body": {"prompt": "a b", "max_tokens": 6, "temperature": 1, "seed": i}} for i in range(n)]


def answers(client, file):
    """custom_id -> text, of a batch's file; each of them once."""
    got = [json.loads(x) for x in client.get(f"/v1/files/{file}/content").body.splitlines()]
    texts = {x["custom_id"]: x["response"]["body"]["choices"][0]["text"] for x in got}
    assert len(texts) == len(got), "a line is answered twice"
    return texts


class World:
    def __init__(self, tmp):
        self.tmp, self.data, self.log, self.keys = tmp, tmp / "data", tmp / "disk.log", tmp / "keys"
        self.data.mkdir()
        self.keys.write_text(KEYS[0], encoding="ascii")
        self.files, self.jobs, self.models, self.batches, self.responses, self.parts = {}, {}, {}, {}, {}, {}
        self.seen = []  # (place, job, its events)
        self.c = None
        self.env = {"LD_PRELOAD": str(SHIM), "DISK_LOG_DIR": str(self.data), "DISK_LOG_FILE": str(self.log),
                    "ASAN_OPTIONS": os.environ.get("ASAN_OPTIONS", "") + ":verify_asan_link_order=0"}

    def at(self):
        """How much the disk has been told: what was answered before is in it."""
        return os.stat(self.log).st_size if self.log.exists() else 0

    # ---- what is asked

    def upload(self, data, purpose="fine-tune"):
        r = self.c.send(data, {"purpose": purpose})
        assert r.status == 200, r
        self.files[r.json["id"]] = Thing(self.at(), data)
        return r.json["id"]

    def begin(self, size):
        r = self.c.ask("POST", "/v1/uploads", {"filename": "a", "purpose": "fine-tune", "bytes": size,
                                               "mime_type": "text/plain"})
        assert r.status == 200, r
        return r.json["id"]

    def part(self, upload, data):
        body = b'--x\r\nContent-Disposition: form-data; name="data"\r\n\r\n' + data + b"\r\n--x--\r\n"
        r = self.c.ask("POST", f"/v1/uploads/{upload}/parts", body, **{"Content-Type": "multipart/form-data; boundary=x"})
        assert r.status == 200, r
        self.parts[r.json["id"]] = Thing(self.at(), data)
        return r.json["id"]

    def join(self, upload, parts):
        """From here on its parts may go, and the file is there."""
        for part in parts:
            self.parts[part].asked = self.at()
        r = self.c.ask("POST", f"/v1/uploads/{upload}/complete", {"part_ids": parts})
        assert r.status == 200, r
        self.files[r.json["file"]["id"]] = Thing(self.at(), b"".join(self.parts[p].what for p in parts))

    def give_up(self, upload, parts):
        for part in parts:
            self.parts[part].asked = self.at()
        assert self.c.ask("POST", f"/v1/uploads/{upload}/cancel", b"").status == 200
        for part in parts:
            self.parts[part].gone = self.at()

    def drop(self, things, name, path):
        thing = things[name]
        thing.asked = self.at()
        assert self.c.ask("DELETE", f"{path}/{name}").status == 200
        thing.gone = self.at()

    def job(self, file):
        job = self.c.job(file, hyperparameters=HYPER, seed=3)
        self.jobs[job] = Thing(self.at())
        return job

    def look(self, job):
        events = [[e["type"], e["message"]] for e in self.c.get(f"{JOBS}/{job}/events?limit=1000").json["data"]]
        self.seen.append((self.at(), job, events[::-1]))

    def published(self, job):
        """It has ended: its model and its checkpoints answer."""
        j = self.c.wait(job)
        assert j["status"] == "succeeded", j
        at = self.at()
        self.jobs[job].what = at
        for p in self.c.get(f"{JOBS}/{job}/checkpoints").json["data"]:
            self.models[p["fine_tuned_model_checkpoint"]] = Thing(at)
        self.models[j["fine_tuned_model"]] = Thing(at)
        for file in j["result_files"]:
            self.files[file] = Thing(at, self.c.get(f"/v1/files/{file}/content").body)
        self.look(job)
        return j["fine_tuned_model"]

    def batch(self, n):
        file = self.upload("".join(json.dumps(x) + "\n" for x in lines(n)).encode(), "batch")
        r = self.c.ask("POST", "/v1/batches", {"input_file_id": file, "endpoint": "/v1/completions",
                                               "completion_window": "24h"})
        assert r.status == 200, r
        self.batches[r.json["id"]] = Thing(self.at())
        return r.json["id"]

    def batch_done(self, batch):
        end = time.monotonic() + 120 * SLOW
        while (b := self.c.get(f"/v1/batches/{batch}").json)["status"] not in BATCH_ENDS:
            assert time.monotonic() < end, b
            time.sleep(0.01)
        assert b["status"] == "completed", b
        self.batches[batch].what = self.at()
        return b

    def respond(self):
        r = self.c.ask("POST", "/v1/responses", {"model": "tiny", "input": "a b", "max_output_tokens": 4})
        assert r.status == 200, r
        self.responses[r.json["id"]] = Thing(self.at())
        return r.json["id"]

    # ---- three lives of a server

    def first(self, s):
        self.c = Client(s, KEY)
        train = self.upload(rows(12))
        few = self.upload(rows(3))
        up = self.begin(9000)
        self.join(up, [self.part(up, b"a" * 5000), self.part(up, b"b" * 4000)][::-1])
        job = self.job(train)
        self.look(job)
        self.drop(self.files, few, "/v1/files")
        batch = self.batch(8)
        kept = self.respond()
        self.look(job)
        model = self.published(job)
        self.batch_done(batch)
        self.drop(self.models, f"{model}:ckpt-step-2", "/v1/models")
        self.keys.write_text(KEYS[1], encoding="ascii")
        s.process.send_signal(signal.SIGHUP)
        self.drop(self.responses, kept, "/v1/responses")
        second = self.job(train)
        self.c.wait_step(second, 2)
        self.look(second)
        return train, model, second

    def second(self, s, train, job):
        self.c = Client(s, KEY)
        self.look(job)
        self.files[train].is_held = True
        self.drop(self.files, train, "/v1/files")
        batch = self.batch(40)
        ups = [self.begin(7) for _ in range(2)]
        parts = [[self.part(up, b"abc")] for up in ups]
        self.published(job)
        self.respond()
        return batch, ups, parts

    def third(self, s, model, batch, ups, parts):
        self.c = Client(s, KEY)
        self.join(ups[0], [*parts[0], self.part(ups[0], b"defg")])
        self.give_up(ups[1], [*parts[1], self.part(ups[1], b"defg")])
        last = self.job(self.upload(rows(12)))
        self.jobs[last].asked = self.at()
        assert self.c.ask("POST", f"{JOBS}/{last}/cancel").status == 200
        self.jobs[last].gone = self.at()
        self.drop(self.models, model, "/v1/models")
        self.batch_done(batch)

    def live(self):
        with serve(self.data, self.keys, self.env) as s:
            train, model, job = self.first(s)
        s = serve(self.data, self.keys, self.env)
        rest = self.second(s, train, job)
        s.process.kill()
        s.process.wait()
        with serve(self.data, self.keys, self.env) as s:
            self.third(s, model, *rest)

    def straight(self):
        """The same job and batch, where nothing comes between."""
        with serve(self.tmp / "straight", self.keys) as s:
            self.c = Client(s, KEY)
            job = self.c.done(self.c.job(self.c.file(rows(12)), hyperparameters=HYPER, seed=3))
            wanted = shape(self.c, job["id"])
            b = self.batch_done(self.batch(40))
            texts = answers(self.c, b["output_file_id"])
        for things in (self.files, self.batches):
            things.clear()
        return wanted, texts
