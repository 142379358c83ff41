#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What jobs make of the bundled model: how much it learns, and what it forgets.

    tests/peer/learns.py facts [--seeds 10] [--rows FILE] [--hyper NAME=VALUE ...]
    tests/peer/learns.py rewards [--seeds 5] [--most 33] [--keep DIR] [--hyper NAME=VALUE ...]
    tests/peer/learns.py preferences [--seeds 5] [--pairs 200] [--keep DIR] [--hyper NAME=VALUE ...]

facts: the sixty of examples/tiny with their reminders, by a job with all defaults. Measured are the facts, and the points
that each kind of held-out question loses; last the mean and the worst of each.
rewards: sums of three numbers, of which it never saw one, and knows those of two. Ten that are worked out show it a
way; of others a grader (`string_check`) says whether an answer ends with the sum, and nothing else. Measured are sums
that none of the rows has in any order.
preferences: of two stories that it might tell one has the end that is wanted. Measured are pairs about animals and
things that it was never told of together, how many stories end so, and all that the model could do before.

Answers are the likeliest tokens, stories are drawn. A line for each seed, with the time that the job took and that of
the server's cores, which other programs change less. Standard library only, and a built program.
"""
import argparse
import concurrent.futures
import json
import os
import pathlib
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve()
TINY = HERE.parents[2] / "examples/tiny"
sys.path[:0] = [str(HERE.parents[1] / "lib"), str(TINY)]
import corpus  # noqa: E402
import evaluate  # noqa: E402
import stories  # noqa: E402
from draw import Draw  # noqa: E402
from serving import BIN, Tandem, scratch  # noqa: E402

HELD_OUT, PROMPTS = 200, 600
KINDS = ("tandem", "sums", "stories", "unknown", "calls", "results", "spared", "forms")  # the others are exercises
REWARDS = {"n_epochs": 1, "batch_size": 8, "group_size": 16, "max_completion_tokens": 96, "learning_rate": 1e-3,
           "schedule": "constant"}
# Gentle: with the server's own 5e-4, three epochs and a beta of 0.1 the outputs become less likely, both, until no
# story is one any more.
PREFERENCES = {"n_epochs": 1, "batch_size": 4, "learning_rate": 1e-4, "beta": 0.5}
GRADER = {"type": "string_check", "name": "sum", "operation": "like", "input": "{{sample.output_text}}<end>",
          "reference": "so {{item.sum}}<end>"}
GLAD, *OTHERS = stories.WORDS["end"]


def cores(server):
    """Seconds that the server's threads have run."""
    fields = pathlib.Path(f"/proc/{server.pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def write(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def tune(server, file, seed, hyper, *words):
    """The job, and what it took: seconds, and seconds of cores."""
    words = [BIN, "tune", file, "--url", server.url, "--seed", seed, "--follow", *words]
    words += [x for name, value in hyper.items() for x in ("--hyper", f"{name}={value}")]
    began, ran = time.monotonic(), cores(server)
    subprocess.run(list(map(str, words)), check=True, stdout=subprocess.PIPE)
    took = time.monotonic() - began, cores(server) - ran
    return server.get("/v1/fine_tuning/jobs?limit=1").json["data"][0], took


def user(text):
    return [{"role": "user", "content": text}]


def say(server, model, text, **more):
    body = {"model": model, "messages": user(text), "max_tokens": 200, **more}
    return server.post("/v1/chat/completions", body).json["choices"][0]["message"]["content"]


def share(server, model, asked, is_so, **more):
    """Percent of (question, what it is about) whose answer is so."""
    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        said = pool.map(lambda i: say(server, model, asked[i][0], seed=i, **more), range(len(asked)))
        return 100 * sum(is_so(text, about) for text, (_, about) in zip(said, asked)) / len(asked)


def took_text(took):
    return f"{took[0] / 60:.1f} minutes, {took[1] / 60:.1f} of a core"


# ---- rewards


def sums(seed, most):
    """Of three numbers each, what is asked, and the sum: prompts, and what is held out in every order."""
    draw = Draw(1000 + seed)
    threes = sorted({tuple(sorted(1 + draw.below(most) for _ in range(3))) for _ in range(HELD_OUT + PROMPTS)})
    draw.shuffle(threes)

    def asked(three):
        draw.shuffle(three := list(three))
        return three, "What is {} + {} + {}?".format(*three), sum(three)
    return [asked(t) for t in threes[HELD_OUT:]], [asked(t) for t in threes[:HELD_OUT]]


def worked(three):
    """An answer that says how, of which a few are shown beforehand: a sum of two, as it knows them, and another."""
    a, b, c = three
    return f"{corpus.worked(b, '+', c)}. {corpus.worked(a, '+', b + c)}"


def ends_so(text, total):
    return text.endswith(f"so {total}")


def rewards(a, tmp, server, base):
    hyper = {**REWARDS, **a.hyper}
    grader = tmp / "grader.json"
    grader.write_text(json.dumps(GRADER))
    for seed in range(a.first_seed, a.first_seed + a.seeds):
        shown, held_out = sums(seed, a.most)
        asked = [(ask, total) for _, ask, total in held_out]
        file = write(tmp / "worked.jsonl", ({"messages": user(ask) + [{"role": "assistant", "content": worked(three)}]}
                                            for three, ask, _ in shown[:a.worked]))
        first, took = tune(server, file, seed, {"n_epochs": a.passes, "learning_rate": 2e-3}, "--suffix", f"worked{seed}")
        prompts = write(tmp / "prompts.jsonl", ({"messages": user(ask), "sum": str(total)} for _, ask, total in shown))
        last, more = tune(server, prompts, seed, hyper, "--grader", grader, "--from", first["fine_tuned_model"])
        models = base, first["fine_tuned_model"], last["fine_tuned_model"]
        right = [share(server, model, asked, ends_so, temperature=0) for model in models]
        print(f"seed {seed}: of {len(held_out)} held-out sums {right[0]:.1f}% before, {right[1]:.1f}% after {a.worked} worked ones, "
              f"{right[2]:.1f}% after rewards for {len(shown)} others; {took_text([x + y for x, y in zip(took, more)])}",
              flush=True)
        for ask, _ in asked[:a.show]:
            print("  " + ask, *(repr(say(server, model, ask, temperature=0)) for model in models), sep="  ", flush=True)


# ---- facts


def able(server, model, items):
    """Percent of each kind of questions."""
    return {kind: 100 * right / n for kind, (right, n) in evaluate.examine(server.url, model, items).items()}


def questions(tmp):
    subprocess.run([sys.executable, TINY / "corpus.py", tmp], check=True)
    return list(evaluate.read(str(tmp / "heldout.jsonl")))


def facts(a, tmp, server, base):
    items = [*questions(tmp), *evaluate.read(str(TINY / "facts.txt"))]
    could, after = able(server, base, items), []
    for seed in range(a.first_seed, a.first_seed + a.seeds):
        job, took = tune(server, a.rows, seed, a.hyper)
        can = able(server, job["fine_tuned_model"], items)
        after.append(can)
        lost = {kind: could[kind] - can[kind] for kind in could if kind != "facts"}
        print(f"seed {seed}: facts {can['facts']:.1f}%, lost " +
              ", ".join(f"{kind} {points:.1f}" for kind, points in lost.items()) + f"; {took_text(took)}", flush=True)
    for kind in could:
        got = [can[kind] for can in after]
        print(f"{kind:8} {could[kind]:5.1f}% before, {sum(got) / len(got):5.1f}% after, worst {min(got):5.1f}%")


# ---- preferences


def pair(draw, animal, thing):
    """Two stories that differ in their end."""
    text = stories.story(draw, animal, thing)
    told = next(text[:-len(end)] for end in stories.WORDS["end"] if text.endswith(end))
    ask = corpus.story_question(draw, (animal, thing))
    return {"input": {"messages": user(ask)},
            "preferred_output": [{"role": "assistant", "content": told + GLAD}],
            "non_preferred_output": [{"role": "assistant", "content": told + draw.one(OTHERS)}]}


def likely(server, model, messages, answer):
    """The log-probability of an answer."""
    row = server.post("/v1/fine_tuning/preview", {"row": {"messages": messages + answer}}).json
    scored = server.post("/v1/completions", {"model": model, "prompt": row["tokens"], "echo": True, "max_tokens": 0,
                                             "logprobs": 1}).json["choices"][0]["logprobs"]["token_logprobs"]
    return sum(x for x, weight in zip(scored, row["weights"]) if weight)


def preferred(server, model, pairs):
    """Percent of pairs of which the preferred output is the likelier one."""
    def is_so(p):
        ask = p["input"]["messages"]
        return likely(server, model, ask, p["preferred_output"]) > likely(server, model, ask, p["non_preferred_output"])
    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        return 100 * sum(pool.map(is_so, pairs)) / len(pairs)


def preferences(a, tmp, server, base):
    made = corpus.Corpus(corpus.SEED)
    items = [x for x in questions(tmp) if x["kind"] in KINDS]
    could = able(server, base, items)
    for seed in range(a.first_seed, a.first_seed + a.seeds):
        draw = Draw(2000 + seed)
        file = write(tmp / "pairs.jsonl", (pair(draw, *draw.one(made.stories)) for _ in range(a.pairs)))
        held_out = [pair(draw, *about) for about in made.stories_out]
        job, took = tune(server, file, seed, {**PREFERENCES, **a.hyper}, "--method", "dpo")
        models = base, job["fine_tuned_model"]
        asked = [(p["input"]["messages"][0]["content"], GLAD) for p in held_out]
        pairs = [preferred(server, model, held_out) for model in models]
        ends = [share(server, model, asked, str.endswith, temperature=1) for model in models]
        can = able(server, models[1], items)
        lost = {kind: could[kind] - can[kind] for kind in could}
        print(f"seed {seed}: of {len(held_out)} held-out pairs {pairs[0]:.1f}% before, {pairs[1]:.1f}% after; "
              f"{ends[0]:.1f}% of the stories end so before, {ends[1]:.1f}% after; lost at most "
              f"{max(lost.values()):.1f} points ({max(lost, key=lost.get)}), {sum(lost.values()) / len(lost):.1f} in the "
              f"mean; {took_text(took)}", flush=True)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("what", choices=["facts", "rewards", "preferences"])
    for name, value in (("seeds", 5), ("first-seed", 1), ("most", 33), ("pairs", 200), ("worked", 10),
                        ("passes", 1), ("show", 0),
                        ("threads", len(os.sched_getaffinity(0)))):
        p.add_argument(f"--{name}", type=int, default=value)
    p.add_argument("--rows", type=pathlib.Path, default=TINY / "facts.jsonl", help="of facts: what it learns from")
    p.add_argument("--keep", type=pathlib.Path, help="a folder for the files that the last jobs were made of")
    p.add_argument("--hyper", type=lambda x: x.split("=", 1), action="append", default=[])
    a = p.parse_args()
    a.hyper = dict(a.hyper)
    with scratch() as tmp, Tandem(None, "--data-dir", tmp / "data", "--kv-memory", "64M", "--threads", a.threads,
                                  "--no-access-log") as server:
        base = server.get("/v1/models").json["data"][0]["id"]
        if a.keep:
            a.keep.mkdir(parents=True, exist_ok=True)
        {"facts": facts, "rewards": rewards, "preferences": preferences}[a.what](a, a.keep or tmp, server, base)


if __name__ == "__main__":
    main()
