#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fine-tuning jobs that train at once (`--jobs N`), of several ranks, seeds, batches and methods: what
each makes, beside others that end, are cancelled, or are killed with it.

Faults they can catch: a job that waits behind a longer one; two threads with one job; an adapter, a
loss or a curve that depends on who trains beside it; a cancellation that ends another's training, or
leaves its folder; a server that is killed, or stops, with several at work, and goes on with fewer, or
to other bits; a key whose many jobs keep out another's.

Standard library only."""
import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "lib"))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from serving import ENDLESS, Cases, Tandem, scratch  # noqa: E402
from test_continued import kill  # noqa: E402
from test_preferences import PAIRS, dpo  # noqa: E402
from test_tuning import ANN, BOB, JOBS, KEYS, MODEL, Client, rows  # noqa: E402


def supervised(**hyper):
    return {"type": "supervised", "supervised": {"hyperparameters": {"batch_size": 1, **hyper}}}


SHORT = [(rows(12), supervised(n_epochs=3, batch_size=2, lora_rank=4), 1),
         (rows(20), supervised(n_epochs=2, batch_size=5, lora_rank=16, lora_dropout=0.2), 2),
         (rows(12), supervised(n_epochs=4, lora_rank=8, neftune_noise_alpha=5, use_dora=True), 3),
         (PAIRS, dpo(n_epochs=2, batch_size=3, lora_rank=2, use_dora=True), 4)]
LONG = [(rows(200), supervised(n_epochs=3, lora_rank=4, checkpoint_steps=50), 5),
        (rows(150), supervised(n_epochs=3, lora_rank=16, lora_dropout=0.1, checkpoint_steps=40), 6)]


def serve(tmp, *options):
    return Tandem(MODEL, "--name", "tiny", "--data-dir", tmp / "data", "--no-access-log", "--kv-memory",
                  "8M", "--max-lora-rank", "16", "--max-adapters", "64", *options)


def put(c, form):
    data, method, seed = form
    return c.job(c.file(data), method=method, seed=seed)


def made(tmp, c, job):
    """What a job came to: its adapter, and the losses of its steps and rows."""
    j = c.done(job)
    curves = [c.get(f"/v1/files/{file}/content").body for file in j["result_files"]]
    return (tmp / "data/adapters" / job / "adapter_model.safetensors").read_bytes(), *curves


def alone(tmp, forms):
    """One after the other, each with the machine to itself."""
    tmp.mkdir()
    with serve(tmp) as s:
        c = Client(s, {})
        return [made(tmp, c, put(c, form)) for form in forms]


def running(c):
    return int(re.search(r"^tandem_training_jobs_running (\d+)", c.get("/metrics").body.decode(), re.M)[1])


def beside_others(tmp):
    straight = alone(tmp / "alone", SHORT)
    with serve(tmp, "--jobs", len(SHORT) + 1) as s:
        c = Client(s, {})
        endless = put(c, (rows(ENDLESS), supervised(n_epochs=50), 9))
        c.wait_step(endless, 1)
        jobs = [put(c, form) for form in SHORT]
        assert [made(tmp, c, job) for job in jobs] == straight
        assert c.look(endless)["status"] == "running" and running(c) == 1
        again = put(c, SHORT[0])
        r = c.ask("POST", f"{JOBS}/{endless}/cancel")
        assert r.status == 200 and r.json["status"] == "cancelled", r
        assert made(tmp, c, again) == straight[0]
        assert running(c) == 0
    return f"{len(SHORT)} jobs beside an endless one, which was cancelled: each as alone"


def stop(s):
    assert s.stop() == 0, s.output()


def ended_together(tmp):
    straight = alone(tmp / "alone", LONG)
    jobs = []
    for end in (kill, kill, stop):
        s = serve(tmp, "--jobs", 2)
        c = Client(s, {})
        jobs = jobs or [put(c, form) for form in LONG]
        before = [len(c.get(f"{JOBS}/{job}/events?limit=1000").json["data"]) for job in jobs]
        for job, n in zip(jobs, before):
            while len(c.get(f"{JOBS}/{job}/events?limit=1000").json["data"]) <= n + 40:
                assert c.look(job)["status"] != "succeeded", "it was too fast to be ended"
        assert running(c) == 2
        end(s)
    with serve(tmp, "--jobs", 2) as s:
        c = Client(s, {})
        assert [made(tmp, c, job) for job in jobs] == straight
    return "two jobs, killed twice and stopped once while both train: each as alone"


def keys_take_turns(tmp):
    (tmp / "keys").write_text(KEYS)
    with serve(tmp, "--jobs", 1, "--api-key-file", tmp / "keys") as s:
        ann, bob = Client(s, ANN), Client(s, BOB)
        endless = (rows(ENDLESS), supervised(n_epochs=50), 9)
        jobs = [put(ann, endless) for _ in range(3)]
        ann.wait_step(jobs[0], 1)
        short = put(bob, SHORT[0])
        for c, job in ((ann, jobs[1]), (ann, jobs[2]), (bob, short)):
            c.wait(job, ("queued",))
        assert ann.ask("POST", f"{JOBS}/{jobs[0]}/cancel").status == 200
        bob.done(short)  # behind two endless ones it would not be
        ann.wait_step(jobs[1], 1)
        assert ann.look(jobs[2])["status"] == "queued"
    return "bob's one job goes before ann's second and third, which are older"


def main():
    cases = Cases()
    with scratch() as tmp:
        for name, case in (("beside others", beside_others), ("ended together", ended_together),
                           ("keys take turns", keys_take_turns)):
            (tmp / case.__name__).mkdir()
            cases.run(name, lambda case=case: case(tmp / case.__name__))
    return cases.end()


if __name__ == "__main__":
    sys.exit(main())
