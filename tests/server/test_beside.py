#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A fine-tuning job beside streams, over loopback: what each gets of the machine is a matter of time
and never of bits, and neither shuts the other out.

Faults they can catch: a loss that depends on who was served meanwhile, or a token on who was
trained; a job that never ends while streams do not; an option that is read and not used; time that
no metric or two of them count.

Standard library only."""
import json
import pathlib
import subprocess
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "lib"))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from serving import BIN, SLOW, Cases, Tandem, scratch  # noqa: E402
from test_tuning import KEYS, MODEL, Client, rows  # noqa: E402

SHAPE = {"n_epochs": 2, "batch_size": 4, "learning_rate_multiplier": 50}


def serve(tmp, *options, env=None):
    return Tandem(MODEL, "--name", "tiny", "--api-key-file", tmp / "keys", "--data-dir",
                  tmp / "data", "--no-access-log", "--kv-memory", "8M", "--max-lora-rank", "16",
                  *options, env=env)


class Streams:
    """Clients that ask again as soon as they are answered, until the end of the block."""

    def __init__(self, c, n=4):
        self.c, self.stops, self.said = c, False, set()
        self.threads = [threading.Thread(target=self.run) for _ in range(n)]

    def ask(self):
        r = self.c.ask("POST", "/v1/completions", {"model": "tiny", "prompt": "a b", "logprobs": 1,
                                                   "max_tokens": 24, "temperature": 0})
        assert r.status == 200, r
        return json.dumps(r.json["choices"])

    def run(self):
        while not self.stops:
            self.said.add(self.ask())

    def __enter__(self):
        for t in self.threads:
            t.start()
        while not self.said and any(t.is_alive() for t in self.threads):
            time.sleep(0.01)
        return self

    def __exit__(self, *_):
        self.stops = True
        for t in self.threads:
            t.join()


def same_bits(c, file):
    """Alone and beside streams; the streams alone and beside a job."""
    alone = c.curve(c.done(c.job(file, seed=7, hyperparameters=SHAPE)))
    with Streams(c) as streams:
        quiet = streams.ask()
        beside = c.curve(c.done(c.job(file, seed=7, hyperparameters=SHAPE)))
    assert alone == beside, (alone, beside)
    assert streams.said == {quiet}, streams.said


def figures(c, file):
    before = c.server.metrics(**c.key)
    with Streams(c, 2):
        c.done(c.job(file, hyperparameters=SHAPE))
    c.done(c.job(file, hyperparameters=SHAPE))  # with nobody beside it
    m = {k: v - before[k] for k, v in c.server.metrics(**c.key).items()}
    assert m["tandem_training_steps_total"] == 16, m  # 16 rows in batches of 4, twice, by two jobs
    assert m["tandem_training_tokens_total"] > 2 * 16 * 2 * 2
    for name in ("idle", "busy"):
        used, all_of_it = (m[f"tandem_gate_{name}{u}_seconds_total"] for u in ("_used", ""))
        assert 0 <= used <= all_of_it, (name, used, all_of_it)
    assert m["tandem_gate_busy_seconds_total"] > 0 and m["tandem_gate_idle_used_seconds_total"] > 0
    assert c.server.metrics(**c.key)["tandem_training_piece_max_seconds"] > 0


def job_ends(c, file):
    """Streams never pause, and leave a job its floor; or a target that cannot be met leaves it little."""
    with Streams(c):
        c.done(c.job(file, hyperparameters={"n_epochs": 1, "batch_size": 16}))


def policy_is(c, floor, share, target):
    m = c.server.metrics(**c.key)
    is_so = tuple(m[f"tandem_training_{n}"] for n in ("floor", "share", "target_seconds"))
    assert is_so == (floor, share, target), is_so


def refused(*words):
    p = subprocess.run([BIN, "serve", MODEL, *words], capture_output=True, text=True,
                       timeout=60 * SLOW, check=False)
    assert p.returncode == 2 and words[0] in p.stderr, p


def main():
    cases = Cases()
    with scratch() as tmp:
        (tmp / "keys").write_text(KEYS, encoding="utf-8")
        (tmp / "keys").chmod(0o600)
        with serve(tmp) as s:
            c = Client(s)
            file = c.file(rows(16))
            cases.run("what is chosen", lambda: policy_is(c, 0.1, 0.03, 0))
            cases.run("the same bits", lambda: same_bits(c, file))
            cases.run("the figures", lambda: figures(c, file))
        with serve(tmp, "--target-itl", "0.001", env={"TANDEM_TRAIN_SHARE": "0.5"}) as s:
            c = Client(s)
            cases.run("a share and a target alone", lambda: policy_is(c, 0, 0.5, 0.000001))
            cases.run("a job ends in spite of a target", lambda: job_ends(c, c.file(rows(16))))
        with serve(tmp, "--train-share", "0", env={"TANDEM_TRAIN_FLOOR": "20"}) as s:
            c = Client(s)
            cases.run("a floor alone", lambda: policy_is(c, 0.2, 0, 0))
            cases.run("a job ends by its floor", lambda: job_ends(c, c.file(rows(16))))
        cases.run("shares refused", lambda: [refused("--train-share", v) for v in ("0.95", "-1", "x")])
        cases.run("floors refused", lambda: [refused("--train-floor", v) for v in ("91", "-1", "x")])
        cases.run("targets refused", lambda: [refused("--target-itl", v) for v in ("-1", "60001")])
    return cases.end()


sys.exit(main())
