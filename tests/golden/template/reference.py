# SPDX-License-Identifier: Apache-2.0
"""Chat templates as transformers sets them up, in the few lines that matter.

A sandbox that changes nothing it is given, blocks trimmed and stripped, loop controls, a
generation tag, tojson without HTML escapes, raise_exception, and a clock that stands still.

Constant folding is off: it changes nothing but what a slice of a constant that has none gives
(`5[1:]` is undefined when folded and an error when not).
"""
import copy
import datetime
import json

import jinja2
import jinja2.ext
import jinja2.sandbox

NOON = datetime.datetime(2025, 7, 10, 12, 0)


class Generation(jinja2.ext.Extension):
    """{% generation %}: a block that prints what is in it."""

    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method("_body"), [], [], body).set_lineno(line)

    def _body(self, caller):
        return caller()


def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators,
                      sort_keys=sort_keys)


def raise_exception(message):
    raise jinja2.exceptions.TemplateError(message)


def environment():
    env = jinja2.sandbox.ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, optimized=False, extensions=[Generation, "jinja2.ext.loopcontrols"])
    env.filters["tojson"] = tojson
    env.globals["raise_exception"] = raise_exception
    env.globals["strftime_now"] = NOON.strftime
    return env


def render(env, template, variables):
    """The text, or None and the error. (A filter may spoil what it is given: indent does lists.)"""
    try:
        return env.from_string(template).render(**copy.deepcopy(variables)), None
    except Exception as error:  # whatever Python raises is an error of the template
        return None, f"{type(error).__name__}: {error}"
