#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Jobs of the method reinforcement over loopback: prompts that are answered by the server that trains,
graded, and learned from; what is wrong with a job's fields or a file's rows; pauses, kills, and other
streams beside it.

Faults they can catch: a sample's log-probability that is not the trained one; a reward that does not
rise; samples that depend on who else is served, so that a job that was killed ends as another; a
server that stands still while a job samples; a name that is still there when its job is over.

When a kill comes is drawn from a seed that the case names; TEST_SEED=N draws the same again.
TEST_FAULTS=full kills 100 times; otherwise 6. Standard library only."""
import json
import pathlib
import shutil
import subprocess
import sys
import threading

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "lib"))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from serving import BIN, SLOW, Cases, Tandem, scratch  # noqa: E402
from test_preferences import SEED, client, killed_often, lines, metrics, outcome, said, same  # noqa: E402
from test_tuning import ENDS, JOBS, MODEL  # noqa: E402

# The model is of random numbers, and the letter is one that it says now and then.
GRADER = {"type": "string_check", "name": "says", "input": "{{sample.output_text}}",
          "reference": "{{item.wanted}}", "operation": "like"}
HYPER = {"n_epochs": 2, "batch_size": 4, "group_size": 8, "max_completion_tokens": 12, "lora_rank": 4,
         "learning_rate": 0.01, "schedule": "constant"}


def prompt(i, wanted="e"):
    return {"messages": said("user", f"Say {i}"), "wanted": wanted}


PROMPTS = lines(prompt(i) for i in range(24))
VALID = lines(prompt(i) for i in range(100, 108))


def method(grader=GRADER, **hyper):
    return {"type": "reinforcement", "reinforcement": {
        "grader": grader, "hyperparameters": {**HYPER, **hyper}}}


def serve(tmp, *more):
    return Tandem(MODEL, "--name", "tiny", "--data-dir", tmp / "data", "--no-access-log",
                  "--kv-memory", "8M", "--max-lora-rank", "16", "--max-adapters", "64", *more)


def numbers(c, job):
    return [{k: d[k] for k in d if k not in ("tokens_per_second", "estimated_finish")}
            for d in metrics(c, job)]


def on_policy(steps):
    """What was sampled is what is trained: each ratio is 1, and none is clipped."""
    assert steps and not any(m["off_policy_tokens"] or m["clipped_share"] for m in steps), steps


def learns(c, advantage):
    """From one sample in two to all."""
    job = c.done(c.job(c.file(PROMPTS), seed=1, method=method(n_epochs=4, advantage=advantage,
                                                              kl_weight=0.01 if advantage == "grpo" else 0)))
    shown = job["method"]["reinforcement"]
    assert shown["grader"] == GRADER and shown["hyperparameters"]["group_size"] == 8, job
    assert shown["hyperparameters"] == job["hyperparameters"], job
    assert shown["hyperparameters"]["advantage"] == advantage, job
    steps = numbers(c, job["id"])
    assert [m["step"] for m in steps] == list(range(1, 25)), steps
    on_policy(steps)
    for m in steps:  # what is shown of a step is what was graded
        assert len(m["samples"]) == 4 and m["prompt"].startswith("Say "), m
        assert all(s["reward"] == ("e" in s["text"]) and not s["is_cut"] for s in m["samples"]), m
    reward = [m["train_reward_mean"] for m in steps]
    assert sum(reward[:3]) / 3 < 0.75 and sum(reward[-3:]) / 3 > 0.95, reward
    assert steps[0]["train_kl"] == 0 and (steps[-1]["train_kl"] > 0) == (advantage == "grpo"), steps
    head, *rest = c.curve(job).decode().splitlines()
    assert head == ("step,train_loss,train_reward_mean,train_reward_std,clipped_share,"
                    "completion_tokens_mean,train_kl"), head
    assert [float(r.split(",")[2]) for r in rest] == reward, rest
    said_it = sum("e" in c.ask("POST", "/v1/chat/completions", {
        **TALK, "model": job["fine_tuned_model"], "messages": said("user", f"Say {i}"), "seed": i,
        "max_tokens": 12}).json["choices"][0]["message"]["content"] for i in range(100, 120))
    assert said_it >= 18, said_it
    names = [m["id"] for m in c.get("/v1/models").json["data"]]
    assert job["fine_tuned_model"] in names and not any(n.endswith(":policy") for n in names), names
    return job


def refused(c, file):
    where = "method.reinforcement.hyperparameters."
    for more, param in (
            ({"method": {"type": "reinforcement"}}, "method.reinforcement.grader"),
            ({"method": method({**GRADER, "operation": "x"})}, "method.reinforcement.grader.operation"),
            ({"method": method({**GRADER, "type": "python"})}, "method.reinforcement.grader.input"),
            ({"method": method(group_size=1)}, where + "group_size"),
            ({"method": method(group_size=65)}, where + "group_size"),
            ({"method": method(max_completion_tokens=0)}, where + "max_completion_tokens"),
            ({"method": method(advantage="ppo")}, where + "advantage"),
            ({"method": method(clip_range=0)}, where + "clip_range"),
            ({"method": method(kl_weight=-1)}, where + "kl_weight"),
            ({"method": method(kl_weigth=1)}, where + "kl_weigth"),
            ({"method": method(beta=1)}, where + "beta"),
            ({"method": method(eval_interval=5)}, where + "eval_interval"),
            ({"method": method(eval_samples=5)}, where + "eval_samples"),
            ({"method": method(compute_multiplier=2)}, where + "compute_multiplier"),
            ({"method": method(group_size="auto", compute_multiplier=9)}, where + "compute_multiplier"),
            ({"method": method(reasoning_effort="high")}, where + "reasoning_effort"),
            ({"method": method(training_type="full")}, where + "training_type"),
            ({"method": method(eval_samples=65), "validation_file": file}, where + "eval_samples"),
            ({"method": method(eval_interval=0), "validation_file": file}, where + "eval_interval"),
            ({"method": method(result="best")}, where + "result"),
            ({"method": method(early_stopping=1)}, where + "early_stopping"),
            ({"hyperparameters": {"group_size": 4}}, "hyperparameters.group_size")):
        r = c.make(file, **more)
        assert r.status == 400 and r.error["param"] == param, (more, r)
    for shape in ("json", {"type": "xml"}, {"type": "json_schema"},
                  {"type": "json_schema", "json_schema": {"schema": {"type": "nothing"}}}):
        r = c.make(file, method=shaped(shape))
        assert r.status == 400 and r.error["param"] == "method.reinforcement.response_format", r


def shaped(shape, **hyper):
    m = method(**hyper)
    m["reinforcement"]["response_format"] = shape
    return m


def only_of_its_shape(c):
    """A sample that is no such JSON is worth nothing, whatever its grader says; one that is, is graded."""
    number = {"type": "json_schema", "json_schema": {"name": "n", "schema": {"type": "number"}}}
    job = c.done(c.job(c.file(PROMPTS), seed=1, method=shaped(number, n_epochs=1)))
    assert job["method"]["reinforcement"]["response_format"] == number, job
    for m in numbers(c, job["id"]):
        assert m["train_reward_mean"] == 0 and m["ungraded_samples"] > 28, m
        assert set(m["grader_errors"]) == {"sample_parse_error"}, m
    plain = c.done(c.job(c.file(PROMPTS), seed=1, method=method(n_epochs=1)))
    free = c.done(c.job(c.file(PROMPTS), seed=1, method=shaped({"type": "text"}, n_epochs=1)))
    assert numbers(c, plain["id"]) == numbers(c, free["id"])


def times_eight(c):
    job = c.done(c.job(c.file(PROMPTS), seed=1, method=method(n_epochs=1, group_size="auto",
                                                              compute_multiplier=0.5)))
    assert job["hyperparameters"]["group_size"] == 4, job
    assert job["hyperparameters"]["compute_multiplier"] == 0.5, job


def bad_rows(c):
    for row, words in (({"wanted": "e"}, ("Example 25", "messages")),
                       ({"messages": "x"}, ("Example 25", "messages")),
                       ({"messages": said("user", "a") + said("assistant", "b")}, ("Example 25", "assistant")),
                       (prompt("a " * 60), ("Example 25", "both may have 64"))):
        data = PROMPTS + lines([row])
        j = c.wait(c.job(c.file(data), method=method()))
        assert j["status"] == "failed" and j["error"]["param"] == "training_file", j
        assert all(w in j["error"]["message"] for w in words), (words, j)
    r = c.ask("POST", "/v1/fine_tuning/check", {"training_file": c.file(PROMPTS + lines([{"a": 1}])),
                                                "method": {"type": "reinforcement"}})
    assert r.status == 200 and [f["line"] for f in r.json["faults"]] == [25], r
    c.done(c.job(c.file(PROMPTS + lines([prompt("a " * 60)])),
                 method=method(n_epochs=1, long_rows="refuse", learning_rate_multiplier="auto")))


def all_alike(c, tmp):
    """No sample is better than another: the steps count, and teach nothing."""
    never = {**GRADER, "reference": "{{item.none}}"}
    job = c.done(c.job(c.file(PROMPTS), seed=1, method=method(never, n_epochs=1)))
    steps = numbers(c, job["id"])
    assert [m["ungraded_samples"] for m in steps] == [32] * 6, steps
    assert all(m["train_reward_mean"] == 0 == m["train_loss"] for m in steps), steps
    rows = c.get(f"/v1/files/{job['result_files'][1]}/content").body.decode().splitlines()
    losses = [float(r.split(",")[rows[0].split(",").index("loss")]) for r in rows[1:]]
    assert len(losses) == 6 * 32 and min(losses) > 0 and len(set(losses)) > 32, losses[:9]
    twice = c.job(c.file(PROMPTS), seed=1, method=method(never, n_epochs=2))
    # the values that both began with
    assert outcome(c, tmp, twice)["adapter"] == outcome(c, tmp, job["id"])["adapter"]


def what_the_server_can(tmp):
    """What cannot run here is refused with its field; a job that finds no place for its adapter says so."""
    where = "method.reinforcement.hyperparameters.group_size"
    for options, param in ((("--max-waiting", "4"), where), (("--tp", "2"), "method.type")):
        with serve(tmp / "can", *options) as s:
            c = client(s)
            r = c.make(c.file(PROMPTS), method=method(group_size=8))
            assert r.status == 400 and r.error["param"] == param and options[0] in r.error["message"], r
    with serve(tmp / "full") as s:
        c = client(s)
        rows = lines({"prompt": "a b", "completion": "b a"} for _ in range(10))
        job = c.done(c.job(c.file(rows), hyperparameters={"n_epochs": 1}))["id"]
    shutil.copytree(tmp / "full/data/adapters" / job, tmp / "loaded")
    with serve(tmp / "full", "--max-adapters", "1", "--adapter", f"one={tmp / 'loaded'}") as s:
        c = client(s)
        j = c.wait(c.job(c.file(PROMPTS), method=method(n_epochs=1)))
        assert j["status"] == "failed" and j["error"]["code"] == "adapters_limit", j
        assert "adapters are loaded" in j["error"]["message"], j


def multi(formula, **graders):
    return {"type": "multi", "name": "several", "graders": graders, "calculate_output": formula}


def too_large(c):
    """Rewards whose sums and squares are no numbers: none of them counts, and events say so in JSON."""
    for large in ("1e308", "1e160", "-1e31"):
        job = c.done(c.job(c.file(PROMPTS), seed=1, method=method(multi(f"{large} + 0 * said", said=GRADER),
                                                                  n_epochs=1)))
        for m in numbers(c, job["id"]):
            assert m["ungraded_samples"] == 32 and m["train_reward_mean"] == m["train_reward_std"] == 0, m
    job = c.done(c.job(c.file(PROMPTS), seed=1, method=method(multi("1e30 * said", said=GRADER), n_epochs=1)))
    assert any(m["train_reward_std"] > 1e28 for m in numbers(c, job["id"])), job


def generated(c):
    said = c.get("/metrics").body.decode().split("\ntandem_generation_tokens_total{", 1)[1]
    return int(said.split("} ", 1)[1].split("\n", 1)[0])


def ended_in_grading(c):
    """By a grader of a second for a sample, of which the first step has a thousand."""
    alike = {"type": "text_similarity", "name": "alike", "input": "{{sample.output_text}} {{item.long}}",
             "reference": "{{item.long}}", "evaluation_metric": "rouge_l"}
    slow = multi("a", **{k: alike for k in "abcdefgh"})
    data = lines({**prompt(i), "long": "a b " * 5000} for i in range(16))
    before = generated(c)
    job = c.job(c.file(data), method=method(slow, batch_size=16, group_size=64, max_completion_tokens=1))
    while generated(c) < before + 16 * 64:
        assert c.look(job)["status"] not in ENDS, c.look(job)
    assert c.ask("POST", f"{JOBS}/{job}/cancel").status == 200
    c.wait(job, ("cancelled",))


def by_tune(server, c, tmp):
    """The same from the command line."""
    (tmp / "prompts.jsonl").write_bytes(PROMPTS)
    (tmp / "grader.json").write_text(json.dumps(GRADER))
    p = subprocess.run([BIN, "tune", tmp / "prompts.jsonl", "--url", f"http://127.0.0.1:{server.port}",
                        "--grader", tmp / "grader.json", "--group", "4", "--max-tokens", "12", "--epochs", "1",
                        "--batch", "4", "--seed", "1", "--rank", "4", "--lr", "0.01", "--hyper",
                        "schedule=constant", "--follow"],
                       capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False)
    assert p.returncode == 0 and p.stdout.startswith("ft:tiny:"), p
    same = c.done(c.job(c.file(PROMPTS), seed=1, method=method(n_epochs=1, group_size=4)))
    last = c.get(JOBS).json["data"][1]["id"]
    assert numbers(c, last) == numbers(c, same["id"])


def beside(server, c):
    alone = c.ask("POST", "/v1/chat/completions", TALK).json["choices"]
    ends, seen = threading.Event(), []

    def talk():
        while not ends.is_set():
            seen.append(client(server).ask("POST", "/v1/chat/completions", TALK).json["choices"])

    threads = [threading.Thread(target=talk) for _ in range(8)]
    for t in threads:
        t.start()
    try:
        first, second = [c.job(c.file(PROMPTS), seed=4, method=method(n_epochs=1)) for _ in range(2)]
        jobs = [c.done(first), c.done(second)]
    finally:
        ends.set()
        for t in threads:
            t.join()
    assert seen and all(s == alone for s in seen), (alone, seen[:3])
    curves = [numbers(c, j["id"]) for j in jobs]
    assert curves[0] == curves[1], curves
    on_policy(curves[0])
    return curves[0]


TALK = {"model": "tiny", "messages": said("user", "Who is it?"), "seed": 3, "max_tokens": 24,
        "temperature": 1, "logprobs": True}


def bases(tmp):
    """Whatever the base is packed in, and whoever is served beside it."""
    alone = {}
    for kind in ("bf16", "int8", "int4"):
        with serve(tmp / kind, "--quantize", kind) as s:
            c = client(s)
            quiet = c.done(c.job(c.file(PROMPTS), seed=4, method=method(n_epochs=1)))
            alone[kind] = numbers(c, quiet["id"])
            on_policy(alone[kind])
            assert beside(s, c) == alone[kind], kind
    assert alone["bf16"] != alone["int4"]


def short_queue(tmp):
    """A job leaves the queue to others, however many samples its steps have, and waits while it is
    full."""
    ends, seen = threading.Event(), []
    with serve(tmp / "short", "--max-seqs", "4", "--max-waiting", "24", "--queue-timeout", "0.2") as s:
        c = client(s)

        def talk():
            while not ends.is_set():
                seen.append(client(s).ask("POST", "/v1/chat/completions", TALK).status)

        job = c.job(c.file(PROMPTS), seed=4, method=method(n_epochs=1, batch_size=24, group_size=16))
        threads = [threading.Thread(target=talk) for _ in range(4)]
        for t in threads:
            t.start()
        try:
            steps = numbers(c, c.done(job)["id"])
        finally:
            ends.set()
            for t in threads:
                t.join()
    assert seen and set(seen) == {200}, seen
    with serve(tmp / "wide") as s:
        c = client(s)
        wide = c.done(c.job(c.file(PROMPTS), seed=4, method=method(n_epochs=1, batch_size=24, group_size=16)))
        assert numbers(c, wide["id"]) == steps


def one_place(tmp):
    """Where one adapter may be loaded, the result takes the place of what was sampled from."""
    with Tandem(MODEL, "--name", "tiny", "--data-dir", tmp / "one", "--no-access-log", "--kv-memory", "8M",
                "--max-adapters", "1") as s:
        c = client(s)
        job = c.done(c.job(c.file(PROMPTS), seed=1, method=method(n_epochs=1)))
        r = c.ask("POST", "/v1/chat/completions", {**TALK, "model": job["fine_tuned_model"]})
        assert r.status == 200, (r, c.get(f"{JOBS}/{job['id']}/events").body)


def ended(c):
    """Paused and cancelled in the middle of its samples, which are many and long."""
    long = method(n_epochs=50, max_completion_tokens=40, group_size=64, batch_size=24,
                  grader={**GRADER, "reference": "never said"})
    job = c.job(c.file(PROMPTS), seed=2, method=long)
    c.wait(job, ("running",))
    r = c.ask("POST", f"{JOBS}/{job}/pause")
    assert r.status == 200 and r.json["status"] == "paused", r
    assert c.ask("POST", f"{JOBS}/{job}/resume").status == 200
    c.wait(job, ("running",))
    r = c.ask("POST", f"{JOBS}/{job}/cancel")
    assert r.status == 200 and r.json["status"] == "cancelled", r
    assert not any(m["id"].endswith(":policy") for m in c.get("/v1/models").json["data"])


KEPT = {"n_epochs": 3, "checkpoint_steps": 2, "eval_interval": 5, "eval_samples": 2, "result": "best"}
LOOKED_AT = [2, 4, 5, 6, 8, 10, 12, 14, 15, 16, 18]


def looks(c, job):
    """What the validation file's prompts were worth, by the step, as often as it was told."""
    events = c.get(f"{JOBS}/{job}/events?limit=1000").json["data"]
    told = [e["data"] for e in reversed(events) if e["type"] == "message" and e["data"]
            and "full_valid_samples" in e["data"]]
    return [(d["step"], d["full_valid_reward_mean"], d["full_valid_samples"]) for d in told]


def paused(c, tmp, file, want):
    """Halted again and again, in samples, in looks and in steps: it ends as one that was not."""
    job = c.job(file, validation_file=c.file(VALID), seed=9, method=method(**KEPT))
    for i in range(5):
        c.wait(job, ("running", *ENDS))
        threading.Event().wait(0.03 + 0.05 * i)
        if c.ask("POST", f"{JOBS}/{job}/pause").status == 200:
            c.ask("POST", f"{JOBS}/{job}/resume")
    check(c, tmp, job, want)


def check(c, tmp, job, want):
    same(outcome(c, tmp, job), want[0])
    assert [m["step"] for m in numbers(c, job)] == list(range(1, 19)), numbers(c, job)
    assert sorted(set(looks(c, job))) == want[1], looks(c, job)


def straight(c, tmp, file):
    j = c.done(c.job(file, validation_file=c.file(VALID), seed=9, method=method(**KEPT)))
    told = looks(c, j["id"])
    assert [step for step, _, n in told if n == 16] == LOOKED_AT, told
    assert told[0][1] < 0.7 < told[-1][1], told
    best = max(told, key=lambda look: look[1])  # the first of those that are alike
    events = [e["message"] for e in c.get(f"{JOBS}/{j['id']}/events?limit=100").json["data"]]
    assert f"The result is that of step {best[0]}, with the highest validation reward, {best[1]:.4f}" in events
    points = c.get(f"{JOBS}/{j['id']}/checkpoints").json["data"]
    assert all(p["metrics"]["full_valid_reward_mean"] == dict((s, r) for s, r, _ in told)[p["step_number"]]
               for p in points) and points, points
    shown = j["hyperparameters"]
    assert shown["eval_interval"] == 5 and shown["eval_samples"] == 2, shown
    return outcome(c, tmp, j["id"]), told


def killed(tmp, file, want):
    """Killed at moments over its whole life, in samples and in steps."""
    def begin(c):
        return c.job(file, validation_file=c.file(VALID), seed=9, method=method(**KEPT))
    return killed_often(lambda: serve(tmp), begin, lambda c, job: check(c, tmp, job, want))


def stopped(tmp, file, want):
    """A server that is told to end lets go of its samples, and the job goes on in the next."""
    with serve(tmp) as s:
        c = client(s)
        job = c.job(file, validation_file=c.file(VALID), seed=9, method=method(**KEPT))
        c.wait_step(job, 2)
        s.process.terminate()
        assert s.process.wait(60 * SLOW) == 0
        s.process.returncode = 0
    with serve(tmp) as s:
        check(client(s), tmp, job, want)


def lives(tmp, cases):
    kept = {}
    with serve(tmp) as s:
        c = client(s)
        file = c.file(PROMPTS)
        cases.run("wrong fields", lambda: refused(c, file))
        cases.run("wrong rows", lambda: bad_rows(c))
        for kind in ("grpo", "dr_grpo", "rloo"):
            cases.run(f"{kind} learns", lambda kind=kind: learns(c, kind))
        cases.run("all alike", lambda: all_alike(c, tmp))
        cases.run("too large", lambda: too_large(c))
        cases.run("only of its shape", lambda: only_of_its_shape(c))
        cases.run("times eight", lambda: times_eight(c))
        cases.run("by tune", lambda: by_tune(s, c, tmp))
        cases.run("ended", lambda: ended(c))
        cases.run("ended in grading", lambda: ended_in_grading(c))
        cases.run("beside streams", lambda: beside(s, c))
        cases.run("straight", lambda: kept.update(want=straight(c, tmp, file)))
        cases.run("paused as straight", lambda: paused(c, tmp, file, kept["want"]))
    cases.run(f"killed as straight, TEST_SEED={SEED}", lambda: killed(tmp, file, kept["want"]))
    cases.run("stopped as straight", lambda: stopped(tmp, file, kept["want"]))
    cases.run("one place", lambda: one_place(tmp))
    cases.run("short queue", lambda: short_queue(tmp))
    cases.run("what the server can", lambda: what_the_server_can(tmp))
    cases.run("bases", lambda: bases(tmp))


def main():
    cases = Cases()
    with scratch() as tmp:
        lives(tmp, cases)
    return cases.end()


if __name__ == "__main__":
    sys.exit(main())
