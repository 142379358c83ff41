#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What epochs and rows of a step do to files of some sizes: the rule by which the server chooses them beside others.

    tests/peer/epochs.py [--sizes 20,60,100,200,1000] [--seeds 5] [--tasks facts,homes,moods,ends] [--keep FILE]

The bundled model is tuned on four tasks, everything but epochs and batch as the server chooses it:

    facts   the sixty of examples/tiny, with their reminders; the share of them that is known to the letter
    homes   as many made-up people and where they live, nothing else; the share of (at most 60 of) them
    moods   what somebody does says how they feel: the loss of 60 rows that were held out
    ends    the first and the last of some words; the same

A line for each task, size and rule: epochs, rows of a step, steps, the mean over the seeds, the worst of them, and of
losses the mean of each seed's best epoch. What two rules choose alike is trained once. --keep has the results of
those before, and gets those of this run. Standard library only, and a built program.
"""
import argparse
import json
import pathlib
import statistics
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve()
TINY = HERE.parents[2] / "examples/tiny"
sys.path[:0] = [str(HERE.parents[1] / "lib"), str(TINY)]
import evaluate  # noqa: E402
from draw import Draw  # noqa: E402
from serving import BIN, Tandem, scratch  # noqa: E402

HELD_OUT = 60
SEED = 26


def whole(n, steps, epochs_most):
    """The fewest epochs, and for them the largest batches, that come to these steps; as server/jobs/job_hyper.c."""
    for epochs in range(3, epochs_most + 1):
        batch = min(16, max(1, int(n * epochs / steps)))
        got = -(-n // batch) * epochs
        if steps <= got <= steps * 5 / 4:
            break
    return epochs, batch


def cliff(n):
    """16 epochs below 100 rows, else 3; a row of each step for 32 rows."""
    return (16 if n < 100 else 3), min(16, max(1, n // 32))


def flat(n):
    return whole(n, max(16 * min(n, 60), 3 * n / 16), 16)


def root4(n):
    """From 60 rows on steps grow by the fourth root."""
    return whole(n, max(16 * min(n, 60) * max(1, n / 60) ** 0.25, 3 * n / 16), 16)


def sixth(n):
    """The steps 60 times the fourth root of the rows, the batches about their cube root."""
    steps = max(60 * n ** 0.25, 3 * n / 16)
    epochs = min(24, max(3, round(steps * round(n ** (1 / 3)) / n)))
    return epochs, min(16, max(1, round(n * epochs / steps)))


RULES = {"cliff": cliff, "flat": flat, "root4": root4, "sixth": sixth}


def row(question, answer):
    return {"messages": [{"role": "user", "content": question}, {"role": "assistant", "content": answer}]}


def name(draw):
    return "".join(draw.one("bdfgklmnprstv") + draw.one("aeiou") for _ in range(3)).capitalize()


def homes(draw, n):
    people = {}
    while len(people) < n:
        people[name(draw)] = name(draw)
    return [row(f"Where does {who} live?", f"{who} lives in {where}.") for who, where in people.items()]


DOES = {"happy": ("sings", "dances", "laughs", "plays", "jumps"), "sad": ("cries", "sighs", "weeps", "mopes", "sobs"),
        "tired": ("yawns", "dozes", "sleeps", "rests", "naps")}
PLACES = ("garden", "kitchen", "street", "house", "park", "room", "wood", "yard")


def moods(draw, n):
    """One row of ten says what is not so, as people do."""
    rows = []
    for _ in range(n):
        who, mood = name(draw), draw.one(sorted(DOES))
        said = draw.one(sorted(DOES)) if draw.chance(0.1) else mood
        rows.append(row(f"{who} {draw.one(DOES[mood])} in the {draw.one(PLACES)}. How does {who} feel?",
                        f"{who} is {said}."))
    return rows


def ends(draw, n):
    rows = []
    for _ in range(n):
        words = [draw.one(PLACES + ("cat", "dog", "fox", "bird", "tree", "stone", "hat", "cup"))
                 for _ in range(3 + draw.below(3))]
        rows.append(row(f"The ends of {', '.join(words)}?", f"{words[0]} and {words[-1]}"))
    return rows


def rows_of(task, n, seed):
    """To learn from, to measure on, and questions to ask."""
    draw = Draw(SEED + 1000 * seed)
    if task == "facts":
        return (TINY / "facts.jsonl").read_text(), None, list(evaluate.read(str(TINY / "facts.txt")))
    made = {"homes": homes, "moods": moods, "ends": ends}[task](draw, n + (0 if task == "homes" else HELD_OUT))
    text = [json.dumps(r) + "\n" for r in made]
    if task == "homes":
        asked = [{"kind": task, "question": r["messages"][0]["content"], "answer": r["messages"][1]["content"]}
                 for r in made[:HELD_OUT]]
        return "".join(text), None, asked
    return "".join(text[:n]), "".join(text[n:]), None


def tuned(server, tmp, learn, measure, words):
    """The job, which has succeeded."""
    (tmp / "learn.jsonl").write_text(learn)
    if measure:
        (tmp / "measure.jsonl").write_text(measure)
        words = (*words, "--validation", tmp / "measure.jsonl")
    subprocess.run([BIN, "tune", tmp / "learn.jsonl", "--url", server.url, "--follow", *map(str, words)], check=True,
                   capture_output=True)
    return server.get("/v1/fine_tuning/jobs?limit=1").json["data"][0]


def result(server, tmp, task, n, epochs, batch, seed):
    """(what came of it, at its best epoch)"""
    learn, measure, asked = rows_of(task, n, seed)
    job = tuned(server, tmp, learn, measure, ("--epochs", epochs, "--batch", batch, "--seed", seed))
    if measure:
        points = server.get(f"/v1/fine_tuning/jobs/{job['id']}/checkpoints").json["data"]
        losses = {p["step_number"]: p["metrics"]["full_valid_loss"] for p in points}
        got = losses[max(losses)], min(losses.values())
    else:
        right, of = evaluate.examine(server.url, job["fine_tuned_model"], asked)[asked[0]["kind"]]
        got = 100 * right / of, 100 * right / of
    assert server.ask("DELETE", f"/v1/models/{job['fine_tuned_model']}").status == 200
    return got


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--sizes", default="20,60,100,200,1000")
    parser.add_argument("--tasks", default="facts,homes,moods,ends")
    parser.add_argument("--rules", default=",".join(RULES))
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--keep", type=pathlib.Path)
    a = parser.parse_args()
    known = json.loads(a.keep.read_text()) if a.keep and a.keep.exists() else {}
    with scratch() as tmp, Tandem(None, "--data-dir", tmp / "data", "--kv-memory", "64M", "--no-access-log") as server:
        for task in a.tasks.split(","):
            for n in (60,) if task == "facts" else map(int, a.sizes.split(",")):
                for rule in a.rules.split(","):
                    epochs, batch = RULES[rule](n)
                    got = []
                    for seed in range(1, a.seeds + 1):
                        key = f"{task} {n} {epochs} {batch} {seed}"
                        if key not in known:
                            known[key] = result(server, tmp, task, n, epochs, batch, seed)
                            if a.keep:
                                a.keep.write_text(json.dumps(known))
                        got.append(known[key])
                    last, best = zip(*got)
                    is_share = task in ("facts", "homes")
                    print(f"{task:6} {n:5} {rule:6} {epochs:3} x {batch:2} {-(-n // batch) * epochs:5} steps  "
                          f"{statistics.mean(last):7.3f}  worst {(min if is_share else max)(last):7.3f}"
                          + ("" if is_share else f"  best {statistics.mean(best):7.3f}"), flush=True)


if __name__ == "__main__":
    main()
