#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Bad luck of all kinds, one life of a server after another on one data directory: clients that ask,
stream and leave in the midst, uploads, batches, jobs that are made, paused and cancelled; meanwhile
the disk is full or slow, the clock jumps, memory is short; in the end a SIGKILL or a SIGTERM. What was
acknowledged is known (test_killed.py's World, and here the batches) and looked for at each start, every text
must be the one that is given when nobody else asks, every job's steps, checkpoints and model those of a
straight run, and a batch answers each of its lines once. Every third life is that of a model of vectors, on
a data directory of its own: /v1/embeddings and batches of it, each vector to the bit.

Faults they can catch: something acknowledged that is lost, something refused that stays; a text that
depends on its neighbours or on luck; a server that ends where only memory or the disk was short, or does
not go on when there is room again; a state that lies.

    test_soak.py [--lives N] [--seconds S] [--seed N]

An hour: --lives 700 --seconds 4. What is asked for and what goes wrong is drawn by the seed; which instant
it meets is the machine's to say. Standard library only."""
import argparse
import contextlib
import http.client
import json
import mmap
import os
import pathlib
import random
import resource
import signal
import struct
import sys
import threading
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "lib"))
sys.path.insert(0, str(HERE.parent / "server"))
import test_killed  # noqa: E402
from attack import Raw, request  # noqa: E402
from serving import BUILD, MODE, SLOW, Cases, Tandem, scratch  # noqa: E402
from test_full_disk import SHIM, Disk  # noqa: E402
from test_tuning import MODEL, Client  # noqa: E402

N_ASK, N_CLIENT = 12, 4
EMBEDS = "tests/golden/models/bert_mean"
TEXTS, VECTORS = "/v1/completions", "/v1/embeddings"
BATCHES_OPEN, BATCH_LINES = 3, 12
BATCH_ENDS = ("completed", "failed", "expired", "cancelled")
SHORT = (429, 503, 507)  # refusals that bad luck explains
GONE = (OSError, http.client.HTTPException)
HOUR = 3600


class Refused(Exception):
    """There was no room for it now."""


class Patient(Client):
    def ask(self, method, path, body=None, **headers):
        r = super().ask(method, path, body, **headers)
        if r.status in SHORT:
            assert r.error["message"], r
            raise Refused(r)
        return r


class Luck:
    """What goes wrong in a server's surroundings, and is right again."""

    def __init__(self, tmp):
        self.disk, ctl = Disk(tmp), tmp / "luck"
        ctl.write_bytes(bytes(16))
        with open(ctl, "r+b") as f:
            self.map = mmap.mmap(f.fileno(), 16)
        shims = f"{SHIM}:{BUILD.resolve() / 'tests/fake/preload/bad_luck.so'}"
        self.env = {**self.disk.env, "LD_PRELOAD": shims, "BAD_LUCK_CTL": str(ctl)}

    def set(self, at, value):
        self.map[8 * at:8 * at + 8] = struct.pack("q", value)

    def full(self, rng, _):
        self.disk.fill(rng.randrange(40), rng.choice([1, 5, 1 << 40]))

    def slow(self, rng, _):
        self.set(1, rng.randrange(1000, 100000))

    def clock(self, rng, _):
        self.set(0, rng.choice([-1, 1]) * rng.choice([1, 90, HOUR, 30 * HOUR]))

    def memory(self, rng, s):
        """So much more than it has now."""
        pages = int(pathlib.Path(f"/proc/{s.pid}/statm").read_text(encoding="ascii").split()[0])
        most = pages * resource.getpagesize() + rng.randrange(1 << 20, 64 << 20)
        with contextlib.suppress(ProcessLookupError):
            resource.prlimit(s.pid, resource.RLIMIT_AS, (most, resource.RLIM_INFINITY))

    def over(self, s=None):
        self.disk.free()
        for at in (0, 1):
            self.set(at, 0)
        with contextlib.suppress(ProcessLookupError):
            if s:
                resource.prlimit(s.pid, resource.RLIMIT_AS, (resource.RLIM_INFINITY,) * 2)

    def kinds(self):
        """A sanitizer has its own needs of memory."""
        return [self.full, self.slow, self.clock, *([self.memory] if MODE in ("release", "debug") else [])]


def draw_asks(rng):
    out = []
    for _ in range(N_ASK):
        out.append({"model": "tiny", "prompt": " ".join(rng.choices("ab", k=rng.randrange(1, 30))),
                    "max_tokens": rng.randrange(1, 30), "seed": rng.randrange(99), "ignore_eos": True,
                    "temperature": rng.choice([0, 1])})
    return out


def draw_inputs(rng):
    """The model has no tokenizer: texts are ids."""
    return [{"model": "tiny", "input": [rng.choices(range(5, 60), k=rng.randrange(1, 20))
                                        for _ in range(rng.randrange(1, 4))]} for _ in range(N_ASK)]


def said(route, body):
    """What of an answer must not differ."""
    return body["choices"][0]["text"] if route == TEXTS else [d["embedding"] for d in body["data"]]


class Batches:
    """What was acknowledged of batches: their lines, and that they were cancelled."""

    def __init__(self, route, asks):
        self.route, self.asks, self.lines, self.maybe, self.n = route, asks, {}, set(), 0

    def open(self):
        return sorted(self.lines)

    def create(self, c, rng):
        if len(self.lines) >= BATCHES_OPEN:
            return
        lines = {f"line-{k}": rng.randrange(N_ASK) for k in range(rng.randrange(1, BATCH_LINES))}
        data = "".join(json.dumps({"custom_id": name, "method": "POST", "url": self.route, "body": self.asks[i]}) + "\n"
                       for name, i in lines.items())
        r = c.send(data.encode(), {"purpose": "batch"})
        assert r.status == 200, r
        r = c.ask("POST", "/v1/batches", {"input_file_id": r.json["id"], "endpoint": self.route,
                                          "completion_window": "24h"})
        assert r.status == 200, r
        self.lines[r.json["id"]] = lines

    def cancel(self, c, rng):
        if self.lines:
            batch = rng.choice(self.open())
            self.maybe.add(batch)
            assert c.ask("POST", f"/v1/batches/{batch}/cancel").status in (200, 400, 409), batch

    def look(self, c, batch, texts):
        """Each line once, and rightly; its files go, so that there is room for the next. A clock that jumps may
        end it early."""
        r = c.get(f"/v1/batches/{batch}")
        assert r.status == 200, (batch, "is lost", r)
        b = r.json
        assert b["status"] in ("validating", "in_progress", "finalizing", "completed", "expired") or \
            (batch in self.maybe and b["status"] in ("cancelling", "cancelled")), b
        if b["status"] not in BATCH_ENDS:
            return
        lines, seen = self.lines[batch], {}
        files = [b[name] for name in ("output_file_id", "error_file_id") if b[name]]
        for file in files:
            for row in c.get(f"/v1/files/{file}/content").body.splitlines():
                row = json.loads(row)
                assert row["custom_id"] not in seen, ("twice", row)
                seen[row["custom_id"]] = row["response"]
        is_whole = b["status"] == "completed"
        assert set(seen) <= set(lines) and (set(seen) == set(lines) or not is_whole), (b, seen)
        for name, got in seen.items():
            if got and got["status_code"] == 200:
                assert said(self.route, got["body"]) == texts[lines[name]], (name, got, texts[lines[name]])
                self.n += 1
            else:  # what was not got to, or what bad luck would not let in
                assert got["status_code"] in (*SHORT, 500) if got else not is_whole, (name, b, got)
        del self.lines[batch]
        for file in [*files, b["input_file_id"]]:
            assert c.ask("DELETE", f"/v1/files/{file}").status == 200, file

    def check(self, c, texts):
        for batch in self.open():
            self.look(c, batch, texts)

    def end(self, c, texts):
        end = time.monotonic() + 120 * SLOW
        while self.lines:
            assert time.monotonic() < end, [c.get(f"/v1/batches/{b}").json for b in self.lines]
            self.check(c, texts)
            time.sleep(0.02)


class Soak(test_killed.World):
    route, draw = TEXTS, staticmethod(draw_asks)

    def __init__(self, tmp, opt):
        super().__init__(tmp)
        self.opt, self.plan, self.luck = opt, random.Random(opt.seed), Luck(tmp)
        self.asks, self.texts = self.draw(self.plan), []
        self.batches = Batches(self.route, self.asks)
        self.lock, self.fault = threading.Lock(), None

    def serve(self):
        return Tandem(MODEL, "--name", "tiny", "--data-dir", self.tmp / "data", "--no-access-log", "--kv-memory", "8M",
                      "--max-lora-rank", "16", "--max-adapters", "32",
                      env=self.luck.env)

    def check(self, s):
        super().check(s)
        self.batches.check(self.c, self.texts)

    def add(self, what):
        with self.lock:
            self.count[what] = self.count.get(what, 0) + 1

    # ---- clients

    def text(self, s, i, streams):
        r = s.post("/v1/completions", {**self.asks[i], "stream": streams})
        if r.status in SHORT:
            raise Refused(r)
        assert r.status == 200, r
        if not streams:
            return r.json["choices"][0]["text"]
        data = [x[6:] for x in r.body.decode().splitlines() if x.startswith("data: ")]
        if any('"error"' in x for x in data):
            raise Refused(r)
        if data[-1:] != ["[DONE]"]:
            raise ConnectionResetError
        return "".join(json.loads(x)["choices"][0]["text"] for x in data[:-1] if json.loads(x)["choices"])

    def leave(self, s, rng):
        with Raw(s, timeout=20) as raw:
            raw.send(request("/v1/completions", {**rng.choice(self.asks), "stream": True}))
            if rng.random() < 0.7:
                raw.more()
            raw.close(rudely=rng.random() < 0.5)
        self.add("left")

    def client(self, s, seed, ends):
        """Asks until the life is over."""
        rng = random.Random(seed)
        while not ends.is_set():
            try:
                draw, i = rng.random(), rng.randrange(N_ASK)
                if draw < 0.2:
                    self.leave(s, rng)
                else:
                    got = self.text(s, i, draw < 0.65)
                    assert got == self.texts[i], (self.asks[i], got, self.texts[i])
                    self.add("texts")
            except Refused:
                self.add("refused")
            except GONE:
                time.sleep(0.01)
            except Exception as e:  # noqa: BLE001 a fault of any kind is the first thread's to raise
                self.fault = self.fault or e
                return

    # ---- a life

    def of_batches(self):
        return [(lambda: self.batches.create(self.c, self.random), 2),
                (lambda: self.batches.check(self.c, self.texts), 2),
                (lambda: self.batches.cancel(self.c, self.random), 0.2)]

    def things(self):
        return [(self.upload, 2), (self.create, 3), (self.look, 3), (self.delete, 1),
                (lambda: self.change("cancel"), 0.2), (lambda: self.change("pause"), 1),
                (lambda: self.change("resume"), 3), *self.of_batches()]

    def acts(self, end):
        acts, weights = zip(*self.things())
        while time.monotonic() < end and not self.fault:
            act, = self.random.choices(acts, weights)
            try:
                act()
                self.add("acts")
            except Refused:
                self.add("refused")
            except GONE:
                return

    def misfortunes(self, s, ends):
        rng = random.Random(self.random.getrandbits(64))
        while not ends.wait(0.3 * rng.random() * SLOW):
            what = rng.choice(self.luck.kinds())
            what(rng, s)
            self.add(what.__name__)
            ends.wait(0.3 * rng.random() * SLOW)
            self.luck.over(s)

    def live_one(self):
        self.random = random.Random(self.plan.getrandbits(64))
        s, ends = self.serve(), threading.Event()
        self.check(s)
        self.c = Patient(s, {})
        work = [threading.Thread(target=self.client, args=(s, self.random.getrandbits(64), ends)) for _ in range(N_CLIENT)]
        work.append(threading.Thread(target=self.misfortunes, args=(s, ends)))
        for t in work:
            t.start()
        try:
            self.acts(time.monotonic() + self.opt.seconds * self.random.random() * SLOW)
        finally:
            died = s.process.poll()
            kills = self.random.random() < 0.7
            if kills:
                s.process.kill()
            else:
                ends.set()
            ends.set()
            for t in work:
                t.join()
            self.luck.over()
        assert died is None, f"it ended by itself: {died}: {s.output()[-2000:]}"
        status = s.process.wait() if kills else s.stop(self.random.choice([signal.SIGTERM, signal.SIGQUIT]))
        assert status == (-signal.SIGKILL if kills else 0), (status, s.output()[-2000:])
        self.add("killed" if kills else "stopped")
        if self.fault:
            raise self.fault
        self.sound()

    def alone(self):
        """What is said when nobody else asks."""
        self.begin()
        with self.serve() as s:
            self.texts = [self.text(s, i, False) for i in range(N_ASK)]

    def end(self):
        with self.serve() as s:
            self.batches.end(Patient(s, {}), self.texts)
        super().end()

    def said(self):
        return f"{self.batches.n} lines of batches, " + ", ".join(f"{n} {what}" for what, n in sorted(self.count.items()))


class Vectors(Soak):
    """A model that has no texts, and here no jobs."""
    route, draw, train = VECTORS, staticmethod(draw_inputs), None

    def serve(self):
        return Tandem(EMBEDS, "--name", "tiny", "--data-dir", self.tmp / "data", "--no-access-log",
                      env=self.luck.env)

    def text(self, s, i, streams):
        r = s.post(VECTORS, self.asks[i])
        if r.status in SHORT:
            raise Refused(r)
        assert r.status == 200, r
        return said(VECTORS, r.json)

    def leave(self, s, rng):
        with Raw(s, timeout=20) as raw:
            raw.send(request(VECTORS, rng.choice(self.asks)))
            raw.close(rudely=rng.random() < 0.5)
        self.add("left")

    def begin(self):
        pass

    def check(self, s):
        self.c = Patient(s, {})
        self.check_files()
        self.batches.check(self.c, self.texts)

    def things(self):
        return [(self.upload, 2), (self.delete, 1), *self.of_batches()]


def live(soaks, lives):
    for x in soaks:
        x.alone()
    for i in range(lives):
        x = soaks[i % 3 == 2]
        try:
            x.live_one()
        except AssertionError as e:
            raise AssertionError(f"life {i}: {e}") from e
        if lives > 100 and i % 50 == 49:
            print(f"life {i + 1}: {'; '.join(x.said() for x in soaks)}", flush=True)
    for x in soaks:
        x.end()
    return "; ".join(x.said() for x in soaks)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--lives", type=int, default=3)
    ap.add_argument("--seconds", type=float, default=1)
    ap.add_argument("--seed", type=int, default=int(os.environ.get("TEST_SEED") or random.SystemRandom().randrange(1 << 32)))
    opt = ap.parse_args()
    cases = Cases()
    with scratch() as tmp:
        for name in ("texts", "vectors"):
            (tmp / name).mkdir()
        soaks = Soak(tmp / "texts", opt), Vectors(tmp / "vectors", opt)
        cases.run(f"soak, TEST_SEED={opt.seed}", lambda: live(soaks, opt.lives))
    return cases.end()


if __name__ == "__main__":
    sys.exit(main())
