#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A disk that is full at each write in turn: of an upload, a creation, a deletion, and a job from its
first event to the model that it publishes. tests/fake/preload/full_disk.c, loaded before the C
library, lets the k-th write below the data directory fail, and those behind it (or it alone).

Faults they can catch: something acknowledged that is not on the disk; something refused that stays;
an error that does not say what it is; a server that ends, or does not go on when there is room
again; a job that is lost, called succeeded or failed, repeats a step or leaves one out, stays paused
where there is room, and a result that is not that of a job that had room; a full disk from which
nothing can be deleted.

TEST_FAULTS=full tries each write; otherwise a job is tried at some. Standard library only."""
import contextlib
import mmap
import os
import pathlib
import signal
import sqlite3
import struct
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "lib"))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from serving import BUILD, SLOW, Cases, Tandem, scratch, waiting  # noqa: E402
from test_tuning import ENDS, JOBS, MODEL, Client, rows  # noqa: E402

SHIM = BUILD.resolve() / "tests/fake/preload/full_disk.so"
NEVER = 2**62
FULL = os.environ.get("TEST_FAULTS") == "full"
HYPER = {"n_epochs": 4, "batch_size": 6, "learning_rate_multiplier": 20}


class Disk:
    """The numbers that the server's writes go by."""

    def __init__(self, tmp):
        self.dir, ctl = tmp / "data", tmp / "ctl"
        ctl.write_bytes(struct.pack("4q", 0, NEVER, NEVER, -1))
        with open(ctl, "r+b") as f:
            self.map = mmap.mmap(f.fileno(), 32)
        self.env = {"LD_PRELOAD": str(SHIM), "FULL_DISK_DIR": str(self.dir),
                    "FULL_DISK_CTL": str(ctl),
                    "ASAN_OPTIONS": os.environ.get("ASAN_OPTIONS", "") + ":verify_asan_link_order=0"}

    def seen(self):
        return struct.unpack("q", self.map[:8])[0]

    def fill(self, k=0, n=NEVER):
        """From the k-th write from now on, n of them fail."""
        at = self.seen() + k
        self.map[8:24] = struct.pack("2q", NEVER, at + n)
        self.map[8:16] = struct.pack("q", at)

    def free(self):
        self.map[8:16] = struct.pack("q", NEVER)

    def room(self, n):
        """What the server is told that the disk has left; -1: what is so."""
        self.map[24:32] = struct.pack("q", n)

    @property
    def reserve(self):
        return self.dir / "reserve"

    def serve(self, *options, below=""):
        return Tandem(MODEL, "--name", "tiny", "--data-dir", self.dir, "--no-access-log",
                      "--kv-memory", "8M", "--max-lora-rank", "16", *options,
                      env={**self.env, "FULL_DISK_DIR": str(self.dir / below)})


class World:
    def __init__(self, server, disk):
        self.c, self.disk = Client(server, {}), disk

    def files(self):
        """What is listed is what lies there."""
        listed = {f["id"]: f for f in self.c.get("/v1/files").json["data"]}
        lie = {p.name for p in (self.disk.dir / "files").iterdir()}
        lie -= {f"{name}.json" for name in listed}  # the notes beside them
        assert set(listed) == lie, (set(listed) ^ lie)
        return listed

    def settled(self):
        """The same, when what was refused has been cleared away behind its answer."""
        end = time.monotonic() + 60 * SLOW
        while True:
            try:
                return self.files()
            except AssertionError:
                if time.monotonic() > end:
                    raise
                time.sleep(0.02)

    def sweep(self, act, check, more=0):
        """act() with the disk full from its k-th write on, and no reserve, for each k: how many it has.
        What it leaves to others is tried at `more` writes behind it."""
        for k in range(200):
            self.disk.reserve.unlink(missing_ok=True)
            before = self.disk.seen()
            self.disk.fill(k)
            r = act()
            used = self.disk.seen() - before
            alive = self.c.say("tiny")
            self.disk.free()
            assert alive.status == 200, alive
            if r.status != 200:
                assert r.status == 507 and r.error["code"] == "no_space", (k, r)
                assert "disk is full" in r.error["message"], r
                assert r.headers["x-should-retry"] == "false", r.headers
            check(r)
            more -= r.status == 200
            if used <= k or more < 0:
                assert r.status == 200, (k, used, r)
                return f"{k} writes"
        raise AssertionError("it does not end")


def uploads(w):
    data = rows(12)
    before = set(w.settled())

    def check(r):
        new = set(w.settled()) - before
        assert new == ({r.json["id"]} if r.status == 200 else set()), (r, new)
        for f in new:
            assert w.c.get(f"/v1/files/{f}/content").body == data
            assert w.c.ask("DELETE", f"/v1/files/{f}").status == 200
    return w.sweep(lambda: w.c.send(data), check)


def uploads_in_parts(w):
    """Each request of an upload in turn. What was refused may be asked again, and comes to the same."""
    headers = {"Content-Type": "multipart/form-data; boundary=x"}
    body = b'--x\r\nContent-Disposition: form-data; name="data"\r\n\r\nabc\r\n--x--\r\n'
    ask = {"begin": lambda: w.c.ask("POST", "/v1/uploads", {"filename": "a", "purpose": "fine-tune", "bytes": 3,
                                                             "mime_type": "text/plain"}),
           "part": lambda: w.c.ask("POST", f"/v1/uploads/{up}/parts", body, **headers),
           "complete": lambda: w.c.ask("POST", f"/v1/uploads/{up}/complete", {"part_ids": [part]}),
           "cancel": lambda: w.c.ask("POST", f"/v1/uploads/{up}/cancel", b"")}
    parts = w.disk.dir / "parts"
    up = part = tried = None

    def good(what):
        r = ask[what]()
        assert r.status == 200, (what, r)
        return r.json

    def made(what):
        """An upload of which only this is left to be asked."""
        nonlocal up, part, tried
        w.disk.free()
        up, part = good("begin")["id"], None
        if what in ("complete", "cancel"):
            part = good("part")["id"]
        w.disk.fill(tried)

    def act(what):
        nonlocal up, tried
        if what != "begin" and not up:
            made(what)
        tried = (tried or 0) + 1
        return ask[what]()

    def check(what, r):
        nonlocal up, part
        w.settled()
        assert len(list(parts.iterdir())) == (part is not None) or r.status == 200, (what, r, list(parts.iterdir()))
        if r.status != 200:
            return
        if what == "part":
            part = r.json["id"]
            assert (parts / part).read_bytes() == b"abc"
        if what == "complete":
            assert w.c.get(f"/v1/files/{r.json['file']['id']}/content").body == b"abc"
            assert w.c.ask("DELETE", f"/v1/files/{r.json['file']['id']}").status == 200
        else:
            up = r.json["id"] if what == "begin" else up
            good("cancel")
        assert not list(parts.iterdir()), (what, list(parts.iterdir()))
        up = part = None
    told = []
    for what in ask:
        up, tried = None, 0
        told.append(f"{what} " + w.sweep(lambda what=what: act(what), lambda r, what=what: check(what, r)))
    return ", ".join(told)


def creations(w):
    few = w.c.file(rows(2))
    before = {j["id"] for j in w.c.get(JOBS).json["data"]}

    def check(r):
        nonlocal before
        now = {j["id"] for j in w.c.get(f"{JOBS}?limit=1000").json["data"]}
        assert now - before == ({r.json["id"]} if r.status == 200 else set()), r
        before = now
        if r.status == 200:  # nobody could write down that its file is bad; now it is
            j = w.c.wait(r.json["id"])
            assert j["error"]["code"] == "invalid_n_examples", j
            texts = [e["message"] for e in w.c.get(f"{JOBS}/{j['id']}/events").json["data"]]
            assert texts[-1].startswith("Created") and texts[0].startswith("The job failed"), texts
    return w.sweep(lambda: w.c.make(few), check, more=3)


def deletions(w):
    def act():
        nonlocal file
        if not file:
            w.disk.free()
            file = w.c.file(b"x")
            w.disk.fill(len(tried))
        tried.append(file)
        return w.c.ask("DELETE", f"/v1/files/{file}")

    def check(r):
        nonlocal file
        assert (file in w.settled()) is (r.status != 200), r
        file = None if r.status == 200 else file
    file, tried = None, []
    file = w.c.file(b"x")
    return w.sweep(act, check)


def by_the_reserve(disk):
    """What makes room on a full disk has the reserve for it, until that is used up."""
    with disk.serve() as s:
        w = World(s, disk)
        end = time.monotonic() + 60 * SLOW
        while not disk.reserve.exists() or disk.reserve.stat().st_blocks * 512 < 1 << 20:
            assert time.monotonic() < end, list(disk.dir.iterdir())
            time.sleep(0.02)
        job = w.c.job(w.c.file(rows(12)), hyperparameters={**HYPER, "n_epochs": 50, "batch_size": 1})
        files = [w.c.file(b"x" * 1000) for _ in range(40)]
        w.c.wait(job, ("running",))
        disk.fill()
        assert w.c.send(rows(12)).error["code"] == "no_space"
        assert disk.reserve.exists()
        told = [w.c.ask("DELETE", f"/v1/files/{f}") for f in files]
        good = [r.status for r in told].index(507)
        assert good and {r.status for r in told[:good]} == {200} and not disk.reserve.exists(), told
        assert {r.error["code"] for r in told[good:]} == {"no_space"}, told
        disk.free()
        left = set(w.settled())
        assert set(files[good:]) <= left and not set(files[:good]) & left, (good, left)
        disk.reserve.write_bytes(b"")
        disk.fill()
        assert w.c.ask("POST", f"{JOBS}/{job}/cancel").status == 200
        disk.free()
        assert w.c.wait(job, ("cancelled",))["error"] is None
    return f"{good} files, a job"


def expiry(disk):
    """A file whose time is over goes on a full disk, too: the least writes with which a server starts."""
    with disk.serve() as s:
        file = World(s, disk).c.file(b"x" * 1000)
    with contextlib.closing(sqlite3.connect(disk.dir / "store.db")) as db, db:
        assert db.execute("UPDATE file SET expires = 1 WHERE id = ?", (file,)).rowcount == 1
    for k in range(100):
        disk.reserve.write_bytes(b"")
        disk.fill(k)
        try:
            s = disk.serve()
        except AssertionError as why:
            assert "data directory" in str(why), why
            continue
        with s:
            w = World(s, disk)
            end = time.monotonic() + 60 * SLOW
            while file in w.settled():
                assert time.monotonic() < end, (k, s.said())
                time.sleep(0.02)
        disk.free()
        return f"{k} writes"
    raise AssertionError("it never starts")


def shape(c, job):
    """What of a job must not depend on the disk. Checkpoints and messages come once."""
    j = c.look(job)
    events = c.get(f"{JOBS}/{job}/events?limit=1000").json["data"][::-1]
    steps = [(e["data"]["step"], e["data"]["train_loss"]) for e in events if e["type"] == "metrics"]
    points = [(p["step_number"], p["metrics"]) for p in c.get(f"{JOBS}/{job}/checkpoints").json["data"]]
    made = [e["message"].split(":")[0] for e in events if "created" in e["message"].lower()]
    said = c.say(j["fine_tuned_model"]).json["choices"]
    return {"curve": c.get(f"/v1/files/{j['result_files'][0]}/content").body, "steps": steps,
            "checkpoints": points, "made": made, "tokens": j["trained_tokens"], "said": said}


def one_job(w, file, more, k, n):
    """A job that finds the disk full at its k-th write; whether it did."""
    before = w.disk.seen()
    w.disk.fill(k, n)
    r = w.c.make(file, **more)
    if r.status != 200:
        w.disk.free()
        return None, True
    job, end = r.json["id"], time.monotonic() + 120 * SLOW
    while w.disk.seen() - before <= k and w.c.look(job)["status"] != "succeeded":
        assert time.monotonic() < end, w.c.look(job)
        time.sleep(0.005)
    hit = w.disk.seen() - before > k
    j = w.c.look(job)
    assert j["status"] not in ("failed", "cancelled"), j
    assert w.c.say("tiny").status == 200
    time.sleep(0.05 if n > 1 else 0)
    w.disk.free()
    if n > 1:  # its owner may be faster than the server
        r = w.c.ask("POST", f"{JOBS}/{job}/resume")
        assert r.status == 200 or r.error["code"] == "invalid_job_state", r
    j = w.c.done(job)
    halts = [e for e in w.c.get(f"{JOBS}/{job}/events?limit=1000").json["data"] if "paused" in e["message"]]
    assert all(e["level"] == "error" and "disk is full" in e["message"] for e in halts), halts
    assert j["error"] is None, j
    return job, hit


def jobs(w, n_try):
    file = w.c.file(rows(12))
    more = {"validation_file": w.c.file(rows(5)), "hyperparameters": HYPER, "seed": 5}
    before = w.disk.seen()
    straight = shape(w.c, w.c.done(w.c.job(file, **more))["id"])
    all_writes = w.disk.seen() - before
    hits, k = 0, 0
    tries = range(0, all_writes + 8) if FULL else range(1, all_writes, max(1, all_writes // n_try))
    for i, k in enumerate(tries):
        n = (NEVER, 1)[i % 2]
        job, hit = one_job(w, file, more, k, n)
        hits += hit
        if job:
            now = shape(w.c, job)
            assert now == straight, (k, n, {x: (now[x], straight[x]) for x in now
                                            if now[x] != straight[x]})
            name = w.c.look(job)["fine_tuned_model"]
            for model in (name, *(f"{name}:ckpt-step-{s}" for s, _ in straight["checkpoints"])):
                w.c.ask("DELETE", f"/v1/models/{model}")
    w.settled()
    assert hits, "nothing writes by the library's numbers"
    return f"{hits} of {all_writes} writes"


def waits_for_room(disk):
    """A job that a full disk paused stays so while there is no room, over a restart too, and goes on by
    itself when there is."""
    with disk.serve() as s:
        w = World(s, disk)
        file = w.c.file(rows(12))
        before = disk.seen()
        straight = shape(w.c, w.c.done(w.c.job(file, hyperparameters=HYPER, seed=5))["id"])
        disk.room(0)
        disk.fill((disk.seen() - before) // 2, 1)
        job = w.c.job(file, hyperparameters=HYPER, seed=5)
        j = w.c.wait(job, ("paused",))
        assert j["error"] is None and j["fine_tuned_model"] is None, j
    with disk.serve() as s:
        w = World(s, disk)
        w.c.done(w.c.job(file, hyperparameters=HYPER, seed=5))
        assert w.c.look(job)["status"] == "paused", w.c.look(job)
        disk.room(-1)
        w.c.done(job)
        assert shape(w.c, job) == straight
        texts = [e["message"] for e in w.c.get(f"{JOBS}/{job}/events?limit=1000").json["data"]]
        assert sum("paused" in t for t in texts) == sum("disk has room" in t for t in texts) == 1, texts


def all_go_on(disk):
    """However many jobs a full disk pauses, and however many were paused, room lets all of them go on, and soon."""
    small = {**HYPER, "n_epochs": 1}
    with disk.serve("--key-jobs-waiting", "0", below="checkpoints") as s:
        w = World(s, disk)
        file = w.c.file(rows(12))
        disk.fill()
        many = [w.c.job(file, hyperparameters=small) for _ in range(12)]
        for j in many:
            w.c.wait(j, ("paused",))
        disk.free()
        for j in many:
            w.c.done(j)
        first = w.c.job(file, hyperparameters={**HYPER, "n_epochs": 50, "batch_size": 1})
        w.c.wait(first, ("running",))
        more = [w.c.job(file, hyperparameters=small) for _ in range(120)]
        for j in more:
            w.c.wait(j, ("queued",))
        w.c.ask("POST", f"{JOBS}/{first}/pause")
    with contextlib.closing(sqlite3.connect(disk.dir / "store.db")) as db, db:
        n = db.execute("UPDATE job SET error_code = 'no_space', state = (SELECT state FROM job WHERE id = ?) "
                       "WHERE finished = 0", (first,)).rowcount
    assert n > 100, n
    with disk.serve() as s:
        w = World(s, disk)
        for j in (first, *more):
            w.c.wait(j, ("queued", "running", *ENDS))
        w.c.ask("POST", f"{JOBS}/{first}/cancel")
    return f"{n} jobs"


def wishes_stand(disk):
    """Who pauses a job that a full disk has paused keeps it so; what was wished before the disk was full is so."""
    keys = disk.dir.parent / "keys"
    keys.write_text("ann all ann-key-ann-key-ann-key\n")
    long = {**HYPER, "n_epochs": 50, "batch_size": 1}
    with disk.serve("--api-key-file", keys) as s:
        c = Client(s)
        file = c.file(rows(12))
        disk.room(0)
        for k in range(40, 900, 20):  # not every write's fault halts a job
            disk.fill(k, 1)
            kept = c.job(file, hyperparameters=HYPER)
            if c.wait(kept, ("paused", *ENDS))["status"] == "paused":
                break
        assert c.ask("POST", f"{JOBS}/{kept}/pause").json["status"] == "paused"
        disk.room(-1)
        jobs = [c.job(file, hyperparameters=long) for _ in range(2)]
        c.wait(jobs[0], ("running",))
        keys.write_text("root all root-key-root-key\n")
        s.process.send_signal(signal.SIGHUP)
        for _ in waiting(60 * SLOW):
            if "a job waits" in s.said():
                break
    with contextlib.closing(sqlite3.connect(disk.dir / "store.db")) as db, db:
        running = db.execute("SELECT state FROM job WHERE id = ?", jobs[:1]).fetchone()
        for wish, job in zip(("cancel", "pause"), jobs):
            db.execute(f"UPDATE job SET state = ?, wants_{wish} = 1 WHERE id = ?", (*running, job))
    with disk.serve("--api-key-file", keys) as s:
        c = Client(s)
        disk.fill()
        keys.write_text("ann all ann-key-ann-key-ann-key\n")
        s.process.send_signal(signal.SIGHUP)
        for _ in waiting(60 * SLOW):
            if "cannot be stored" in s.said():
                break
        disk.free()
        c.wait(jobs[0], ("cancelled",))
        c.wait(jobs[1], ("paused",))
        c.done(c.job(file, hyperparameters=HYPER))
        time.sleep(3)
        assert c.look(jobs[1])["status"] == c.look(kept)["status"] == "paused", (c.look(jobs[1]), c.look(kept))
        for job in (kept, jobs[1]):
            assert c.ask("POST", f"{JOBS}/{job}/resume").status == 200
        c.done(kept)
        c.done(jobs[1])


def start(disk):
    """A server that cannot open its store says why, and opens it when there is room."""
    disk.fill()
    try:
        s = disk.serve()
    except AssertionError as why:
        assert "No space left" in str(why) or "disk" in str(why), why
        said = "it says why"
    else:
        assert s.stop() == 0, s.output()
        said = "it starts"
    finally:
        disk.free()
    with disk.serve() as s:
        assert s.get("/readyz").status == 200
    return said


def main():
    cases = Cases()
    with scratch() as tmp:
        disk = Disk(tmp)
        with disk.serve() as s:
            w = World(s, disk)
            cases.run("uploads", lambda: uploads(w))
            cases.run("uploads in parts", lambda: uploads_in_parts(w))
            cases.run("creations", lambda: creations(w))
            cases.run("deletions", lambda: deletions(w))
            cases.run("jobs", lambda: jobs(w, 10))
        with disk.serve("--tp", "2") as s:
            w = World(s, disk)
            cases.run("jobs of two ranks", lambda: jobs(w, 3))
        cases.run("by the reserve", lambda: by_the_reserve(disk))
        cases.run("expiry", lambda: expiry(disk))
        cases.run("a job waits for room", lambda: waits_for_room(disk))
        cases.run("all go on", lambda: all_go_on(disk))
        cases.run("wishes stand", lambda: wishes_stand(disk))
        with contextlib.closing(sqlite3.connect(disk.dir / "store.db")) as db:
            assert db.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        cases.run("the start", lambda: start(disk))
    return cases.end()


if __name__ == "__main__":
    sys.exit(main())
