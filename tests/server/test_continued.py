#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Jobs that go on from a tuned model, by each method: they begin with its values, which is what their
losses compare with, and keep its form; one that is killed ends as one that is not, and one whose
model was deleted or altered meanwhile does not go on.

Faults they can catch: a first step over other values than the model's; a preference or a reward that
is compared with the base; a rank, a scale or a product that changes on the way, or a field that says
so and is passed over; another key's model that is trained; a job that goes on from something else
after a kill; a command that means something else.

Standard library only."""
import json
import math
import os
import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "lib"))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from serving import Cases, Tandem, scratch  # noqa: E402
from test_preferences import PAIRS, dpo, metrics  # noqa: E402
from test_rewards import PROMPTS, method as rewards  # noqa: E402
from test_trained_is_served import recorded, rows, same  # noqa: E402
from test_tuning import ANN, BOB, JOBS, KEYS, MODEL, Client  # noqa: E402

TANDEM = os.environ.get("TANDEM_BIN", "build/tandem")
ROWS = "".join(json.dumps(r) + "\n" for r in rows()).encode()
HYPER = {"n_epochs": 2, "batch_size": 5, "learning_rate_multiplier": 30}
HALVES = {"lora_rank": 4, "lora_alpha": 12, "use_rslora": True, "target_modules": ["q_proj", "down_proj"]}
FORM = {**HALVES, "use_dora": True, "modules_to_save": ["embed_tokens"]}


def serve(tmp, *options):
    return Tandem(MODEL, "--name", "tiny", "--data-dir", tmp / "data", "--api-key-file", tmp / "keys",
                  "--no-access-log", "--kv-memory", "8M", "--max-lora-rank", "16", *options)


def supervised(**hyper):
    return {"type": "supervised", "supervised": {"hyperparameters": {**HYPER, **hyper}}}


def parent(c, form=FORM):
    return c.done(c.job(c.file(ROWS), seed=1, method=supervised(**form)))


def folder(tmp, name):
    """Where the result of a name's job lies."""
    found, = (p for p in (tmp / "data/adapters").iterdir()
              if p.is_dir() and p.name.endswith(name.rsplit(":", 1)[1]))
    return found


def weights(tmp, job):
    return (tmp / "data/adapters" / job["id"] / "adapter_model.safetensors").read_bytes()


def goes_on(c, tmp, name, form=FORM):
    """The first step finds the model's own log-probabilities, to the bit; the form is the model's."""
    job = c.done(c.job(c.file(ROWS), model=name, seed=2, method=supervised(row_logprobs=True)))
    assert job["model"] == name, job
    assert all(job["hyperparameters"][k] == v for k, v in form.items() if k != "target_modules"), job
    assert sorted(job["hyperparameters"]["target_modules"]) == sorted(form["target_modules"]), job
    config = json.loads((tmp / "data/adapters" / job["id"] / "adapter_config.json").read_text())
    assert config["r"] == 4 and config["lora_alpha"] == 12 and config["use_rslora"], config
    assert config["use_dora"] == ("use_dora" in form), config
    assert sorted(config["target_modules"]) == sorted(form["target_modules"]), config
    assert config["modules_to_save"] == form.get("modules_to_save"), config
    assert job["fine_tuned_model"].startswith("ft:tiny:tandem:"), job
    events = c.get(f"{JOBS}/{job['id']}/events?limit=100").json["data"]
    assert any(name in e["message"] and "goes on from" in e["message"] for e in events), events
    return f"{same(c, name, recorded(c, job)[1])} tokens"


def prefers(c, name):
    """What is compared with is the model itself: log 2 at first, of which the base would make another."""
    job = c.done(c.job(c.file(PAIRS), model=name, seed=3, method=dpo(**HYPER)))
    first, *_, last = metrics(c, job["id"])
    assert first["train_loss"] == round(math.log(2), 6) and first["train_reward_margin"] == 0, first
    assert last["train_reward_margin"] > 0, last


def rewarded(c, name):
    """So it is with the divergence that rewards are held back by."""
    job = c.done(c.job(c.file(PROMPTS), model=name, seed=4, method=rewards(n_epochs=1, kl_weight=0.5)))
    steps = metrics(c, job["id"])
    assert steps[0]["train_kl"] == 0 and any(s["train_kl"] > 0 for s in steps), steps
    assert all(s["off_policy_tokens"] == 0 for s in steps), steps


def refused(c, name):
    file = c.file(ROWS)
    for hyper in ({"lora_rank": 8}, {"lora_alpha": 8}, {"use_rslora": False}, {"use_dora": False},
                  {"target_modules": "all-linear"},
                  {"target_modules": ["q_proj"]}, {"target_modules": ["q_proj", "v_proj"]},
                  {"modules_to_save": "none"}, {"modules_to_save": ["embed_tokens", "lm_head"]},
                  {"training_type": "full"}):
        r = c.make(file, model=name, method=supervised(**hyper))
        param, = hyper
        assert r.status == 400, (hyper, r)
        assert r.error["param"] == f"method.supervised.hyperparameters.{param}", (hyper, r)
        assert "rank 4" in r.error["message"] and "q_proj" in r.error["message"], r
    r = c.make(file, model=name + "x")
    assert r.status == 404 and r.error["param"] == "model", r
    for same_form in (FORM, {"target_modules": ["down_proj", "q_proj"]}):
        c.done(c.job(file, model=name, method=supervised(**{**same_form, "n_epochs": 1})))


def of_others(server, name):
    """A key's model is nobody else's to train."""
    c = Client(server, BOB)
    r = c.make(c.file(ROWS), model=name)
    assert r.status == 404 and r.error["param"] == "model", r


def by_command(server, tmp, name, job):
    data = tmp / "rows.jsonl"
    data.write_bytes(ROWS)
    run = [TANDEM, "tune", data, "--url", server.url, "--epochs", "1", "--follow"]
    p = subprocess.run([*run, "--from", name], capture_output=True, text=True, stdin=subprocess.DEVNULL,
                       env={**os.environ, "TANDEM_API_KEY": ANN["Authorization"][7:]}, check=False)
    assert p.returncode == 0 and p.stdout.startswith("ft:tiny:") and name in p.stderr, p
    words = [TANDEM, "train", "--model", MODEL, "--data", data, "--epochs", 2, "--batch", 5, "--lr", 6e-3,
             "--seed", 2, "--from", folder(tmp, name)]
    for i, (more, told) in enumerate((((), None), (("--rank", 8), "--rank"), (("--target", "q_proj"), "--target"),
                                      (("--init", "random"), "--init"))):
        p = subprocess.run([*map(str, words), *map(str, more), "--out", tmp / f"out{i}"], capture_output=True,
                           text=True, stdin=subprocess.DEVNULL, check=False)
        assert (p.returncode == 0) == (told is None) and (told or "") in p.stderr, p
    head, *mine = (tmp / "out0/steps.csv").read_text().splitlines()
    head, *its = (Client(server, ANN).curve(job)).decode().splitlines()
    assert [r.split(",")[:3] for r in mine] == [r.split(",")[:3] for r in its], (mine, its)


LONG = supervised(n_epochs=30, batch_size=2, checkpoint_steps=7)


def kill(server):
    server.process.kill()
    server.process.wait()
    server.process.returncode = 0


def killed(tmp, name):
    """Straight, and killed at three places; then a model that is altered, and one that is deleted."""
    with serve(tmp) as s:
        c = Client(s, ANN)
        file = c.file(ROWS)
        want = c.done(c.job(file, model=name, seed=5, method=LONG))
        curve = c.curve(want)
        job = c.job(file, model=name, seed=5, method=LONG)
        c.wait_step(job, 10)
        kill(s)
    for step in (60, 120):
        with serve(tmp) as s:
            Client(s, ANN).wait_step(job, step)
            kill(s)
    with serve(tmp) as s:
        c = Client(s, ANN)
        j = c.done(job)
        assert c.curve(j) == curve and weights(tmp, j) == weights(tmp, want)


def lost(tmp, name):
    """Each fails by the model's name, whatever the job had done by then."""
    with serve(tmp) as s:
        c = Client(s, ANN)
        file = c.file(ROWS)
        jobs = [c.job(file, model=name, seed=5, method=LONG) for _ in range(2)]
        c.wait_step(jobs[0], 10)
        kill(s)
    config = folder(tmp, name) / "adapter_config.json"
    kept = config.read_bytes()
    config.write_bytes(kept.replace(b'"lora_alpha": 12', b'"lora_alpha": 13'))
    with serve(tmp) as s:
        c = Client(s, ANN)
        j = c.wait(jobs[0])
        assert j["status"] == "failed" and j["error"]["code"] == "model_altered", j
        assert name in j["error"]["message"] and j["error"]["param"] == "model", j
        r = c.make(file, model=name)
        assert r.status == 500 and r.error["code"] == "model_altered", r
        assert c.wait(jobs[1])["error"]["code"] == "model_altered"
    config.write_bytes(kept)
    with serve(tmp) as s:
        c = Client(s, ANN)
        first, second = (c.job(file, model=name, seed=5, method=LONG) for _ in range(2))
        c.wait_step(first, 1)
        assert c.ask("DELETE", f"/v1/models/{name}").status == 200
        c.done(first)
        j = c.wait(second)
        assert j["status"] == "failed" and j["error"]["code"] == "model_not_found", j
        assert name in j["error"]["message"] and j["error"]["param"] == "model", j


def over_ranks(tmp):
    """Each rank has its part of the model's values, and of those that are compared with. Of a matrix that is
    whole none has (modules_to_save is refused)."""
    (tmp / "keys").write_text(KEYS)
    (tmp / "keys").chmod(0o600)
    with serve(tmp, "--tp", "2") as s:
        c = Client(s, ANN)
        name = parent(c, HALVES)["fine_tuned_model"]
        prefers(c, name)
        return goes_on(c, tmp, name, HALVES)


def main():
    cases = Cases()
    with scratch() as tmp:
        (tmp / "keys").write_text(KEYS)
        (tmp / "keys").chmod(0o600)
        with serve(tmp) as s:
            c, kept = Client(s, ANN), {}
            name = parent(c)["fine_tuned_model"]
            cases.run("supervised", lambda: goes_on(c, tmp, name))
            cases.run("dpo", lambda: prefers(c, name))
            cases.run("reinforcement", lambda: rewarded(c, name))
            cases.run("contradicted", lambda: refused(c, name))
            cases.run("another key", lambda: of_others(s, name))
            kept["job"] = c.done(c.job(c.file(ROWS), model=name, seed=2, method=supervised()))
            cases.run("commands", lambda: by_command(s, tmp, name, kept["job"]))
        cases.run("killed", lambda: killed(tmp, name))
        cases.run("lost", lambda: lost(tmp, name))
    with scratch() as tmp:
        cases.run("two ranks", lambda: over_ranks(tmp))
    return cases.end()


if __name__ == "__main__":
    sys.exit(main())
