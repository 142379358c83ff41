#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Renders our templates with Python's jinja2 and writes what it gives (see README.md of golden/).

    python3 tests/golden/template/make_templates.py

unit.json     small templates by feature (units.py) and expressions drawn at random (draw.py),
              over one set of variables; an error is expected where "output" is null
renders.json  templates in the manner of real models (chats.py) over conversations with tools,
              system text and odd content, with and without the generation prompt
"""
import json
import pathlib
import re

import chats
import draw
import reference
import units

HERE = pathlib.Path(__file__).parent
N_DRAWN = 700


def unit_cases():
    for feature, text in units.EXPR.items():
        for i, expr in enumerate(re.split(r"(?<! )\|(?! )|\n", text.strip())):
            yield f"{feature} {i}", "{{ " + expr + " }}"
    for feature, templates in units.TEMPLATES.items():
        for i, template in enumerate(templates):
            yield f"{feature} {i}", template
    for i, expr in enumerate(draw.expressions(N_DRAWN)):
        yield f"drawn {i}", "{% set q = " + expr + " %}{{ q }}"


def write(name, value):
    text = json.dumps(value, ensure_ascii=True, indent=None, separators=(",", ":"))
    text = re.sub(r'(\},)(\{"(?:name|context)")', r"\1\n\2", text)
    (HERE / name).write_text(text + "\n")


def main():
    env = reference.environment()
    cases = []
    for name, template in unit_cases():
        output, error = reference.render(env, template, units.DATA)
        if output is None and re.search(r"MemoryError|RecursionError", error):
            continue
        if output is not None and re.search(r" at 0x[0-9a-f]+>", output):
            continue  # an address
        cases.append({"name": name, "template": template, "output": output, "error": error})
    write("unit.json", {"data": units.DATA, "cases": cases})
    renders = []
    for name, template in chats.TEMPLATES.items():
        rows = []
        for context, variables in chats.CONTEXTS.items():
            for ask in (True, False):
                output, error = reference.render(
                    env, template, {**variables, "add_generation_prompt": ask})
                rows.append({"context": context, "add_generation_prompt": ask,
                             "output": output, "error": error})
        renders.append({"name": name, "template": template, "renders": rows})
    write("renders.json", {"contexts": chats.CONTEXTS, "templates": renders})
    print(f"{len(cases)} units, {sum(len(t['renders']) for t in renders)} renders")


if __name__ == "__main__":
    main()
