#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Dumps what DRY and mirostat 2 make of random texts and rows into tests/golden/sampler/serial.json.

Both are computed from their definitions, the slow way: of DRY each token that stands in the text is asked how
long the repetition is that it would go on with, by comparing; of mirostat 2 (Basu et al. 2021, algorithm 2, as
llama.cpp has it) each token that is kept gets the state that drawing it leads to.

    python3 tests/golden/make_serial.py        (standard library only)
"""
import json
import math
import pathlib
import random

OUT = pathlib.Path(__file__).resolve().parent / "sampler" / "serial.json"
VOCAB, TEXTS, ROWS = 40, 400, 60


def penalties(text, case):
    """What each token loses."""
    n = len(text)
    sequences = [[b] for b in case["breaks"]] + case["breakers"]
    reach = n
    for at in reversed(range(n)):
        ends = [at + len(s) for s in sequences if text[at:at + len(s)] == s]
        if ends:
            reach = n - max(ends)
            break
    lost = {}
    for token in set(text) - set(case["breaks"]):
        longest = -1
        for at in (i for i in range(1, n) if text[i] == token):
            length = 0
            while length < at and length < reach and text[at - 1 - length] == text[n - 1 - length]:
                length += 1
            longest = max(longest, length)
        if longest >= case["allowed"] and reach >= case["allowed"]:
            over = longest - case["allowed"]
            if case["base"] > 1.000001:
                over = min(over, int(math.log(3.4028235e38) / math.log(case["base"])))
            lost[token] = case["multiplier"] * case["base"] ** over
    return lost


def text_of(r, kind):
    if kind == 0:
        return [r.randrange(VOCAB) for _ in range(r.randint(1, 60))]
    few = r.sample(range(VOCAB), r.randint(1, 4))
    text = [r.choice(few) for _ in range(r.randint(1, 80))]
    if kind == 2:  # what came before comes again
        piece = text[-r.randint(1, len(text)):]
        text += [r.randrange(VOCAB)] + piece + piece[:r.randint(0, len(piece))]
    return text


def dry(r):
    for i in range(TEXTS):
        text = text_of(r, i % 3)
        case = {"text": text, "last": r.choice([-1, -1, 1, 5, 30, len(text), 1000]), "allowed": r.choice([0, 1, 2, 2, 4]),
                "base": r.choice([1, 1.0000001, 1.1, 1.75, 3]), "multiplier": r.choice([0.25, 0.8, 5]),
                "breaks": r.sample(range(VOCAB), r.choice([0, 0, 1, 3])),
                "breakers": [[r.choice(text) for _ in range(r.randint(2, 3))] for _ in range(r.choice([0, 0, 1, 2]))]}
        end = text if case["last"] < 0 else text[-case["last"]:]
        case["lost"] = [[t, x] for t, x in sorted(penalties(end, case).items())]
        yield case


def mirostat(r):
    done = 0
    while done < ROWS:
        row = [round(r.gauss(0, r.choice([0.3, 1, 4])), 3) for _ in range(VOCAB)]
        case = {"row": row, "temperature": r.choice([0.5, 1, 1, 1.7]), "mu": round(r.uniform(-1, 9), 3),
                "tau": r.choice([2, 3.5, 5]), "eta": r.choice([0.1, 0.5, 1])}
        power = [math.exp(x / case["temperature"]) for x in row]
        bits = sorted((-math.log2(p / sum(power)), i) for i, p in enumerate(power))
        kept = [i for b, i in bits if b <= case["mu"]] or [bits[0][1]]
        if any(abs(b - case["mu"]) < 1e-3 for b, _ in bits) or len({round(b, 4) for b, _ in bits}) < VOCAB:
            continue
        total = sum(power[i] for i in kept)
        case["kept"] = [[i, power[i] / total, case["mu"] - case["eta"] * (-math.log2(power[i] / total) - case["tau"])]
                        for i in kept]
        done += 1
        yield case


def main():
    r = random.Random(20)
    made = {"vocab": VOCAB, "dry": list(dry(r)), "mirostat": list(mirostat(r))}
    OUT.parent.mkdir(exist_ok=True)
    lines = ",\n".join(f'"{k}": [\n' + ",\n".join(json.dumps(x) for x in v) + "\n]" if isinstance(v, list) else f'"{k}": {v}'
                       for k, v in made.items())
    OUT.write_text("{" + lines + "}\n")


if __name__ == "__main__":
    main()
