#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Jobs that keep the values of their lowest validation loss, or end where it does not fall: which values
are published, which others stand, what is told; with pairs, of whole models, killed on the way, and by
`tandem train`.

Faults they can catch: a result that is not the best, or not the one that was told; a best or a last that
is gone; an end that comes too early, too late or never; a look that counts twice, or a choice that is
another after a kill; a checkpoint without a validation loss.

Standard library only."""
import os
import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "lib"))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from serving import Cases, Tandem, scratch  # noqa: E402
from test_continued import kill  # noqa: E402
from test_preferences import PAIRS, client, dpo, lines, pair  # noqa: E402
from test_tuning import JOBS, MODEL  # noqa: E402

TANDEM = os.environ.get("TANDEM_BIN", "build/tandem")


def text(i, answer):
    return {"prompt": "a b " * (1 + i % 3), "completion": answer}


# What is learned says something else than what is measured: the loss falls for a while, then rises.
TRAIN = lines(text(i, "b a b a b") for i in range(10))
VALID = lines(text(i, "b a b b a") for i in range(10))
HYPER = {"n_epochs": 8, "batch_size": 5, "learning_rate": 0.02, "schedule": "constant", "lora_rank": 4,
         "checkpoint_steps": 3}
LOSS = "full_valid_loss"


def supervised(**hyper):
    return {"type": "supervised", "supervised": {"hyperparameters": {**HYPER, **hyper}}}


def serve(tmp, *options):
    return Tandem(MODEL, "--name", "tiny", "--data-dir", tmp / "data", "--no-access-log",
                  "--kv-memory", "8M", "--max-lora-rank", "16", "--max-adapters", "64",
                  *options)


def events(c, job):
    return c.get(f"{JOBS}/{job['id']}/events?limit=200").json["data"][::-1]


def looks(c, job):
    """By step: the validation losses that events told with a checkpoint."""
    return {e["data"]["step"]: e["data"][LOSS] for e in events(c, job)
            if e["message"].startswith("Checkpoint created") and LOSS in (e["data"] or {})}


def points(c, job):
    return {p["step_number"]: p for p in c.get(f"{JOBS}/{job['id']}/checkpoints").json["data"]
            if ":ckpt-step-" in p["fine_tuned_model_checkpoint"]}


def weights(tmp, folder):
    return (tmp / "data/adapters" / folder / "adapter_model.safetensors").read_bytes()


def lowest(losses):
    """The first of the lowest."""
    return min(losses, key=lambda step: (losses[step], step))


def best(c, tmp, make):
    """The result has the bits of the checkpoint with the lowest loss; that one and the last stand."""
    job = c.done(make(result="best"))
    seen = looks(c, job)
    step = lowest(seen)
    last = max(seen)
    assert 0 < step < last, seen
    assert set(seen) == {s for s in range(1, last + 1) if s % 3 == 0 or s % 2 == 0}, seen
    stand = points(c, job)
    assert step in stand and last in stand and len(stand) == 4, stand
    assert all(LOSS in p["metrics"] for p in stand.values()), stand
    assert weights(tmp, job["id"]) == weights(tmp, f"{job['id']}-step-{step}")
    assert weights(tmp, job["id"]) != weights(tmp, f"{job['id']}-step-{last}")
    told = [e["message"] for e in events(c, job)]
    assert any(f"step {step}, with the lowest validation loss" in m for m in told), told
    result, = (p for p in c.get(f"{JOBS}/{job['id']}/checkpoints").json["data"]
               if p["fine_tuned_model_checkpoint"] == job["fine_tuned_model"])
    assert result["step_number"] == step and result["metrics"][LOSS] == seen[step], result
    assert job["hyperparameters"]["result"] == "best", job
    return job


def last(c, tmp, make, job):
    """The same training, of which the last values are the result, and the best a checkpoint."""
    other = c.done(make())
    assert other["hyperparameters"]["result"] == "last", other
    assert c.curve(other) == c.curve(job)
    step = lowest(looks(c, job))
    assert step in points(c, other), points(c, other)
    assert weights(tmp, f"{other['id']}-step-{step}") == weights(tmp, job["id"])
    assert weights(tmp, other["id"]) == weights(tmp, f"{job['id']}-step-{max(looks(c, job))}")


def early(c, tmp, make, job):
    """Ends at the second look without a lower loss, and is the beginning of the longer one."""
    seen = looks(c, job)
    n = at = 0
    for step in sorted(seen):
        n = 0 if seen[step] == min(v for s, v in seen.items() if s <= step) else n + 1
        if n == 2:
            at = step
            break
    assert 0 < at < max(seen), seen
    for result in ("best", "last"):
        short = c.done(make(early_stopping=2, result=result))
        curve = c.curve(short).decode().splitlines()
        assert curve == c.curve(job).decode().splitlines()[:len(curve)] and len(curve) == 1 + at, (at, curve)
        assert any("Stopped early" in e["message"] for e in events(c, short)), events(c, short)
        chosen = lowest({s: v for s, v in seen.items() if s <= at}) if result == "best" else at
        if chosen in points(c, job):
            assert weights(tmp, short["id"]) == weights(tmp, f"{job['id']}-step-{chosen}")
    return f"behind step {at}"


def refused(c, file, valid):
    for hyper in ({"result": "best"}, {"early_stopping": 1}):
        param, = hyper
        r = c.make(file, method=supervised(**hyper))
        assert r.status == 400 and r.error["param"] == f"method.supervised.hyperparameters.{param}", r
    for hyper in ({"result": "first"}, {"result": 1}, {"early_stopping": -1}):
        param, = hyper
        r = c.make(file, validation_file=valid, method=supervised(**hyper))
        assert r.status == 400 and r.error["param"] == f"method.supervised.hyperparameters.{param}", r


def whole(c, tmp, file, valid):
    """Of all weights the best are published as well; their twin is the same job with as many epochs."""
    more = {"training_type": "full", "lora_rank": "auto", "learning_rate": 0.01, "checkpoint_steps": 0}
    job = c.done(c.job(file, validation_file=valid, seed=1, method=supervised(result="best", **more)))
    told, = (e["message"] for e in events(c, job) if "lowest validation loss" in e["message"])
    step = int(told.split("step ")[1].split(",")[0])
    assert 0 < step < 16 and step % 2 == 0, told
    twin = c.done(c.job(file, seed=1, method=supervised(**{**more, "n_epochs": step // 2})))
    models = [(tmp / "data/models" / j["id"] / "model.safetensors").read_bytes() for j in (job, twin)]
    assert models[0] == models[1]
    return told


def pairs(c):
    valid = c.file(lines(pair(i, "No, it is not.", "It is so.") for i in range(10)))
    job = c.done(c.job(c.file(PAIRS), validation_file=valid, seed=1, method=dpo(
        n_epochs=3, batch_size=8, learning_rate=0.01, lora_rank=4, result="best")))
    told, = (e["message"] for e in events(c, job) if "lowest validation loss" in e["message"])
    assert "step 3," in told, told  # it rises from the first epoch on


def by_command(c, tmp, job):
    (tmp / "train.jsonl").write_bytes(TRAIN)
    (tmp / "valid.jsonl").write_bytes(VALID)
    words = [TANDEM, "train", "--model", MODEL, "--data", tmp / "train.jsonl", "--epochs", 8, "--batch", 5, "--lr",
             0.02, "--schedule", "constant", "--rank", 4, "--alpha", 8, "--checkpoint-steps", 3, "--seed", 1,
             "--result", "best"]
    p = subprocess.run(list(map(str, [*words, "--valid", tmp / "valid.jsonl", "--out", tmp / "out"])),
                       capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False)
    step = lowest(looks(c, job))
    assert p.returncode == 0 and f"those of step {step}," in p.stderr, p
    assert (tmp / "out/adapter/adapter_model.safetensors").read_bytes() == weights(tmp, job["id"])
    p = subprocess.run(list(map(str, [*words, "--out", tmp / "none"])), capture_output=True, text=True,
                       stdin=subprocess.DEVNULL, check=False)
    assert p.returncode != 0 and "--valid" in p.stderr, p


LONG = {"n_epochs": 20, "result": "best"}


def killed(tmp, file, valid, want):
    """At a few steps, the choice and all that was told is that of a job that was let be."""
    with serve(tmp) as s:
        job = client(s).job(file, validation_file=valid, seed=1, method=supervised(**LONG))
        client(s).wait_step(job, 2)
        kill(s)
    for step in (9, 20, 33):
        with serve(tmp) as s:
            client(s).wait_step(job, step)
            kill(s)
    with serve(tmp) as s:
        c = client(s)
        j = c.done(job)
        assert c.curve(j) == want["curve"] and weights(tmp, j["id"]) == want["weights"]
        assert looks(c, j) == want["looks"] and sorted(points(c, j)) == want["points"]


def over_ranks(tmp):
    with serve(tmp, "--tp", "2") as s:
        c = client(s)
        file, valid = c.file(TRAIN), c.file(VALID)

        def make(**hyper):
            return c.job(file, validation_file=valid, seed=1, method=supervised(**hyper))
        return early(c, tmp, make, best(c, tmp, make))


def main():
    cases = Cases()
    with scratch() as tmp:
        with serve(tmp) as s:
            c, kept = client(s), {}
            file, valid = c.file(TRAIN), c.file(VALID)

            def make(**hyper):
                return c.job(file, validation_file=valid, seed=1, method=supervised(**hyper))
            cases.run("wrong fields", lambda: refused(c, file, valid))
            cases.run("best", lambda: kept.update(job=best(c, tmp, make)))
            cases.run("last", lambda: last(c, tmp, make, kept["job"]))
            cases.run("early", lambda: early(c, tmp, make, kept["job"]))
            cases.run("whole models", lambda: whole(c, tmp, file, valid))
            cases.run("pairs", lambda: pairs(c))
            cases.run("tandem train", lambda: by_command(c, tmp, kept["job"]))
            long = c.done(make(**LONG))
            want = {"curve": c.curve(long), "weights": weights(tmp, long["id"]), "looks": looks(c, long),
                    "points": sorted(points(c, long))}
        cases.run("killed", lambda: killed(tmp, file, valid, want))
    with scratch() as tmp:
        cases.run("two ranks", lambda: over_ranks(tmp))
    return cases.end()


if __name__ == "__main__":
    sys.exit(main())
