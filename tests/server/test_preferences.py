#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Jobs of the method dpo over loopback: from the file's pairs to a model that answers, with each loss;
what is wrong with a job's fields or a file's rows; a server that is killed on the way; and the same
training by `tandem train`.

Faults they can catch: a first loss that is not log 2, so a reference that is not what is served; a
field that is taken and forgotten; a row of another format that is trained; a job that goes on after a
kill to other losses or another adapter; a command whose options mean something else.

When a kill comes is drawn from a seed that the case names; TEST_SEED=N draws the same again.
TEST_FAULTS=full kills 100 times; otherwise 6. Standard library only."""
import json
import math
import os
import pathlib
import random
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "lib"))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from serving import SLOW, Cases, Tandem, scratch  # noqa: E402
from test_tuning import ENDS, JOBS, MODEL, Client  # noqa: E402

TANDEM = os.environ.get("TANDEM_BIN", "build/tandem")
KILLS = 100 if os.environ.get("TEST_FAULTS") == "full" else 6
SEED = int(os.environ.get("TEST_SEED") or random.SystemRandom().randrange(1 << 32))
HYPER = {"n_epochs": 3, "batch_size": 4, "beta": 0.2, "learning_rate_multiplier": 40, "lora_rank": 4,
         "lora_alpha": 8}


def said(role, text):
    return [{"role": role, "content": text}]


def pair(i, good="It is so.", bad="No, it is not."):
    return {"input": {"messages": said("user", f"Is it {i}?")},
            "preferred_output": said("assistant", good),
            "non_preferred_output": said("assistant", bad * (1 + i % 2))}


def lines(rows):
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


PAIRS = lines(pair(i) for i in range(24))


def dpo(**hyper):
    return {"type": "dpo", "dpo": {"hyperparameters": hyper}}


def serve(tmp):
    return Tandem(MODEL, "--name", "tiny", "--data-dir", tmp / "data", "--no-access-log",
                  "--kv-memory", "8M", "--max-lora-rank", "16", "--max-adapters", "32")


def client(server):
    return Client(server, key={})


def metrics(c, job):
    """What the events said of each step, oldest first."""
    events = c.get(f"{JOBS}/{job}/events?limit=1000").json["data"]
    return [e["data"] for e in reversed(events) if e["type"] == "metrics"]


def refused(c, file):
    for more, param in (
            ({"method": dpo(beta=0)}, "method.dpo.hyperparameters.beta"),
            ({"method": dpo(beta="low")}, "method.dpo.hyperparameters.beta"),
            ({"method": dpo(beta=11)}, "method.dpo.hyperparameters.beta"),
            ({"method": dpo(n_epochs=0)}, "method.dpo.hyperparameters.n_epochs"),
            ({"method": dpo(loss="hinge")}, "method.dpo.hyperparameters.loss"),
            ({"method": dpo(gamma=1)}, "method.dpo.hyperparameters.gamma"),
            ({"method": dpo(lora_rank=17)}, "method.dpo.hyperparameters.lora_rank"),
            ({"method": dpo(target_modules=["w_proj"])}, "method.dpo.hyperparameters.target_modules"),
            ({"method": dpo(modules_to_save=["lm_head"])}, "method.dpo.hyperparameters.modules_to_save"),
            ({"method": dpo(training_type="full")}, "method.dpo.hyperparameters.training_type"),
            ({"method": dpo(betta=1)}, "method.dpo.hyperparameters.betta"),
            ({"method": {"type": "dpo", "dpo": {"hyperparameters": []}}}, "method.dpo.hyperparameters"),
            ({"hyperparameters": {"beta": 1}}, "hyperparameters.beta"),
            ({"method": {"type": "supervised", "supervised": {"hyperparameters": {"beta": 1}}}},
             "method.supervised.hyperparameters.beta"),
            ({"method": {"type": "reinforcement"}}, "method.reinforcement.grader"),
            ({"method": {"type": "ppo"}}, "method.type")):
        r = c.make(file, **more)
        assert r.status == 400 and r.error["param"] == param, (more, r)


def bad_rows(c):
    chat = lines([{"messages": said("user", "a") + said("assistant", "b")}])
    for data, code, words in (
            (PAIRS + chat, "invalid_file_format", ("Example 25", "dpo")),
            (PAIRS + lines([{"prompt": "a", "completion": "b"}]), "invalid_file_format", ("Example 25",)),
            (lines([{**pair(1), "preferred_output": said("user", "a")}]) + PAIRS,
             "invalid_training_file", ("Example 1", "preferred_output")),
            (b"\n" + lines([{**pair(1), "input": {}}]) + PAIRS,
             "invalid_training_file", ("Example 1 (line 2)", "input.messages")),
            (lines([{k: v for k, v in pair(1).items() if k != "non_preferred_output"}]) + PAIRS,
             "invalid_training_file", ("Example 1", "non_preferred_output")),
            (lines(pair(i) for i in range(7)), "invalid_n_examples", ("7 example(s)",)),
            (lines(pair(0, "a", "a") for i in range(12)), "no_trainable_tokens", ("the same",))):
        j = c.wait(c.job(c.file(data), method=dpo(**HYPER)))
        assert j["status"] == "failed" and j["error"]["code"] == code, (j, data[:200])
        assert all(w in j["error"]["message"] for w in words), j
    odd = lines([pair(0, "b", "b")]) + PAIRS
    job = c.job(c.file(odd), method=dpo(**HYPER))
    assert c.wait(job)["status"] == "succeeded"
    events = c.get(f"{JOBS}/{job}/events?limit=100").json["data"]
    told = [e for e in events if (e["data"] or {}).get("reason") == "nothing_to_learn"]
    assert told and told[0]["data"]["examples"] == [1], events
    j = c.wait(c.job(c.file(PAIRS), validation_file=c.file(chat), method=dpo(**HYPER)))
    assert j["error"]["code"] == "invalid_validation_file", j
    assert j["error"]["param"] == "validation_file", j


def looked_over(c):
    """The check before a job knows the method, and counts pairs."""
    odd = lines([pair(0, "b", "b"), pair(1), {**pair(2), "input": {}}]) + PAIRS
    for method, faults in (("dpo", [3]), ("supervised", list(range(1, 21)))):
        r = c.ask("POST", "/v1/fine_tuning/check",
                  {"training_file": c.file(odd), "method": {"type": method}})
        assert r.status == 200 and [f["line"] for f in r.json["faults"]] == faults, r
    r = c.ask("POST", "/v1/fine_tuning/check", {"training_file": c.file(lines([pair(0, "b", "b")]) + PAIRS),
                                                "method": {"type": "dpo"}})
    assert r.json["usable"] and r.json["examples"] == 25, r
    assert "1 example(s) have nothing" in r.json["notes"][0], r
    r = c.ask("POST", "/v1/fine_tuning/check", {"training_file": c.file(PAIRS), "method": {"type": "x"}})
    assert r.status == 400 and r.error["param"] == "method.type", r


def learns(c, file, loss):
    hyper = {**HYPER, "loss": loss, "checkpoint_steps": 8}
    if loss == "x_simpo":
        hyper["gamma"] = 0.5
    job = c.job(file, validation_file=file, seed=5, method=dpo(**hyper))
    j = c.done(job)
    shown = j["method"]["dpo"]["hyperparameters"]
    assert j["method"]["type"] == "dpo" and "supervised" not in j["method"], j
    assert shown["beta"] == 0.2 and shown["loss"] == loss and shown == j["hyperparameters"], j
    steps = metrics(c, job)
    assert [m["step"] for m in steps] == list(range(1, 19)), steps
    first, last = steps[0], steps[-1]
    assert "train_mean_token_accuracy" not in first, first
    if loss == "dpo":
        assert first["train_loss"] == round(math.log(2), 6) and first["train_reward_margin"] == 0, first
    assert last["train_loss"] < first["train_loss"], (first, last)
    assert last["train_reward_margin"] > first["train_reward_margin"], (first, last)
    assert last["train_reward_margin"] == round(
        last["train_reward_preferred"] - last["train_reward_non_preferred"], 6) or abs(
        last["train_reward_margin"] - last["train_reward_preferred"]
        + last["train_reward_non_preferred"]) < 2e-6, last
    points = c.get(f"{JOBS}/{job}/checkpoints").json["data"]
    assert points and points[0]["metrics"]["full_valid_reward_accuracy"] == 1, points
    assert points[0]["metrics"]["full_valid_loss"] < first["train_loss"], points
    head, *rest = c.curve(j).decode().splitlines()
    assert head == ("step,train_loss,train_reward_accuracy,train_reward_margin,valid_loss,"
                    "valid_reward_accuracy,valid_reward_margin"), head
    assert len(rest) == 18 and rest[0].startswith("1,%.6f," % first["train_loss"]), rest
    rows = c.get(f"/v1/files/{j['result_files'][1]}/content").body.decode().splitlines()
    assert len(rows) == 1 + 3 * 2 * 24, len(rows)
    assert c.say(j["fine_tuned_model"]).status == 200
    return j


def verdict(i):
    good = i % 3 > 0
    return {"messages": said("user", f"Is it {i}?") + said("assistant", "It is so." if good else "No."),
            "label": good if i % 2 else "desirable" if good else "undesirable"}


VERDICTS = lines(verdict(i) for i in range(24))


def kto(**hyper):
    return dpo(**{**HYPER, "loss": "x_kto", **hyper})


def judged(c, tmp):
    """Rows with a label: what a job makes of them, what is refused, a kill, `tandem train`."""
    for more, param in ((kto(batch_size=1), "batch_size"), (kto(desirable_weight=0), "desirable_weight"),
                        (dpo(undesirable_weight=2), "undesirable_weight"), (kto(gamma=1), "gamma")):
        r = c.make(c.file(VERDICTS), method=more)
        assert r.status == 400 and r.error["param"] == "method.dpo.hyperparameters." + param, (more, r)
    for data, code, words in (
            (VERDICTS + lines([pair(1)]), "invalid_file_format", ("Example 25", "x_kto")),
            (VERDICTS + b"\n" + lines([{**verdict(1), "label": 3}]), "invalid_training_file",
             ("Example 25 (line 26)", "label")),
            (lines([{"prompt": "a", "completion": "b"}]) + VERDICTS, "invalid_training_file",
             ("Example 1", "label"))):
        j = c.wait(c.job(c.file(data), method=kto()))
        assert j["status"] == "failed" and j["error"]["code"] == code, (j, data[:200])
        assert all(w in j["error"]["message"] for w in words), j
    r = c.ask("POST", "/v1/fine_tuning/check",
              {"training_file": c.file(VERDICTS + lines([pair(1)])), "method": kto()})
    assert r.status == 200 and [f["line"] for f in r.json["faults"]] == [25], r
    file = c.file(VERDICTS)
    job = c.job(file, validation_file=file, seed=5, method=kto(undesirable_weight=1.5))
    j = c.done(job)
    shown = j["method"]["dpo"]["hyperparameters"]
    assert shown["loss"] == "x_kto" and shown["desirable_weight"] == 1, shown
    assert shown["undesirable_weight"] == 1.5, shown
    steps = metrics(c, job)
    assert len(steps) == 18 and steps[0]["train_reward_margin"] == 0, steps[0]
    assert steps[-1]["train_loss"] < steps[0]["train_loss"], steps
    points = c.get(f"{JOBS}/{job}/checkpoints").json["data"]
    assert points[0]["metrics"]["full_valid_reward_accuracy"] > 0.9, points
    assert points[0]["metrics"]["full_valid_loss"] < points[-1]["metrics"]["full_valid_loss"], points
    (tmp / "judged.jsonl").write_bytes(VERDICTS)
    p = subprocess.run(
        [TANDEM, "train", "--model", MODEL, "--data", tmp / "judged.jsonl", "--method", "dpo", "--loss",
         "x_kto", "--undesirable-weight", "1.5", "--out", tmp / "judged", "--epochs", "3", "--batch", "4",
         "--beta", "0.2", "--lr", "2e-3", "--rank", "4", "--alpha", "8", "--seed", "5"],
        capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False)
    assert p.returncode == 0, p
    mine = [row.split(",")[:4] for row in (tmp / "judged/steps.csv").read_text().splitlines()]
    assert mine == [row.split(",")[:4] for row in c.curve(j).decode().splitlines()]


def same_rate(c, file, j):
    """A multiplier of 40 is of 5e-5; what is not said is shown, too."""
    hyper = {k: v for k, v in HYPER.items() if k != "learning_rate_multiplier"}
    again = c.done(c.job(file, validation_file=file, seed=5,
                         method=dpo(**hyper, learning_rate=2e-3, checkpoint_steps=8)))
    assert c.curve(again) == c.curve(j)
    for shown in (again["hyperparameters"], j["hyperparameters"]):
        assert abs(shown["learning_rate_multiplier"] - 40) < 1e-9, shown
        assert abs(shown["learning_rate"] - 2e-3) < 1e-15, shown
    r = c.make(file, method=dpo(**HYPER, learning_rate=1e-3))
    assert r.status == 400 and r.error["param"] == "method.dpo.hyperparameters.learning_rate", r


def same_warmup(c, file):
    """A share of the steps is so many of them, rounded up; the first of them changes nothing."""
    curves = [c.curve(c.done(c.job(file, seed=5, method=dpo(**{**HYPER, "n_epochs": 1, **more}))))
              for more in ({"warmup_steps": 3}, {"warmup_ratio": 0.45}, {})]
    assert curves[0] == curves[1] != curves[2], curves
    losses = [row.split(",")[1] for row in curves[0].decode().splitlines()[1:]]
    assert losses[0] == losses[1] == f"{math.log(2):.6f}" != losses[2], losses


def outcome(c, tmp, job):
    """All that a job came to."""
    curve, rows = (c.get(f"/v1/files/{file}/content").body for file in c.done(job)["result_files"])
    return {"curve": curve, "rows": rows,
            "adapter": (tmp / "data/adapters" / job / "adapter_model.safetensors").read_bytes()}


def same(got, want):
    for name, of in want.items():
        lines = [(x, y) for x, y in zip(got[name].splitlines(), of.splitlines()) if x != y]
        assert got[name] == of, (name, len(got[name]), len(of), lines[:1] if name != "adapter" else "other bytes")


def kill(server, seconds):
    time.sleep(seconds)
    server.process.kill()
    server.process.wait()
    server.process.returncode = 0


def killed_often(serve, begin, check):
    """Jobs, one after the other, on servers that are killed while they run. What counts is a kill whose job
    had not ended."""
    draw, n, n_job, job = random.Random(SEED), 0, 0, None
    while True:
        with serve() as s:
            c = client(s)
            n += job is not None and c.look(job)["status"] not in ENDS
            if job and (n == KILLS or c.look(job)["status"] in ENDS):
                check(c, job)
                job, n_job = None, n_job + 1
            if n == KILLS:
                return f"{n} kills of {n_job} jobs"
            job = job or begin(c)
            kill(s, draw.random() * 0.25 * SLOW)


LONG = {**HYPER, "n_epochs": 12, "checkpoint_steps": 5}


def straight(c, tmp, file):
    return outcome(c, tmp, c.job(file, seed=9, method=dpo(**LONG)))


def killed(tmp, file, want):
    """Killed at moments over its whole life."""
    def check(c, job):
        same(outcome(c, tmp, job), want)
        assert [m["step"] for m in metrics(c, job)] == list(range(1, 73)), metrics(c, job)
    return killed_often(lambda: serve(tmp), lambda c: c.job(file, seed=9, method=dpo(**LONG)), check)


def train(tmp, *words):
    (tmp / "pairs.jsonl").write_bytes(PAIRS)
    return subprocess.run(
        [TANDEM, "train", "--model", MODEL, "--data", tmp / "pairs.jsonl", "--method", "dpo",
         *map(str, words)], capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False)


def by_command(c, tmp, job):
    """The same numbers as the job's: its multiplier of 40 is of 5e-5."""
    p = train(tmp, "--out", tmp / "out", "--epochs", 3, "--batch", 4, "--beta", 0.2, "--lr", 2e-3,
              "--rank", 4, "--alpha", 8, "--seed", 5)
    assert p.returncode == 0 and (tmp / "out/adapter/adapter_config.json").exists(), p
    head, *mine = (tmp / "out/steps.csv").read_text().splitlines()
    jobs = c.curve(job).decode().splitlines()
    assert head == jobs[0], head
    cut = [",".join(row.split(",")[:4]) for row in jobs[1:]]
    assert [",".join(row.split(",")[:4]) for row in mine] == cut, (mine, cut)
    for words, told in ((("--rank", 0), "--rank"), (("--loss", "hinge"), "--loss"),
                        (("--beta", -1), "--beta")):
        p = train(tmp, "--out", tmp / "bad", *words)
        assert p.returncode != 0 and told in p.stderr, p
    (tmp / "rows.jsonl").write_bytes(lines([{"prompt": "a", "completion": "b"}]))
    p = train(tmp, "--data", tmp / "rows.jsonl", "--out", tmp / "bad")
    assert p.returncode != 0 and "Example 1" in p.stderr and "dpo" in p.stderr, p


def by_tune(server, tmp, rows=PAIRS, *more):
    (tmp / "pairs.jsonl").write_bytes(rows)
    p = subprocess.run(
        [TANDEM, "tune", tmp / "pairs.jsonl", "--url", f"http://127.0.0.1:{server.port}", "--method",
         "dpo", "--beta", "0.2", "--epochs", "1", *more, "--follow"], capture_output=True, text=True,
        stdin=subprocess.DEVNULL, check=False)
    assert p.returncode == 0 and p.stdout.startswith("ft:tiny:"), p


def lives(tmp, cases):
    kept = {}
    with serve(tmp) as s:
        c = client(s)
        file = c.file(PAIRS)
        cases.run("wrong fields", lambda: refused(c, file))
        cases.run("wrong rows", lambda: bad_rows(c))
        cases.run("looked over", lambda: looked_over(c))
        for loss in ("dpo", "x_ipo", "x_orpo", "x_simpo"):
            cases.run(loss, lambda loss=loss: kept.update({loss: learns(c, file, loss)}))
        cases.run("x_kto", lambda: judged(c, tmp))
        cases.run("x_kto by tandem tune", lambda: by_tune(s, tmp, VERDICTS, "--loss", "x_kto"))
        cases.run("learning_rate", lambda: same_rate(c, file, kept["dpo"]))
        cases.run("warm-up", lambda: same_warmup(c, file))
        cases.run("tandem tune", lambda: by_tune(s, tmp))
        cases.run("tandem train", lambda: by_command(c, tmp, kept["dpo"]))
        cases.run("straight", lambda: kept.update(want=straight(c, tmp, file)))
    cases.run(f"killed as straight, TEST_SEED={SEED}", lambda: killed(tmp, file, kept["want"]))


def main():
    cases = Cases()
    with scratch() as tmp:
        lives(tmp, cases)
    return cases.end()


if __name__ == "__main__":
    sys.exit(main())
