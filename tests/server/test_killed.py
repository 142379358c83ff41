#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A server that is killed (SIGKILL) at any moment, again and again on one data directory, among
uploads, creations, cancellations, pauses, deletions, and jobs between their first event and the
switch that publishes them. Each time it is started again, all that was acknowledged is there, what
was not is there whole or not at all, and the database is sound; in the end every job has the events,
the losses, the checkpoints and the model of one that was let be.

Faults they can catch: an acknowledged thing that is lost, or one taken back that returns; a state
that no client was told and no event explains; a step that is told twice or never; a checkpoint that
is missing or is there twice; a result that depends on the kill.

What is asked for, and when a kill comes, is drawn from a seed that the result names, good or bad;
TEST_SEED=N draws the same again. Which instant of the server's work a kill meets is still the
machine's to say. TEST_FAULTS=full kills 200 times; otherwise 8; TEST_KILLS=N says how often. Standard library only."""
import contextlib
import http.client
import os
import pathlib
import random
import shutil
import sqlite3
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "lib"))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from serving import SLOW, Cases, Tandem, scratch  # noqa: E402
from test_full_disk import shape  # noqa: E402
from test_tuning import ENDS, JOBS, MODEL, Client, rows  # noqa: E402

KILLS = int(os.environ.get("TEST_KILLS") or (200 if os.environ.get("TEST_FAULTS") == "full" else 8))
HYPER = {"n_epochs": 5, "batch_size": 4, "learning_rate_multiplier": 20}
OPEN_MOST, FILES_MOST = 3, 60  # each file is read again behind each kill
SEED = int(os.environ.get("TEST_SEED") or random.SystemRandom().randrange(1 << 32))


def serve(tmp, **more):
    return Tandem(MODEL, "--name", "tiny", "--data-dir", tmp / "data", "--no-access-log",
                  "--kv-memory", "8M", "--max-lora-rank", "16", "--max-adapters", "32", "--jobs", "2", **more)


class World:
    """What was acknowledged, and what was asked for without an answer."""

    def __init__(self, tmp):
        self.tmp, self.c = tmp, None
        self.plan, self.random = random.Random(SEED), None  # of the kills; of what is done before one
        self.files, self.dropped = {}, set()     # id: bytes; acknowledged, or asked for
        self.jobs, self.cancelled = {}, set()    # id: the newest events that were seen
        self.maybe = set()                       # things that were asked to be gone, or ended
        self.done = set()                        # jobs that were looked at in full
        self.data = rows(12)
        self.count = {}

    # ---- what clients do

    def upload(self):
        if len(self.files) >= FILES_MOST:
            self.delete()
            return
        data = rows(self.random.randrange(1, 40))
        self.files[self.c.file(data)] = data

    def create(self):
        if len([j for j in self.jobs if j not in self.done]) < OPEN_MOST:
            job = self.c.job(self.train, hyperparameters=HYPER, seed=3)
            self.jobs[job] = []

    def some(self, things):
        things = sorted(things)
        return self.random.choice(things) if things else None

    def delete(self):
        file = self.some(set(self.files) - self.maybe - {self.train})
        if file:
            self.maybe.add(file)
            assert self.c.ask("DELETE", f"/v1/files/{file}").status == 200
            self.dropped.add(file)
            del self.files[file]

    def change(self, what):
        job = self.some(set(self.jobs) - self.done - self.maybe)
        if job:
            if what == "cancel":
                self.maybe.add(job)
            r = self.c.ask("POST", f"{JOBS}/{job}/{what}")
            assert r.status in (200, 400), r
            if r.status == 200 and r.json["status"] == "cancelled":
                self.cancelled.add(job)

    def look(self):
        job = self.some(set(self.jobs) - self.done)
        if job:
            self.jobs[job] = self.events(job)

    def events(self, job):
        return self.c.get(f"{JOBS}/{job}/events?limit=1000").json["data"][::-1]

    def live(self, s, seconds):
        """Asks for this and that until the server is killed."""
        acts = [self.upload, self.create, self.create, self.look, self.look, self.delete,
                lambda: self.change("cancel"), lambda: self.change("pause"),
                lambda: self.change("resume"), lambda: self.change("resume")]
        weights = [2, 3, 3, 3, 3, 1, 0.3, 1, 2, 2]
        timer = threading.Timer(seconds, s.process.kill)
        timer.start()
        with contextlib.suppress(OSError, http.client.HTTPException):
            while True:
                act, = self.random.choices(acts, weights)
                act()
                self.count["asked"] = self.count.get("asked", 0) + 1
        timer.join()
        s.process.wait()

    # ---- what must be so

    def sound(self):
        """Of a copy, so that what the server does about its log is the server's."""
        copy = self.tmp / "copy"
        copy.mkdir()
        for p in (self.tmp / "data").glob("store.db*"):
            shutil.copy(p, copy)
        with contextlib.closing(sqlite3.connect(copy / "store.db")) as db:
            assert db.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
            assert db.execute("PRAGMA foreign_key_check").fetchall() == []
        shutil.rmtree(copy)

    def check_files(self):
        listed = {f["id"] for f in self.c.get("/v1/files").json["data"]}
        lie = {p.name for p in (self.tmp / "data/files").iterdir()}
        assert listed <= lie, listed - lie
        for file, data in list(self.files.items()):
            assert file in listed or file in self.maybe, f"{file} is lost"
            self.maybe.discard(file)  # from here on it is there for good, or gone
            if file in listed:
                assert self.c.get(f"/v1/files/{file}/content").body == data, file
            else:
                self.dropped.add(file)
                del self.files[file]
        assert not listed & self.dropped, f"back again: {listed & self.dropped}"

    def check_job(self, job, seen):
        j, now = self.c.look(job), self.events(job)
        assert now[:len(seen)] == seen, (job, "what was told has changed")
        self.jobs[job] = now
        assert j["status"] == "cancelled" or job not in self.cancelled, j
        assert j["status"] in ("succeeded", "validating_files", "queued", "running", "paused") or \
            (j["status"] == "cancelled" and job in self.maybe), j
        assert (j["finished_at"] is not None) is (j["status"] in ENDS), j
        if j["status"] == "cancelled":
            assert now[-1]["message"] == "Fine-tuning job cancelled", now[-1]
        if j["status"] == "succeeded":
            got = shape(self.c, job)
            assert got == self.straight, (job, {k: (v, self.straight[k]) for k, v in got.items()
                                                if v != self.straight[k]})
            self.count["succeeded"] = self.count.get("succeeded", 0) + 1
        if j["status"] in ENDS:  # so that there is room for the others
            self.done.add(job)
            for p in self.c.get(f"{JOBS}/{job}/checkpoints").json["data"]:
                model = p["fine_tuned_model_checkpoint"]
                assert self.c.ask("DELETE", f"/v1/models/{model}").status == 200, model
            for file in set(j["result_files"]) - set(self.files):
                assert self.c.ask("DELETE", f"/v1/files/{file}").status == 200, file

    def list_jobs(self):
        """Of all pages."""
        listed, page = set(), {"has_more": True, "data": []}
        while page["has_more"]:
            after = f"&after={page['data'][-1]['id']}" if page["data"] else ""
            page = self.c.get(f"{JOBS}?limit=1000{after}").json
            listed |= {j["id"] for j in page["data"]}
        return listed

    def check(self, s):
        self.c = Client(s, {})
        self.check_files()
        listed = self.list_jobs()
        assert set(self.jobs) <= listed, f"lost: {set(self.jobs) - listed}"
        for job in sorted(listed - set(self.jobs)):  # made, and killed before the answer
            self.jobs[job] = []
        for job, seen in list(self.jobs.items()):
            if job not in self.done:
                self.check_job(job, seen)

    def begin(self):
        with serve(self.tmp) as s:
            self.c = Client(s, {})
            self.train = self.c.file(self.data)
            self.files[self.train] = self.data
            job = self.c.done(self.c.job(self.train, hyperparameters=HYPER, seed=3))
            self.straight = shape(self.c, job["id"])
            assert len(self.straight["steps"]) == 15, self.straight
            self.files[job["result_files"][0]] = self.straight["curve"]
            self.jobs[job["id"]] = self.events(job["id"])

    def one_kill(self):
        # whatever was asked before the last kill, this one draws the same
        self.random = random.Random(self.plan.getrandbits(64))
        in_start, share = self.plan.random() < 0.15, self.plan.random()
        if in_start:  # in the midst of the start
            s = serve(self.tmp, waits=False)
            time.sleep(0.3 * share * SLOW)
            s.process.kill()
            s.process.wait()
        else:
            s = serve(self.tmp)
            self.check(s)
            self.live(s, 0.5 * share * SLOW)
        self.sound()

    def end(self):
        """All is let come to its end."""
        with serve(self.tmp) as s:
            self.check(s)
            end = time.monotonic() + 120 * SLOW
            while any(j not in self.done for j in self.jobs):
                assert time.monotonic() < end, [self.c.look(j) for j in self.jobs
                                                if j not in self.done]
                for job in set(self.jobs) - self.done:
                    if self.c.look(job)["status"] == "paused":
                        self.c.ask("POST", f"{JOBS}/{job}/resume")
                    self.check_job(job, self.jobs[job])
                time.sleep(0.02)
            listed = {f["id"] for f in self.c.get("/v1/files").json["data"]}
            lie = {p.name for p in (self.tmp / "data/files").iterdir()}
            assert listed == lie - {f"{name}.json" for name in listed}, (listed, lie)


def killed(tmp):
    w = World(tmp)
    w.begin()
    for _ in range(KILLS):
        w.one_kill()
    w.end()
    return (f"{KILLS} kills among {w.count.get('asked', 0)} requests: {len(w.files)} files, "
            f"{w.count['succeeded']} jobs as the straight one, {len(w.cancelled)} cancelled")


def main():
    cases = Cases()
    with scratch() as tmp:
        cases.run(f"killed anywhere, TEST_SEED={SEED}", lambda: killed(tmp))
    return cases.end()


if __name__ == "__main__":
    sys.exit(main())
