# SPDX-License-Identifier: Apache-2.0
"""Texts that schemas' masks let through, and texts near to them, against two validators: the one beside
this file, and the jsonschema package where it is installed.

    tests/engine/grammar/test_schemas.py --full          the whole of it: 50 texts of every schema
    tests/engine/grammar/test_schemas.py --texts 3 --part 0/9 --random 60 --seed 7

Three sets: schemas of each keyword (keywords.py), of APIs' shapes (shapes.py), and random ones (draw.py).
Every text that is let through must be valid, and so must be whatever a constraint takes of the texts
next to a good one: a member less, another value, an item twice. A schema that is refused must be so
with the place, or because nothing satisfies it. --part K/N: every N-th schema only."""
import argparse
import collections
import copy
import json
import os
import pathlib
import random
import re
import subprocess
import sys

import draw
import keywords
import shapes
import validator

try:
    import jsonschema
except ImportError:
    jsonschema = None

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[3]
SAMPLE = os.path.join(os.path.dirname(os.environ.get("TANDEM_BIN", "build/release/tandem")), "tests/tools/grammar_sample")
TOKENIZERS = ["gpt2", "llama2", "qwen2"]
ENOUGH = {"shapes": 95, "random": 95, "keywords": 90}  # of a hundred schemas, at least honoured
N_SHAPES, N_NEAR = 500, 8
NEVER = "no text can satisfy"


# ---- the second opinion ----

def pattern(checks, regex, instance, _schema):
    """The package's own reads \\w, \\d, \\s and $ as Python does, which ECMA-262 does not."""
    if checks.is_type(instance, "string") and not validator.found(regex, instance):
        yield jsonschema.ValidationError(f"{instance!r} does not match {regex!r}")


def package(schema):
    """Draft 2020-12 with the spellings of OpenAPI 3.0 and older drafts left to our own validator; and
    without what it counts in binary fractions."""
    own = jsonschema.validators.extend(jsonschema.Draft202012Validator, {
        "pattern": pattern, "patternProperties": lambda *_: (), "multipleOf": lambda *_: (), "additionalProperties": lambda *_: (),
        "unevaluatedProperties": lambda *_: (), "unevaluatedItems": lambda *_: ()})
    text = json.dumps(schema)
    if re.search(r'"nullable"|"items": \[|"exclusiveM\w+": (true|false)|"dependencies"|"format": "time"', text):
        return None
    return own(schema, format_checker=own.FORMAT_CHECKER)


class Judge:
    def __init__(self, schema):
        self.own, self.schema = validator.Validator(schema), schema
        self.package = package(schema) if jsonschema else None

    def fault(self, text):
        """Why the text is not valid; None: it is."""
        try:
            value = validator.parse(text)
            return self.own.fault(self.schema, value, set())
        except ValueError as e:
            return str(e)

    def package_fault(self, text):
        if not self.package:
            return None
        error = next(self.package.iter_errors(json.loads(text)), None)
        return error and error.message


# ---- texts next to a good one ----

def places(value, at=()):
    yield at
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for k, v in items:
        yield from places(v, at + (k,))


def near(rnd, value):
    """The value with one thing changed."""
    value = copy.deepcopy(value)
    at = rnd.choice(list(places(value)))
    if not at:
        return rnd.choice([None, [value], {"a": value}, rnd.choice(keywords.POOL)])
    holder = value
    for k in at[:-1]:
        holder = holder[k]
    was, kind = holder[at[-1]], rnd.randrange(6)
    if kind == 0:
        del holder[at[-1]]
    elif kind == 1 and isinstance(holder, list):
        holder.insert(at[-1], was)
    elif kind == 1:
        holder["extra" if rnd.random() < .5 else at[-1] + "x"] = was
    elif kind == 2 and isinstance(was, str):
        holder[at[-1]] = rnd.choice([was[:-1], was + "a", was.upper(), " " + was, was * 2])
    elif kind == 2 and validator.is_number(was):
        holder[at[-1]] = rnd.choice([-was, was + 1, was - 1, was * 1000, 0])
    elif kind == 3:
        holder[at[-1]] = rnd.choice([None, True, "", {}, []])
    else:
        holder[at[-1]] = copy.deepcopy(rnd.choice(keywords.POOL))
    return value


def spelt(value):
    return json.dumps(value, ensure_ascii=False, default=lambda d: float(d))


# ---- the program ----

def ask(tokenizer, n_text, seed, groups):
    """groups: (schema, texts to be read); gives for each (texts, error, verdicts)."""
    lines = []
    for schema, texts in groups:
        lines.append(json.dumps(schema, ensure_ascii=False))
        lines += ["?" + t for t in texts]
    args = [SAMPLE, str(ROOT / f"tests/golden/tokenizer/{tokenizer}.json"), str(n_text), str(seed)]
    out = subprocess.run(args, input=("\n".join(lines) + "\n").encode(), capture_output=True, check=True).stdout.decode()
    answers = []
    for line in out.split("\n")[:-1]:
        kind, _, rest = line.partition(" ")
        if kind == "schema":
            answers.append(([], [], []))
        else:
            answers[-1][("text", "error", "held").index(kind)].append(rest)
    assert len(answers) == len(groups), "the program fell"
    return answers


class Run:
    def __init__(self, args):
        self.args, self.rnd = args, random.Random(args.seed)
        self.faults, self.seen, self.why = [], collections.Counter(), collections.Counter()

    def fault(self, name, schema, *what):
        self.faults.append((name, json.dumps(schema, ensure_ascii=False)[:1500], *what))

    def check_texts(self, name, schema, texts):
        judge, good = Judge(schema), []
        for text in texts:
            self.seen["texts"] += 1
            try:
                why = judge.fault(text) or judge.package_fault(text)
            except validator.Unknown as e:
                why = f"it was not refused: {e}"
            if why:
                self.fault(name, schema, text, why)
            else:
                good.append(validator.parse(text))
        return judge, good

    def refusal(self, name, schema, error):
        """With a place; or nothing can satisfy the schema: then it is honoured in its way."""
        if NEVER not in error:
            self.seen["refused"] += 1
            self.why[re.sub(r"#\S*/", "", error)[:90]] += 1
            if "#" not in error:
                self.fault(name, schema, "refused without the place: " + error)
            return 0
        judge = Judge(schema)
        good = next((v for v in keywords.POOL if judge.fault(spelt(v)) is None), NEVER)
        if good != NEVER:
            self.fault(name, schema, f"{error}, but {spelt(good)} does")
        return 1

    def set(self, what, schemas):
        schemas = [s for i, s in enumerate(schemas) if i % self.args.part[1] == self.args.part[0]]
        tokenizer = TOKENIZERS[len(what) % len(TOKENIZERS)]
        answers = ask(tokenizer, self.args.texts, self.args.seed, [(s, []) for _, s in schemas])
        probes, n_good, n_never = [], 0, 0
        for (name, schema), (texts, errors, _) in zip(schemas, answers):
            if errors and "while sampling" not in errors[0]:
                n_never += self.refusal(name, schema, errors[0])
                continue
            n_good += 1
            if errors and "no token" not in errors[0]:
                self.fault(name, schema, errors[0])
            judge, good = self.check_texts(name, schema, texts)
            wanted = [spelt(near(self.rnd, v)) for v in good for _ in range(N_NEAR)][:60] + [spelt(v) for v in keywords.POOL]
            probes.append((name, schema, judge, wanted))
        self.check_near(probes, tokenizer)
        share = 100 * n_good / max(1, len(schemas) - n_never)
        print(f"{what}: {n_good} of {len(schemas)} schemas honoured, {n_never} that nothing can satisfy, "
              f"{len(schemas) - n_good - n_never} refused: {share:.1f}%")
        enough = ENOUGH[what] if self.args.full else ENOUGH[what] - 10  # a part may hold more of the others
        if share < enough:
            self.fault(what, {}, f"fewer than {enough}% honoured")

    def check_near(self, probes, tokenizer):
        answers = ask(tokenizer, 0, 1, [(s, w) for _, s, _, w in probes])
        for (name, schema, judge, wanted), (_, _, held) in zip(probes, answers):
            for text, verdict in zip(wanted, held):
                self.seen["near texts"] += 1
                self.seen["near texts taken"] += verdict == "yes"
                why = judge.fault(text) if verdict == "yes" else None
                if why:
                    self.fault(name, schema, text, "taken, and it is not valid: " + why)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--full", action="store_true")
    p.add_argument("--texts", type=int, default=3)
    p.add_argument("--part", default="0/5", type=lambda t: [int(x) for x in t.split("/")])
    p.add_argument("--random", type=int, default=120)
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--faults", type=int, default=10)
    args = p.parse_args()
    if args.full:
        args.texts, args.part, args.random, args.faults = 50, (0, 1), 400, 60
    run = Run(args)
    run.set("keywords", keywords.schemas())
    run.set("shapes", shapes.schemas(random.Random(args.seed), N_SHAPES))
    rnd = random.Random(args.seed + 1)
    run.set("random", ((f"random {i}", draw.Draw(rnd).root()) for i in range(args.random)))
    for reason, n in run.why.most_common(25 if args.faults > 10 else 0):
        print(f"  {n} refused: {reason}")
    for fault in run.faults[:args.faults]:
        print("wrong:", *fault, sep="\n  ")
    print(", ".join(f"{n} {what}" for what, n in run.seen.items()) + f", {len(run.faults)} wrong" +
          ("" if jsonschema else "; without the jsonschema package"))
    print(f"{int(not run.faults)} passed, {int(bool(run.faults))} failed")
    return bool(run.faults)


if __name__ == "__main__":
    sys.exit(main())
