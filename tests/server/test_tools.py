#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Calls of tools in the answers of a running server, with the chat templates of real models over random
weights: at a temperature that makes nonsense of all else a call that was asked for is whole and fits its
schema. Standard library only; templates lie with the test data, and a few stand here."""
import concurrent.futures
import json
import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "lib"))
from serving import BIN, Cases, Tandem, make_model, rename_special, scratch, template_of  # noqa: E402

DATA = pathlib.Path(os.environ.get("TANDEM_TEST_DATA", ROOT.parent / "shared" / "data"))
CHATML = ("{% for t in tools or [] %}{{ t | tojson }}{% endfor %}{% for m in messages %}"
          "{{ '<|' + m.role + '|>' + (m.content or '') }}{% for c in m.tool_calls or [] %}"
          "{{ '<tool_call>\\n' + c.function | tojson + '\\n</tool_call>' }}{% endfor %}{{ '<|end|>' }}"
          "{% endfor %}{% if add_generation_prompt %}{{ '<|assistant|>' }}{% endif %}")
BRACKETS = CHATML.replace("'<tool_call>\\n' +", "'[TOOL_CALLS][' +").replace("+ '\\n</tool_call>'", "+ ']'")
REAL = {"NousResearch-Hermes-2-Pro-Llama-3-8B-tool_use.jinja": "hermes", "Qwen-QwQ-32B.jinja": "hermes",
        "mistralai-Mistral-Nemo-Instruct-2407.jinja": "mistral",
        "meta-llama-Llama-3.2-3B-Instruct.jinja": "llama3_json",
        "tool_chat_template_llama3.1_json.jinja": "llama3_json",
        "tool_chat_template_granite.jinja": "granite", "tool_chat_template_deepseekv3.jinja": "deepseek_v3",
        "Qwen3-Coder.jinja": "qwen3_coder", "GLM-4.7-Flash.jinja": "glm47",
        "deepseek-ai-DeepSeek-V3.2.jinja": "deepseek_v32",
        "tool_chat_template_llama3.2_pythonic.jinja": "pythonic", "openai-gpt-oss-120b.jinja": "harmony"}
MORE = {"GLM-4.7-Flash.jinja": {"enable_thinking": False},  # their thoughts would never end here
        "openai-gpt-oss-120b.jinja": {"separate_reasoning": False}}
SPELT = ("qwen3_coder", "glm47", "deepseek_v32")  # a call reads in a prompt as the model wrote it
WEATHER = {"type": "object", "properties": {
    "city": {"type": "string", "maxLength": 6}, "days": {"type": "integer", "minimum": 1, "maximum": 14},
    "unit": {"enum": ["C", "F"]}}, "required": ["city", "days"], "additionalProperties": False}
PICK = {"properties": {"at": {"type": "array", "items": {"type": "boolean"}, "maxItems": 3}}, "required": ["at"]}


def tool(name, schema=None, **more):
    return {"type": "function", "function": {"name": name, "description": "It does.",
                                             **({"parameters": schema} if schema else {}), **more}}


TOOLS = [tool("get_weather", WEATHER), tool("pick", PICK), tool("now")]
ASK = [{"role": "user", "content": "What is it like?"}]
WARM = {"temperature": 1.2, "max_tokens": 1200, "messages": ASK}


def check_arguments(name, text):
    """Against the tool's schema, by hand."""
    a = json.loads(text)
    if name == "now":
        assert a == {}, a
    elif name == "pick":
        assert set(a) == {"at"} and len(a["at"]) <= 3 and all(isinstance(x, bool) for x in a["at"]), a
    else:
        assert name == "get_weather" and {"city", "days"} <= set(a) <= {"city", "days", "unit"}, a
        assert isinstance(a["city"], str) and len(a["city"]) <= 6 and a["days"] in range(1, 15), a
        assert a.get("unit", "C") in ("C", "F"), a


def named(name):
    return {"type": "function", "function": {"name": name}}


class Tools:
    def __init__(self, server, **more):
        self.server, self.more = server, more

    def chat(self, **more):
        return self.server.post("/v1/chat/completions", {**WARM, "tools": TOOLS, **self.more, **more})

    def good(self, **more):
        r = self.chat(**more)
        assert r.status == 200, r
        return r.json["choices"]

    def calls(self, choice):
        """(name, arguments) of calls that are what the schema says."""
        m = choice["message"]
        if choice["finish_reason"] != "tool_calls":
            assert choice["finish_reason"] == "length", choice
            for c in m.get("tool_calls", []):
                check_arguments(c["function"]["name"], c["function"]["arguments"])
            return []
        assert m["content"] is None and m["tool_calls"], m
        for c in m["tool_calls"]:
            assert set(c) == {"id", "type", "function"} and c["type"] == "function", c
            check_arguments(c["function"]["name"], c["function"]["arguments"])
        assert len({c["id"] for c in m["tool_calls"]}) == len(m["tool_calls"]), m
        return [(c["function"]["name"], c["function"]["arguments"]) for c in m["tool_calls"]]

    def streamed(self, **more):
        """[(content, calls, finish_reason)] by choice, of events that are what clients read."""
        r = self.chat(stream=True, **more)
        assert r.status == 200 and r.body.endswith(b"data: [DONE]\n\n"), r
        found = {}
        for line in r.body.decode().split("\n"):
            if not line.startswith("data: {"):
                continue
            for c in json.loads(line[6:])["choices"]:
                at = found.setdefault(c["index"], {"content": "", "calls": [], "finish": None, "n": 0})
                assert at["finish"] is None, "something behind the end"
                assert ("role" in c["delta"]) == (at["n"] == 0), c
                at["n"] += 1
                at["content"] += c["delta"].get("content") or ""
                at["finish"] = c["finish_reason"]
                for piece in c["delta"].get("tool_calls", []):
                    f = piece["function"]
                    if piece["index"] == len(at["calls"]):
                        assert piece["id"] and piece["type"] == "function" and f["arguments"] == "", piece
                        at["calls"].append([f["name"], ""])
                    else:
                        assert piece["index"] == len(at["calls"]) - 1 and "id" not in piece, piece
                        assert "name" not in f and f["arguments"], piece
                        at["calls"][-1][1] += f["arguments"]
        return [(at["content"], [tuple(c) for c in at["calls"]], at["finish"])
                for _, at in sorted(found.items())]

    # ---- what is called

    def case_required(self):
        """Catches: a call that is cut short, of no offered tool, or with arguments that are not its
        schema's."""
        n = 0
        for seed in range(8):
            choices = self.good(seed=seed, n=2, tool_choice="required")
            n += sum(len(self.calls(c)) for c in choices)
        assert n >= 8, n
        return f"{n} calls"

    def case_named(self):
        """Catches: another tool called than the one that was named, or than those allowed."""
        for seed, name in enumerate(("get_weather", "pick", "now")):
            for c in self.good(seed=seed, tool_choice=named(name)):
                assert {x for x, _ in self.calls(c)} <= {name}, c
        allowed = {"type": "allowed_tools", "allowed_tools": {"mode": "required", "tools": [named("now"), named("pick")]}}
        for seed in range(4):
            for c in self.good(seed=seed, tool_choice=allowed):
                assert {x for x, _ in self.calls(c)} <= {"now", "pick"}, c

    def single(self):
        """Catches: two calls asked of a model whose template cannot show them to it again."""
        for seed in range(6):
            c = self.good(seed=seed, tool_choice="required")[0]
            assert len(self.calls(c)) == 1, c
            back = [*ASK, c["message"], {"role": "tool", "content": "7",
                                         "tool_call_id": c["message"]["tool_calls"][0]["id"]}]
            assert self.chat(messages=back, max_tokens=2).status == 200

    def case_one(self):
        """Catches: two calls where one was allowed; one that does not end."""
        for seed in range(6):
            c = self.good(seed=seed, tool_choice="required", parallel_tool_calls=False)[0]
            assert len(self.calls(c)) == 1, c

    def case_stream(self):
        """Catches: arguments that a stream loses or doubles, ids and names in the wrong place, an answer
        that differs from the whole one."""
        for seed in range(6):
            ask = {"seed": seed, "tool_choice": "required", "n": 2}
            whole = self.good(**ask)
            for c, (content, calls, finish) in zip(whole, self.streamed(**ask)):
                if c["finish_reason"] == "tool_calls":
                    assert (content, calls, finish) == ("", self.calls(c), "tool_calls"), (c, calls)

    def case_cut(self):
        """Catches: half a call that is told as one; bytes of it that are lost."""
        for n in (1, 5, 25, 40):
            c = self.good(seed=1, tool_choice=named("get_weather"), max_tokens=n, parallel_tool_calls=False)[0]
            assert c["finish_reason"] == "length" and "tool_calls" not in c["message"], c
            content, calls, finish = self.streamed(seed=1, tool_choice=named("get_weather"), max_tokens=n,
                                                   parallel_tool_calls=False)[0]
            assert finish == "length" and len(calls) <= 1, (calls, finish)
            assert calls or content == c["message"]["content"], (content, c)
            assert all(a in c["message"]["content"] for _, a in calls), (calls, c)

    def case_auto(self):
        """Catches: words that reading for calls changes, a form of words that keeps tools from being
        called."""
        ask = {"seed": 3, "max_tokens": 40, "logprobs": True}
        c = self.good(**ask)[0]
        text = b"".join(bytes(t["bytes"]) for t in c["logprobs"]["content"]).decode("utf-8", "replace")
        assert c["message"]["content"] == text and "tool_calls" not in c["message"], (c, text)
        assert self.streamed(**ask)[0][0] == text
        none = self.good(**ask, tool_choice="none")[0]
        assert none["message"] == c["message"], none
        form = {"type": "json_schema", "json_schema": {"name": "x", "schema": {"enum": ["good", "bad"]}}}
        found = set()
        for seed in range(12):
            c = self.good(seed=seed, response_format=form)[0]
            if c["finish_reason"] == "stop":
                assert json.loads(c["message"]["content"]) in ("good", "bad"), c
            found.add(c["finish_reason"])
        assert found >= {"stop", "tool_calls"}, found

    def case_strict(self):
        """Catches: words that a strict tool's grammar does not let through; a call behind them that it
        does not hold."""
        strict = [tool("get_weather", WEATHER, strict=True), tool("pick", PICK)]
        for more in ({"tools": strict}, {"parallel_tool_calls": False}):
            c = self.good(seed=5, max_tokens=60, **more)[0]
            assert c["finish_reason"] in ("length", "stop") and len(c["message"]["content"]) > 10, c

    def case_alone(self):
        """Catches: calls that hang on who else is in the batch, on n, or on a prefix that stands."""
        asks = [{"seed": i, "tool_choice": "required", "max_tokens": 300} for i in range(12)]
        alone = [self.good(**a)[0]["message"] for a in asks]
        with concurrent.futures.ThreadPoolExecutor(12) as pool:
            beside = list(pool.map(lambda a: self.good(**a)[0]["message"], asks))
        strip = [[(m["content"], [c["function"] for c in m.get("tool_calls", [])]) for m in x]
                 for x in (alone, beside)]
        assert strip[0] == strip[1]

    def case_back(self):
        """Catches: a call or a result that the next prompt does not hold."""
        c = self.good(seed=2, tool_choice=named("get_weather"), parallel_tool_calls=False)[0]["message"]
        call = c["tool_calls"][0]
        messages = [*ASK, c, {"role": "tool", "tool_call_id": call["id"], "content": "\"sunny7\""}]
        r = self.server.post("/apply-template", {"messages": messages, "tools": TOOLS})
        assert r.status == 200 and "sunny7" in r.json["prompt"], r
        days = str(json.loads(call["function"]["arguments"])["days"])
        assert re.search(r"get_weather[\s\S]*" + days, r.json["prompt"]), r
        assert self.chat(messages=messages, max_tokens=4).status == 200

    def round(self):
        """Catches: a call that the template shows to the model otherwise than the model wrote it, with a
        value of another type."""
        for seed in range(4):
            c = self.good(seed=seed, tool_choice=named("get_weather"), parallel_tool_calls=False, logprobs=True)[0]
            if not self.calls(c):
                continue
            text = b"".join(bytes(t["bytes"]) for t in c["logprobs"]["content"]).decode("utf-8", "replace")
            call = text[text.index("get_weather"):text.rindex("</")].rstrip()
            r = self.server.post("/apply-template", {"messages": [*ASK, c["message"]], "tools": TOOLS})
            assert r.status == 200 and call in r.json["prompt"], (call, r)

    # ---- what is refused

    def refused(self, param, what, **more):
        r = self.chat(max_tokens=4, **more)
        assert r.status == 400 and (r.error["param"] or "").startswith(param), (r, param)
        assert what in r.error["message"], (r, what)

    def case_refusals(self):
        """Catches: tools that are half understood."""
        self.refused("tools", "array", tools={})
        self.refused("tools[0].type", "function", tools=[{"type": "custom", "custom": {"name": "x"}}])
        self.refused("tools[1].function.name", "another", tools=[tool("a"), tool("a")])
        self.refused("tools[0].function.name", "64", tools=[tool("a b")])
        self.refused("tools[0].function.name", "64", tools=[tool("a" * 65)])
        self.refused("tools[0].function.parameters", "object", tools=[tool("a", {"type": "string"})])
        self.refused("tools[0].function.strict", "boolean", tools=[tool("a", strict=1)])
        self.refused("tools", "128", tools=[tool(f"t{i}") for i in range(129)])
        self.refused("tools", "limit", tools=[tool(f"t{i}", {"type": "object", "description": "x" * 100000})
                                              for i in range(128)])
        self.refused("tool_choice", "none of", tool_choice=named("other"))
        self.refused("tool_choice", "none, auto", tool_choice="any")
        self.refused("tool_choice", "must name", tool_choice={"type": "function"})
        self.refused("tool_choice", "mode", tool_choice={"type": "allowed_tools", "allowed_tools": {"tools": [named("now")]}})
        self.refused("tool_choice", "holds none", tools=[], tool_choice="required")
        self.refused("parallel_tool_calls", "boolean", parallel_tool_calls="no")
        self.refused("functions", "tools", functions=[{"name": "f"}])
        self.refused("function_call", "tool_choice", function_call={"name": "f"})
        odd = tool("odd", {"type": "object", "properties": {"a": {"contains": {}}}}, strict=True)
        self.refused("tools", "tool 'odd'", tools=[odd])
        self.refused("tools", "contains", tools=[odd])
        self.refused("guided_regex", "tools", guided_regex="a")

    def case_hostile(self):
        """Catches: tools that take the server down or hold others up."""
        deep = {"type": "object"}
        for _ in range(26):
            deep = {"type": "object", "properties": {"a": deep}}
        cycle = {"type": "object", "properties": {"a": {"$ref": "#/$defs/a"}}, "required": ["a"],
                 "$defs": {"a": {"$ref": "#/$defs/a"}}}
        many = [tool(f"t{i}", {"type": "object", "properties": {f"p{k}": {"enum": ["x" * 40] * 1 + [f"{k}"]}
                                                                for k in range(60)}}) for i in range(128)]
        slow = tool("slow", {"type": "object", "properties": {"a": {"type": "string", "pattern": "(.*a){400}"}}})
        for tools in ([tool("d", deep)], [tool("c", cycle)], many, [slow]):
            r = self.chat(tools=tools, tool_choice="required", max_tokens=4)
            assert r.status == 400 and r.error["message"] or r.status == 200, r
        self.case_one()


def real_templates():
    at = DATA / "templates" / "real_templates.json"
    if not at.exists():
        return []
    return [(t["name"], t["template"]) for t in json.loads(at.read_text())["templates"] if t["name"] in REAL]


def server_options(cases, tmp):
    def unknown():
        p = subprocess.run([BIN, "serve", tmp / "hermes", "--port", "0", "--tool-format", "klingon"],
                           capture_output=True, text=True, timeout=120)
        assert p.returncode and "klingon" in p.stderr + p.stdout and "hermes" in p.stderr + p.stdout, p

    def refused(server, what):
        r = server.post("/v1/chat/completions", {**WARM, "tools": TOOLS})
        assert r.status == 400 and r.error["param"] == "tools" and what in r.error["message"], r
        r = server.post("/v1/chat/completions", {**WARM, "tools": TOOLS, "tool_choice": "none", "max_tokens": 2})
        assert r.status == 200, r

    cases.run("an unknown format", unknown)
    with Tandem(tmp / "hermes", "--tool-format", "none", "--ctx", 4096) as s:
        cases.run("no format", lambda: refused(s, "--tool-format"))
    with Tandem(make_model(tmp / "plain"), "--ctx", 4096) as s:
        cases.run("a template without tools", lambda: refused(s, "does not show tools"))


def main():
    cases = Cases()
    with scratch() as tmp:
        template_of(make_model(tmp / "hermes"), CHATML)
        marked = template_of(make_model(tmp / "marked"), BRACKETS)
        rename_special(marked, ("<|system|>", "[TOOL_CALLS]"))
        for name in ("hermes", "marked"):
            with Tandem(tmp / name, "--ctx", 4096) as server:
                at = Tools(server)
                cases.run_all(at, f"{name}, ")
        for name, text in real_templates():
            folder = template_of(make_model(tmp / "real", "--seed", len(name)), text)
            with Tandem(folder, "--ctx", 8192) as server:
                at = Tools(server, **MORE.get(name, {}))
                for case in ("required", "one", "stream", "back"):
                    cases.run(f"{name}, {case}", getattr(at, "case_" + case))
                if REAL[name] in SPELT:
                    cases.run(f"{name}, round", at.round)
                if REAL[name] in ("llama3_json", "harmony"):
                    cases.run(f"{name}, single", at.single)
        server_options(cases, tmp)
    return cases.end()


if __name__ == "__main__":
    sys.exit(main())
