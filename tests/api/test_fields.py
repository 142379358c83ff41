#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The table of fields, from outside.

Faults they can catch: a row that would write its value over a member of another type; a field that
OpenAI's specification has and params.def has not.

Standard library only; the specification lies with the test data."""
import os
import pathlib
import re
import shlex
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "lib"))
from serving import Cases  # noqa: E402

DATA = pathlib.Path(os.environ.get("TANDEM_TEST_DATA", ROOT.parent / "shared" / "data"))
SPEC = DATA / "openai-openapi.yaml"
ROUTES = {"CreateChatCompletionRequest": "API_CHAT", "CreateCompletionRequest": "API_COMPLETIONS",
          "CreateEmbeddingRequest": "API_EMBEDDINGS", "CreateResponse": "API_RESPONSES"}


def compiles(row):
    code = f'#include "api/request.h"\nint at = {row};\n'
    cc = shlex.split(os.environ.get("CC", "cc"))
    p = subprocess.run([*cc, "-std=c17", "-D_GNU_SOURCE", "-fsyntax-only", f"-I{ROOT}", "-xc", "-"],
                       input=code, capture_output=True, text=True)
    return p.returncode == 0


def rows_are_typed():
    for kind, member in (("int64_t", "n"), ("double", "gen.sample.temperature"), ("bool", "stream"),
                         ("const char *", "model"), ("int64_t", "gen.sample.top_k")):
        assert compiles(f"API_REQUEST_AT({kind}, {member})"), (kind, member)
    for kind, member in (("int64_t", "stream"), ("double", "n"), ("bool", "n"), ("int64_t", "gen.n_top"),
                         ("const char *", "seed"), ("int64_t", "gen.stop"), ("double", "model")):
        assert not compiles(f"API_REQUEST_AT({kind}, {member})"), (kind, member)
    rows = (ROOT / "api/params.c").read_text() + (ROOT / "api/params.def").read_text()
    assert not re.search(r"\.at = (?!API_REQUEST_AT|PARAM_NOWHERE)|offsetof", rows), "a place without a type"


def properties(text, name):
    """Of a schema and of those that it is made of."""
    block = re.search(rf"^    {name}:\n((?:      .*\n|\n)*)", text, re.M).group(1)
    found = set()
    for ref in re.findall(r"^        - \$ref: '?\"?#/components/schemas/(\w+)", block, re.M):
        found |= properties(text, ref)
    for indent in (" " * 6, " " * 10):
        for part in re.findall(rf"^{indent}properties:\n((?:{indent}  .*\n|\n)*)", block, re.M):
            found |= set(re.findall(rf"^{indent}  (\w+):", part, re.M))
    return found


def every_property_has_a_row():
    if not SPEC.exists():
        print(f"no {SPEC}: skipped")
        return
    text = SPEC.read_text()
    rows = re.findall(r"^PARAM\((\w+), ([\w| ]+),", (ROOT / "api/params.def").read_text(), re.M)
    defines = (ROOT / "api/params.c").read_text().replace("\\\n", "")
    sets = dict(re.findall(r"^#define (\w+) +(\(?[\w |]+\)?)$", defines, re.M))

    def has(words, route):
        return any(w == route or has(sets.get(w, ""), route) for w in re.findall(r"\w+", words))
    for schema, route in ROUTES.items():
        wanted = properties(text, schema)
        known = {name for name, on in rows if has(on, route)}
        assert len(wanted) >= 5, (schema, wanted)
        assert wanted <= known, (schema, wanted - known)


if __name__ == "__main__":
    cases = Cases()
    for f in (rows_are_typed, every_property_has_a_row):
        cases.run(f.__name__, f)
    sys.exit(cases.end())
