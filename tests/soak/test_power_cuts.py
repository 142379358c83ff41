#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The power goes, at any moment of three lives of a server: uploads, in parts too, jobs with checkpoints, what they
publish, batches, deletions, keys that are read again, a SIGTERM and a SIGKILL in the midst. What its
disk was told is written down once; from that folders are made that a cut may leave (tests/lib/power.py:
what was not synced is lost, torn or kept in part, SQLite's own files too), and looked at.

Each is opened by `tandem doctor`, digests included, and its store read: sound, all there that was
acknowledged, nothing that was deleted. Of some the server is started: it starts, its jobs and batches go
on to their ends, and what comes of them is bitwise that of a straight run.

Faults they can catch: an answer before the sync that it stands on; a file renamed before its bytes are
down; a folder's entry that nobody synced; a deleted thing that returns; a start that a half-made
directory refuses; a checkpoint that is half there and believed.

    test_power_cuts.py [--cuts N] [--starts N] [--seed N] [--keep FOLDER]

draws other numbers; TEST_FAULTS=full is --cuts 5000 --starts 100. A fault names its cut, and --keep keeps
the folder of the first one."""
import argparse
import contextlib
import json
import os
import pathlib
import random
import shutil
import sqlite3
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
sys.path.insert(0, str(HERE.parent / "lib"))
sys.path.insert(0, str(HERE.parent / "server"))
from power import Disk, PowerLog  # noqa: E402
from power_world import BATCH_ENDS, KEY, World, answers, serve  # noqa: E402
from serving import BIN, SLOW, Cases, scratch  # noqa: E402
from test_tuning import ENDS, JOBS, Client  # noqa: E402

FULL = os.environ.get("TEST_FAULTS") == "full"
FAULTS_MOST = 20


class Cut:
    """A folder that a cut left, and what the world was told before."""

    def __init__(self, world, data, at):
        self.world, self.data, self.at = world, data, at

    # ---- as it lies there

    def look(self):
        self.doctor()
        with contextlib.closing(sqlite3.connect(self.data / "store.db")) as db:
            assert db.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
            self.rows(db)

    def doctor(self):
        p = subprocess.run([BIN, "doctor", "--data-dir", self.data], capture_output=True, text=True, check=False)
        said = p.stdout + p.stderr
        assert p.returncode in (0, 1), said
        amiss = [x for x in said.splitlines() if x.startswith("warning") and "without a row" not in x]
        assert not [x for x in amiss if str(self.data) in x or "row" in x or "altered" in x or "store" in x], said
        assert "the store has" in said, said

    def held(self, name, things, there):
        for key, thing in things.items():
            assert not thing.must_be(self.at) or key in there, f"{name} lost: {key}"
            assert not thing.must_not_be(self.at) or key not in there, f"{name} deleted, and there: {key}"

    def rows(self, db):
        def column(sql):
            return {x for x, in db.execute(sql)}
        self.held("file", self.world.files, column("SELECT id FROM file WHERE NOT is_dropped"))
        self.held("model", self.world.models, column("SELECT name FROM tuned"))
        self.held("response", self.world.responses, column("SELECT id FROM response"))
        for key, thing in self.world.files.items():
            lies = self.data / "files" / key
            if thing.must_be(self.at):
                assert lies.read_bytes() == thing.what, f"another file: {key}"
            for left in (lies.with_name(f"{key}.json"), *([] if thing.is_held else [lies])):
                assert not (thing.must_not_be(self.at) and left.exists()), f"a deleted file lies there: {left.name}"
        self.held("part", self.world.parts, column("SELECT upload_part.id FROM upload_part JOIN upload ON "
                                                   "upload.id = upload AND state = 0"))
        self.parts("parts")
        for name, things in (("job", self.world.jobs), ("batch", self.world.batches)):
            there = column(f"SELECT id FROM {name}")
            assert all(key in there for key, t in things.items() if t.made <= self.at), f"{name} lost"
        self.events(db)

    def parts(self, *folders):
        """What was acknowledged of an upload lies there; what was given up lies nowhere."""
        for key, thing in self.world.parts.items():
            if thing.must_be(self.at):
                assert (self.data / "parts" / key).read_bytes() == thing.what, f"another part: {key}"
            if thing.must_not_be(self.at):
                assert not any((self.data / x / key).exists() for x in folders), f"given up, and there: {key}"

    def events(self, db):
        for at, job, seen in self.world.seen:
            if at <= self.at:
                now = db.execute("SELECT type, message FROM event WHERE job = ? ORDER BY seq", (job,)).fetchall()
                assert [list(x) for x in now[:len(seen)]] == seen, (job, "what was told has changed")

    # ---- as a server goes on with it

    def start(self, straight, texts):
        with serve(self.data, self.world.keys) as s:
            c = Client(s, KEY)
            for job in self.jobs_to_their_end(c):
                self.same_job(c, job, straight)
            for batch in self.batches_to_their_end(c):
                assert batch["status"] == "completed", batch
                got = answers(c, batch["output_file_id"])
                assert got == {k: texts[k] for k in got} and len(got) == batch["request_counts"]["total"], batch
            for key, thing in self.world.files.items():
                r = c.get(f"/v1/files/{key}/content")
                assert not thing.must_be(self.at) or r.body == thing.what, (key, r)
                assert not thing.must_not_be(self.at) or r.status == 404, (key, r)
        self.parts("parts", "lost+found")
        with contextlib.closing(sqlite3.connect(self.data / "store.db")) as db:
            assert db.execute("PRAGMA integrity_check").fetchall() == [("ok",)]

    @staticmethod
    def jobs_to_their_end(c):
        end = time.monotonic() + 120 * SLOW
        while True:
            jobs = c.get(f"{JOBS}?limit=100").json["data"]
            if all(j["status"] in ENDS for j in jobs):
                return jobs
            assert time.monotonic() < end, jobs
            time.sleep(0.02)

    @staticmethod
    def batches_to_their_end(c):
        end = time.monotonic() + 120 * SLOW
        while True:
            batches = c.get("/v1/batches?limit=100").json["data"]
            if all(b["status"] in BATCH_ENDS for b in batches):
                return batches
            assert time.monotonic() < end, batches
            time.sleep(0.02)

    def same_job(self, c, job, straight):
        told = self.world.jobs.get(job["id"])
        if told and told.must_not_be(self.at):
            assert job["status"] == "cancelled", job
        if job["status"] == "cancelled":
            assert told and told.asked is not None, job
            return
        assert job["status"] == "succeeded", job
        events = c.get(f"{JOBS}/{job['id']}/events?limit=1000").json["data"][::-1]
        steps = [(e["data"]["step"], e["data"]["train_loss"]) for e in events if e["type"] == "metrics"]
        assert steps == straight["steps"] and job["trained_tokens"] == straight["tokens"], (job, steps)
        model = self.world.models.get(job["fine_tuned_model"])
        if not model or model.asked is None:
            assert c.say(job["fine_tuned_model"]).json["choices"] == straight["said"], job
        curve = self.world.files.get(job["result_files"][0])
        if not curve or curve.asked is None:
            assert c.curve(job) == straight["curve"], job


class Cuts:
    def __init__(self, tmp, opt):
        self.tmp, self.opt = tmp, opt
        self.world = World(tmp)
        self.straight, self.texts = self.world.straight()
        self.world.live()
        self.log = PowerLog(self.world.log)
        self.faults, self.hows, self.n_looked = [], {}, 0

    def first_ack(self):
        return min(t.made for t in self.world.files.values())

    def one(self, disk, k, draw, starts):
        data = self.tmp / "cut"
        how = disk.write(data, draw)
        self.hows[how] = self.hows.get(how, 0) + 1
        at = self.log.ends[k - 1] if k else 0
        if self.opt.keep:
            shutil.copytree(data, self.tmp / "before")
        try:
            cut = Cut(self.world, data, at)
            if at >= self.first_ack():
                cut.look()
                self.n_looked += 1
            if starts or at < self.first_ack():
                cut.start(self.straight, self.texts)
        except Exception as fault:  # an assertion, or what a damaged folder makes of a reader
            self.faults.append(f"cut {k} of {len(self.log)} ({how}): {type(fault).__name__}: {str(fault)[:1500]}")
            if self.opt.keep and len(self.faults) == 1:
                shutil.copytree(self.tmp / "before", self.opt.keep)
        for path in (data, self.tmp / "before"):
            shutil.rmtree(path, ignore_errors=True)

    def all(self):
        """The cuts in the order of their moments, so that the disk is gone through once."""
        plan = random.Random(self.opt.seed)
        early = sum(end < self.first_ack() for end in self.log.ends)
        begins = sorted(plan.sample(range(early), min(early, max(2, self.opt.starts // 4))))
        cuts = begins + sorted(plan.randint(early, len(self.log)) for _ in range(self.opt.cuts - len(begins)))
        started = set(plan.sample(range(len(begins), len(cuts)), min(self.opt.starts, len(cuts) - len(begins))))
        disk = Disk(self.log)
        for i, k in enumerate(cuts):
            disk.advance(k)
            self.one(disk, k, random.Random(self.opt.seed * 1000003 + i), i in started)
            if len(self.faults) >= FAULTS_MOST:
                break
        assert not self.faults, "\n  ".join([f"{len(self.faults)} faults", *self.faults])
        return (f"{len(cuts)} cuts of {len(self.log)} records ({json.dumps(self.hows)}): {self.n_looked} looked "
                f"at, {len(started) + len(begins)} started")


def main():
    ap = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    ap.add_argument("--cuts", type=int, default=5000 if FULL else 40)
    ap.add_argument("--starts", type=int, default=100 if FULL else 3)
    ap.add_argument("--seed", type=int, default=int(os.environ.get("TEST_SEED") or random.SystemRandom().randrange(1 << 32)))
    ap.add_argument("--keep", type=pathlib.Path, help="where the folder of the first fault goes")
    opt = ap.parse_args()
    cases = Cases()
    with scratch() as tmp:
        cases.run(f"power cuts, TEST_SEED={opt.seed}", lambda: Cuts(tmp, opt).all())
    return cases.end()


if __name__ == "__main__":
    sys.exit(main())
