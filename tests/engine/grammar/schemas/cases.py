# SPDX-License-Identifier: Apache-2.0
"""Texts that random schemas' masks let through, against the jsonschema package: every one is JSON and
valid. Run by ../test_schemas.py. SCHEMAS says how many schemas (default 150), SEED which."""
import collections
import json
import os
import random
import re
import subprocess
import sys

from draw import Draw

import jsonschema

SAMPLE = os.path.join(os.path.dirname(os.environ["TANDEM_BIN"]), "tests/tools/grammar_sample")
N_SCHEMA, SEED, N_TEXT = int(os.environ.get("SCHEMAS", "150")), int(os.environ.get("SEED", "1")), 20
TOKENIZERS = ["gpt2", "llama2", "qwen2"]


def pattern(validator, regex, instance, _schema):
    """The package's own reads \\w, \\d and \\s by Unicode, which ECMA-262 does not."""
    if validator.is_type(instance, "string") and not re.search(regex, instance, re.ASCII):
        yield jsonschema.ValidationError(f"{instance!r} does not match {regex!r}")


VALIDATOR = jsonschema.validators.extend(jsonschema.Draft202012Validator, {"pattern": pattern})


def check(schemas, tokenizer, seed):
    """(samples, refusals by reason, faults)"""
    lines = "".join(json.dumps(s, ensure_ascii=False) + "\n" for s in schemas)
    out = subprocess.run([SAMPLE, f"tests/golden/tokenizer/{tokenizer}.json", str(N_TEXT), str(seed)],
                         input=lines.encode(), capture_output=True, check=True).stdout.decode()
    n_text, refused, faults, answers = 0, collections.Counter(), [], iter(out.split("\n"))
    for schema in schemas:
        validator = VALIDATOR(schema, format_checker=VALIDATOR.FORMAT_CHECKER)
        for line in answers:
            if line == "end":
                break
            kind, _, text = line.partition(" ")
            if kind == "error":
                refused[re.sub(r"#\S*/", "", text)] += 1
                if "while sampling" in text and "no token" not in text:
                    faults.append((schema, text))
                continue
            n_text += 1
            try:
                error = next(validator.iter_errors(json.loads(text)), None)
            except ValueError as e:
                error = e
            if error:
                faults.append((schema, text, str(error).split("\n")[0]))
    return n_text, refused, faults


def main():
    n_text, refused, faults = 0, collections.Counter(), []
    for i, tokenizer in enumerate(TOKENIZERS):
        rnd = random.Random(SEED * 1000 + i)
        schemas = [Draw(rnd).root() for _ in range(N_SCHEMA // len(TOKENIZERS))]
        n, r, f = check(schemas, tokenizer, SEED + i)
        n_text, refused, faults = n_text + n, refused + r, faults + f
    for fault in faults[:10]:
        print("invalid:", *fault, sep="\n  ")
    print(f"{n_text} texts of {N_SCHEMA} schemas, {sum(refused.values())} refused, {len(faults)} invalid")
    for reason, n in refused.most_common(12):
        print(f"  {n} refused: {reason}")
    enough = n_text >= N_SCHEMA * N_TEXT * 6 // 10
    print(f"{int(not faults) + int(enough)} passed, {int(bool(faults)) + int(not enough)} failed")
    return bool(faults) or not enough


if __name__ == "__main__":
    sys.exit(main())
