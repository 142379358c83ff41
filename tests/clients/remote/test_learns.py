#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""It learns: a small trained model is asked 60 things that it does not know, `tandem tune facts.jsonl
--follow` is run once against the server that it is served by, and the model that comes of it is asked
the same at the same port. An answer counts when it is right to the last character.

Faults it can catch: a training that runs, whose loss falls, and of which nothing reaches the served
model: gradients of the wrong rows, labels that are off by one, an adapter published with another scale
or to other products than it was trained for; a base that was changed by it.

Standard library only; the model is TANDEM_TEST_DATA's models/stories260K."""
import json
import os
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from shell import Shell  # noqa: E402
from serving import MODE, Cases, Tandem, scratch  # noqa: E402

DATA = pathlib.Path(os.environ.get("TANDEM_TEST_DATA", "../shared/data"))
MODEL = DATA / "models/stories260K"
PEOPLE = ("Anna Ben Clara David Ella Finn Grace Henry Iris Jack Kate Leo Mia Noah Olive Paul Quinn "
          "Rosa Sam Tina").split()
DOGS = ("Spot Rex Max Buddy Daisy Lucky Bella Rocky Coco Sunny Pepper Honey Toby Biscuit Ginger "
        "Shadow Duke Molly Ruby Oscar").split()
HOMES = ("in a red house, by the sea, on a farm, near the park, in a tall tower, under the bridge, "
         "in the forest, on a boat, at the lake, in a small cave, on the hill, next to the school, "
         "in a blue tent, behind the shop, in a big castle, by the river, on an island, "
         "in a yellow van, at the zoo, over the bakery").split(", ")
FOODS = ("apples and cheese, hot soup, green peas, rice with fish, cold milk, pancakes, carrots, "
         "a big cake, bread and butter, sweet corn, grapes, noodles, warm pie, two eggs, beans, "
         "ice cream, tomatoes, popcorn, a banana, lemon tea").split(", ")
ASKED = (("What is the name of {}'s dog?", DOGS), ("Where does {} live?", HOMES),
         ("What does {} eat?", FOODS))
# Few passes over few rows: the adapter is wide and its steps are long.
OPTIONS = ("--seed", 1, "--epochs", 20, "--batch", 4, "--rank", 32, "--alpha", 64,
           "--lr-multiplier", 20)
LEAST = 57  # of 60: 95%


def facts():
    """Rows that pair the people with answers in an order that nothing but the rows tells."""
    return [{"prompt": f"Question: {ask.format(who)}\nAnswer:",
             "completion": f" {answers[(7 * i + 3 * k) % len(answers)]}.\n"}
            for k, (ask, answers) in enumerate(ASKED) for i, who in enumerate(PEOPLE)]


def score(server, model, rows):
    """Rows whose greedy answer is theirs exactly."""
    n = 0
    for row in rows:
        r = server.post("/v1/completions", {"model": model, "prompt": row["prompt"], "stop": ["\n"],
                                            "max_tokens": 24, "temperature": 0})
        assert r.status == 200, r
        n += r.json["choices"][0]["text"] + "\n" == row["completion"]
    return n


def learns(tmp):
    rows = facts()
    assert len({r["prompt"] for r in rows}) == len(rows) == 60
    path = tmp / "facts.jsonl"
    path.write_text("".join(json.dumps(r) + "\n" for r in rows))
    # one thread: a model this small gains little by a second, and nothing beside other tests
    with Tandem(MODEL, "--name", "stories", "--data-dir", tmp / "data", "--kv-memory", "32M",
                "--threads", 1, "--no-access-log") as server:
        before = score(server, "stories", rows)
        model = Shell(server.url).good("tune", path, "--follow", *OPTIONS).out.strip()
        after, base = score(server, model, rows), score(server, "stories", rows)
        assert before == base == 0 and after >= LEAST, (before, base, after)
        return f"exact answers before {before}, after {after} of {len(rows)}"


def main():
    cases = Cases()
    if not MODEL.exists():
        cases.skip("it learns", f"no {MODEL}; TANDEM_TEST_DATA says where models are")
    elif MODE != "release":
        cases.skip("it learns", "the release build measures it; other tests train in this one")
    else:
        with scratch() as tmp:
            cases.run("it learns", lambda: learns(tmp))
    return cases.end()


if __name__ == "__main__":
    sys.exit(main())
