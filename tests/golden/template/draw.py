# SPDX-License-Identifier: Apache-2.0
"""Expressions at random: every operator, filter, test and access meets values it was not made for."""
import random

NAMES = ["n", "neg", "x", "yes", "nothing", "s", "empty", "pad", "uni", "words", "nums", "mixed",
         "nest", "people", "d", "missing", "floats"]
CONSTS = ["0", "1", "2", "-1", "1.5", "'a'", "''", "'o'", "none", "true", "[]", "[1, 'a']", "{}",
          "(1, 2)", "{'a': 1}", "'%s'", "range(3)"]
FILTERS = ["upper", "lower", "title", "capitalize", "trim", "length", "first", "last", "list",
           "string", "int", "float", "abs", "round", "sum", "min", "max", "sort", "unique", "reverse",
           "tojson", "items", "join", "dictsort", "wordcount", "escape", "safe", "urlencode",
           "default('q')", "default('q', true)", "replace('o', 'aa')", "join(',')", "indent",
           "truncate(7)", "map('string')", "map('upper')", "select", "reject", "select('odd')",
           "selectattr('age')", "map(attribute='name')", "map(attribute='0')", "batch(2)", "slice(2)",
           "sort(reverse=true)", "groupby('age')", "tojson(indent=1)", "center(9)", "int(3, 16)",
           "round(1)", "attr('a')", "forceescape", "count", "d(1)", "sum(start=1)", "format(1)"]
TESTS = ["defined", "undefined", "none", "string", "number", "integer", "float", "mapping",
         "sequence", "iterable", "boolean", "true", "false", "odd", "even", "divisibleby(2)",
         "eq(1)", "in([1, 'a'])", "lower", "upper", "callable", "gt(1)", "sameas(none)"]
BINARY = ["+", "-", "*", "/", "//", "%", "~", "==", "!=", "<", "<=", ">", ">=", "in", "not in",
          "and", "or"]
METHODS = ["upper()", "strip()", "split()", "split(',')", "items()", "keys()", "values()",
           "get('a')", "replace('a', 'b')", "startswith('H')", "endswith('d')", "join(['x', 'y'])",
           "count('a')", "index('a')", "find('o')", "title()", "lower()", "copy()", "format(1)"]


def draw(r, depth):
    kind = r.randrange(11) if depth > 0 else r.randrange(2)
    sub = lambda: draw(r, depth - 1)
    if kind == 0:
        return r.choice(CONSTS)
    if kind in (1, 2):
        return r.choice(NAMES)
    if kind in (3, 4):
        return f"({sub()}) | {r.choice(FILTERS)}"
    if kind == 5:
        return f"({sub()}) is {r.choice(['', 'not '])}{r.choice(TESTS)}"
    if kind == 6:
        return f"({sub()}) {r.choice(BINARY)} ({sub()})"
    if kind == 7:
        return f"({sub()}).{r.choice(METHODS + ['a', 'name', 'age', 'b'])}"
    if kind == 8:
        return f"({sub()})[{r.choice([sub(), ':2', '1:', '::-1', '-1', '0'])}]"
    if kind == 9:
        return f"({sub()}) if ({sub()}) else ({sub()})"
    return r.choice([f"[{sub()}, {sub()}]", f"{{'k': {sub()}}}", f"not ({sub()})", f"-({sub()})"])


def expressions(n, seed=20250710):
    r = random.Random(seed)
    return [draw(r, 1 + i % 4) for i in range(n)]
