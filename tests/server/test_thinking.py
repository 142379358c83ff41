#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Thoughts in the answers of a running server: told apart, whole and in streams, and let through by what
a text is held to. Random weights, whose vocabulary has the marks as special tokens, so that they are
written now and then. Standard library only."""
import json
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "lib"))
from serving import Cases, Tandem, make_model, scratch  # noqa: E402

TEMPLATE = ("{% for t in tools or [] %}{{ t | tojson }}{% endfor %}{% for m in messages %}"
            "{{ m.role + ':' + (m.content or '') }}{% if m.reasoning_content %}{{ '(' + m.reasoning_content + ')' }}"
            "{% endif %}{{ '<|end|>' }}{% endfor %}{% if add_generation_prompt %}{{ '<|assistant|>' }}"
            "{% if enable_thinking is defined and not enable_thinking %}{{ '<think>\n\n</think>\n\n' }}"
            "{% elif opens %}{{ '<think>\n' }}{% endif %}{% endif %}{# <tool_call> #}")
ASK = [{"role": "user", "content": "Think of it."}]
WARM = {"messages": ASK, "temperature": 1.3, "max_tokens": 1500}
FORM = {"type": "json_schema", "json_schema": {"name": "x", "schema": {"enum": ["good", "bad"]}}}
PICK = {"type": "function", "function": {"name": "pick", "parameters": {
    "type": "object", "properties": {"at": {"type": "boolean"}}, "required": ["at"]}}}
INSIDE = {"chat_template_kwargs": {"opens": True}}


class Thinking:
    def __init__(self, server):
        self.server = server

    def chat(self, **more):
        r = self.server.post("/v1/chat/completions", {**WARM, **more})
        assert r.status == 200, r
        return r

    def one(self, **more):
        """(thoughts, content, finish_reason), and the message."""
        c = self.chat(**more).json["choices"][0]
        m = c["message"]
        return (m.get("reasoning_content", ""), m["content"] or "", c["finish_reason"]), m

    def streamed(self, **more):
        thoughts, content, finish, behind = "", "", None, False
        for line in self.chat(stream=True, **more).body.decode().split("\n"):
            if not line.startswith("data: {"):
                continue
            for c in json.loads(line[6:])["choices"]:
                d = c["delta"]
                assert not (behind and d.get("reasoning_content")), "thoughts behind words"
                thoughts += d.get("reasoning_content") or ""
                content += d.get("content") or ""
                behind |= bool(d.get("content"))
                finish = c["finish_reason"] or finish
        return thoughts, content, finish

    def case_apart(self):
        """Catches: a mark that stays in a text, a byte on the wrong side of it, a stream that says
        otherwise."""
        n_both = 0
        for seed in range(10):
            ask = {"seed": seed, **INSIDE}
            (thoughts, content, finish), _ = self.one(**ask)
            assert thoughts and "</think>" not in thoughts and thoughts == thoughts.rstrip(), thoughts
            assert self.streamed(**ask) == (thoughts, content, finish)
            n_both += bool(content)
            (none, whole, _), _ = self.one(**ask, separate_reasoning=False)
            assert none == "" and whole.lstrip().startswith(thoughts[:20]), (thoughts, whole)
            (none, same, _), _ = self.one(**ask, include_reasoning=False)
            assert none == "" and same == content
        assert n_both, "no text came to its words"

    def case_plain(self):
        """Catches: a text without thoughts that is taken for one with."""
        ask = {"seed": 3, "enable_thinking": False, "max_tokens": 50}
        (thoughts, content, _), _ = self.one(**ask)
        assert thoughts == "" and content and self.streamed(**ask)[1] == content

    def case_form(self):
        """Catches: a form that thoughts are held to, or that holds nothing behind them."""
        n = {"thought": 0, "plain": 0}
        for seed in range(16):
            for more in (INSIDE, {}):
                (thoughts, content, finish), _ = self.one(seed=seed, response_format=FORM, **more)
                if finish == "stop":
                    assert json.loads(content) in ("good", "bad"), content
                    n["thought" if thoughts else "plain"] += 1
                else:
                    assert more == INSIDE and not content or thoughts, (content, finish)
        assert n["thought"] and n["plain"], n
        return str(n)

    def case_tools(self):
        """Catches: a call that is looked for in thoughts, or not found behind them."""
        n = 0
        for seed in range(12):
            ask = {"seed": seed, "tools": [PICK], "tool_choice": "required", "parallel_tool_calls": False, **INSIDE}
            (thoughts, _, finish), m = self.one(**ask)
            assert thoughts, m
            if finish == "tool_calls":
                n += 1
                assert isinstance(json.loads(m["tool_calls"][0]["function"]["arguments"])["at"], bool), m
                assert m["content"] is None
        assert n, "no text came to its call"

    def case_settings(self):
        """Catches: a setting that the template does not get."""
        def prompt(**more):
            r = self.server.post("/apply-template", {"messages": ASK, **more})
            assert r.status == 200, r
            return r.json["prompt"]

        def count(**more):
            return self.chat(max_tokens=1, **more).json["usage"]["prompt_tokens"]

        assert prompt(enable_thinking=False).endswith("<think>\n\n</think>\n\n")
        assert not prompt(enable_thinking=True).endswith("</think>\n\n")
        assert count(reasoning_effort="none") == count(enable_thinking=False) > count(reasoning_effort="high")
        assert count(reasoning_effort="high") == count()
        said = {"role": "assistant", "content": "No.", "reasoning_content": "hmhm"}
        assert "(hmhm)" in prompt(messages=[*ASK, said, *ASK])


def refuses(server):
    """Catches: a setting dropped where the model has none."""
    for name, value in (("enable_thinking", False), ("reasoning_effort", "high")):
        r = server.post("/v1/chat/completions", {**WARM, name: value})
        assert r.status == 400 and r.error["param"] == name, r
    r = server.post("/v1/chat/completions", {**WARM, "enable_thinking": 1})
    assert r.status == 400 and "boolean" in r.error["message"], r
    assert server.post("/v1/chat/completions", {**WARM, "reasoning_effort": "none", "max_tokens": 2}).status == 200


def main():
    cases = Cases()
    with scratch() as tmp:
        model = make_model(tmp / "m")
        config, vocabulary = model / "tokenizer_config.json", model / "tokenizer.json"
        config.write_text(json.dumps({**json.loads(config.read_text()), "chat_template": TEMPLATE}))
        text = vocabulary.read_text()
        for old, new in (("<|system|>", "<think>"), ("<|user|>", "</think>")):
            text = text.replace(json.dumps(old), json.dumps(new))
        vocabulary.write_text(text)
        with Tandem(model, "--ctx", 4096) as server:
            at = Thinking(server)
            for name in [n for n in dir(at) if n.startswith("case_")]:
                cases.run(name, getattr(at, name))
        with Tandem(make_model(tmp / "plain")) as server:
            cases.run("a model without", lambda: refuses(server))
    return cases.end()


if __name__ == "__main__":
    sys.exit(main())
