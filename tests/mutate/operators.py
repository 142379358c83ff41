# SPDX-License-Identifier: Apache-2.0
"""Small faults, as people make them: where in a C file one can be made, and what stands there then."""
import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lint"))
from source import C_TOKEN, blank  # noqa: E402

SWAPS = {"<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "==", "&&": "||", "||": "&&"}
COMPARE = re.compile(r"(?<= )(<=|>=|==|!=|<|>|&&|\|\|)(?= |\n)")
STEP = re.compile(r"(?<=[\w)\]]) ([+-]) (?=1\b(?!\.))")
NUMBER = re.compile(r"(?<![\w.'])(\d+)(?![\w.'])")
CONDITION = re.compile(r"\b(if|while) \(((?:[^()]|\((?:[^()]|\([^()]*\))*\))*)\)")
STATEMENT = re.compile(r"^( +)((?:[\w>.\-\[\]*&]+ (?:[-+*|&]?= )|[a-z]\w*\()[^;{}]*);$", re.M)
RETURNED = re.compile(r"\breturn (true|false|0|-1);")
RETURNS = {"true": "false", "false": "true", "0": "-1", "-1": "0"}


def inside(code):
    """The bodies of functions: (begin, end). What is a table, a type or a macro is not changed."""
    for m in re.finditer(r"^\{\n(.*?)^\}", code, re.M | re.S):
        yield m.start(1), m.end(1)


def mutants(text):
    """(kind, begin, end, new) of a file's text, in the order of their places."""
    code, found = C_TOKEN.sub(blank, text), []
    for begin, end in inside(code):
        def each(pattern, begin=begin, end=end):
            return pattern.finditer(code, begin, end)
        found += [("comparison", *m.span(1), SWAPS[m[1]]) for m in each(COMPARE)]
        found += [("step", *m.span(1), "-" if m[1] == "+" else "+") for m in each(STEP)]
        found += [("number", *m.span(1), str(int(m[1]) + 1)) for m in each(NUMBER)]
        found += [("condition", *m.span(2), f"!({text[m.start(2):m.end(2)]})") for m in each(CONDITION)
                  if "\n" not in m[2]]
        found += [("statement", *m.span(2), "(void)0") for m in each(STATEMENT)
                  if not m[2].startswith(("return", "ASSERT", "log_event", "static_assert"))]
        found += [("return", *m.span(1), RETURNS[m[1]]) for m in each(RETURNED)]
    return sorted(found, key=lambda x: x[1:])
