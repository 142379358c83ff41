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
RETURNED = re.compile(r"\breturn (true|false|0|1|-1);")  # by whether it is 0, as callers ask: not by the number
RETURNS = {"true": "false", "false": "true", "0": "-1", "1": "0", "-1": "0"}
TABLE = re.compile(r"^ +(?!return|else|case)(?:\w+ )+\*?(\w+)\[(\d+)\]", re.M)
ROOM = re.compile(r"\b(?:xmalloc|xcalloc|xrealloc|try_alloc|try_lazy|try_resize|arena_alloc|arena_try|ARENA_ARRAY)\(")
MORE = re.compile(r"(?:[(,+*:] |\()(\d+)(?=[,)]| [+*])")  # of a size, what makes it larger
SIDE = r"((?:\(\w+\))?[\w.>\-\[\]]+)"
CHOICE = re.compile(rf"(?:(?<=[=,?:] )|(?<=\()|(?<=return )){SIDE} (<=?|>=?) {SIDE} \? (?:\1 : \3|\3 : \1)"
                    r"(?=[;,)}\n])")  # of two that are equal either is the same


def inside(code):
    """The bodies of functions: (begin, end). What is a table, a type or a macro is not changed."""
    for m in re.finditer(r"^\{\n(.*?)^\}", code, re.M | re.S):
        yield m.start(1), m.end(1)


def call_end(code, begin):
    """Where the call ends whose arguments begin there."""
    depth = 1
    while depth:
        depth += {"(": 1, ")": -1}.get(code[begin], 0)
        begin += 1
    return begin


def unseen_numbers(code):
    """Where a number stands that another fault changes, or that nobody sees grow: what RETURNED draws, the size of a
    table in a function that is asked by no sizeof, and more room than an allocation needs."""
    asked = set(re.findall(r"\bsizeof \(?(\w+)", code))
    found = {m.start(1) + m[1].startswith("-") for m in RETURNED.finditer(code)}
    found |= {m.start(2) for m in TABLE.finditer(code) if m[1] not in asked}
    for m in ROOM.finditer(code):
        end = call_end(code, m.end())
        found |= {n.start(1) for n in MORE.finditer(code, m.end() - 1, end)
                  if not re.search(r"\w\([^()]*$", code[m.end():n.start(1)])}
    return found


def other(number, before):
    """-1 says that there is none, or that it failed, and -2 would say so too."""
    return "0" if number == "1" and before == "-" else str(int(number) + 1)


def mutants(text):
    """(kind, begin, end, new) of a file's text, in the order of their places."""
    code, found = C_TOKEN.sub(blank, text), []
    unseen, choices = unseen_numbers(code), {m.start(2) for m in CHOICE.finditer(code)}
    for begin, end in inside(code):
        def each(pattern, begin=begin, end=end):
            return pattern.finditer(code, begin, end)
        found += [("comparison", *m.span(1), SWAPS[m[1]]) for m in each(COMPARE) if m.start(1) not in choices]
        found += [("step", *m.span(1), "-" if m[1] == "+" else "+") for m in each(STEP)]
        found += [("number", *m.span(1), other(m[1], code[m.start(1) - 1])) for m in each(NUMBER)
                  if m.start(1) not in unseen]
        found += [("condition", *m.span(2), f"!({text[m.start(2):m.end(2)]})") for m in each(CONDITION)
                  if "\n" not in m[2]]
        found += [("statement", *m.span(2), "(void)0") for m in each(STATEMENT)
                  if not m[2].startswith(("return", "ASSERT", "log_event", "static_assert"))]
        found += [("return", *m.span(1), RETURNS[m[1]]) for m in each(RETURNED)]
    return sorted(found, key=lambda x: x[1:])
