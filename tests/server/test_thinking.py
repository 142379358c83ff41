#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Thoughts in the answers of a running server: told apart, whole and in streams, and let through by what
a text is held to. Random weights, whose vocabulary has the marks as special tokens, so that they are
written now and then. Standard library only."""
import concurrent.futures
import json
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "lib"))
from serving import Cases, Tandem, make_model, rename_special, scratch, template_of  # noqa: E402

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


# Messages on channels: the shape of gpt-oss' template
HARMONY = ("<|start|>system<|message|>Effort: {{ reasoning_effort or 'medium' }}<|end|>"
           "{% for m in messages %}{% if m.role == 'assistant' %}"
           "{% if m.thinking %}{{ '<|start|>assistant<|channel|>analysis<|message|>' + m.thinking + '<|end|>' }}{% endif %}"
           "{% for c in m.tool_calls or [] %}{{ '<|start|>assistant to=functions.' + c.function.name }}"
           "{{ '<|channel|>commentary json<|message|>' + c.function.arguments | tojson + '<|call|>' }}{% endfor %}"
           "{% if not m.tool_calls %}{{ '<|start|>assistant<|channel|>final<|message|>' + m.content + '<|end|>' }}"
           "{% endif %}{% else %}{{ '<|start|>' + m.role + '<|message|>' + m.content + '<|end|>' }}{% endif %}{% endfor %}"
           "{{ tools | tojson if tools }}"
           "{% if add_generation_prompt %}{{ '<|start|>assistant' }}"
           "{% if opens %}{{ '<|channel|>analysis<|message|>' }}{% endif %}{% endif %}")


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


    # ---- how many tokens

    def count(self, **more):
        """(token ids, tokens of thoughts as usage has them, finish_reason)"""
        r = self.chat(return_token_ids=True, max_tokens=200, **more).json
        return (r["choices"][0]["token_ids"], r["usage"]["completion_tokens_details"]["reasoning_tokens"],
                r["choices"][0]["finish_reason"])

    def case_counted(self):
        """Catches: tokens of thoughts that are not counted, or words that are."""
        end = self.end_id()
        for seed in range(6):
            ids, n, _ = self.count(seed=seed, **INSIDE)
            assert n == (ids.index(end) + 1 if end in ids else len(ids)), (n, ids)
        assert self.count(seed=1, enable_thinking=False)[1] == 0
        r = self.server.post("/v1/responses", {"input": "Think.", "max_output_tokens": 30, "seed": 1, **INSIDE}).json
        assert 0 < r["usage"]["output_tokens_details"]["reasoning_tokens"] <= r["usage"]["output_tokens"], r

    def end_id(self):
        return self.server.post("/tokenize", {"prompt": "</think>", "add_special_tokens": False}).json["tokens"][0]

    def limited(self):
        """Answers within limits of thoughts, by seed and limit."""
        return {(seed, most): self.count(seed=seed, thinking_token_budget=most, temperature=heat, **INSIDE)
                for seed, heat in ((0, 1.3), (1, 1.3), (2, 0)) for most in (0, 1, 9, 40)}

    def case_limit(self):
        """Catches: thoughts beyond their limit, a limit that changes what stands before it, thoughts that
        are ended twice, an answer that hangs on who else is in the step."""
        end, alone = self.end_id(), self.limited()
        for (seed, most), (ids, n, _) in alone.items():
            free = self.count(seed=seed, temperature=1.3 if seed < 2 else 0, **INSIDE)[0]
            assert end in ids and ids.index(end) <= most and n == ids.index(end) + 1, (most, ids)
            at = ids.index(end)
            assert ids[:at] == free[:at] and (at == most or ids[at] == free[at]), (ids, free)
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            crowd = [pool.submit(self.chat, seed=100 + i, max_tokens=300, **INSIDE) for i in range(6)]
            assert self.limited() == alone
            [c.result() for c in crowd]
        return str(len(alone))

    def case_limit_of_a_form(self):
        """Catches: a limit that what a text is held to shuts out, or that lets it go."""
        for seed in range(6):
            (thoughts, content, finish), _ = self.one(seed=seed, response_format=FORM, thinking_budget=5, **INSIDE)
            assert finish == "stop" and json.loads(content) in ("good", "bad"), (thoughts, content)
        r = self.server.post("/v1/messages", {"messages": ASK, "max_tokens": 60, "temperature": 1, "chat_template_kwargs":
                             {"opens": True}, "thinking": {"type": "enabled", "budget_tokens": 5}})
        assert r.status == 200 and [b["type"] for b in r.json["content"]] == ["thinking", "text"], r


class Channels(Thinking):
    """Answers that are messages on channels."""

    def case_form(self):
        """Catches: a form without the header of an answer, a header told as text, thoughts that are held to
        the form."""
        n = {"thought": 0, "plain": 0}
        for seed in range(12):
            ask = {"seed": seed, "response_format": FORM, "max_tokens": 60}
            (thoughts, content, finish), _ = self.one(**ask)
            assert self.streamed(**ask) == (thoughts, content, finish)
            assert "<|" not in content and not thoughts.startswith("<|"), (thoughts, content)
            if finish == "stop":
                assert json.loads(content) in ("good", "bad"), content
            n["thought" if thoughts else "plain"] += 1
            (none, same, _), _ = self.one(**ask, separate_reasoning=False)
            assert json.loads(same) in ("good", "bad"), same
        assert n["thought"] and n["plain"], n
        return str(n)

    def case_calls(self):
        """Catches: a call that is told with its header, or that a stream tells otherwise."""
        for seed in range(4):
            ask = {"seed": seed, "tools": [PICK], "tool_choice": "required", "separate_reasoning": False}
            _, m = self.one(**ask)
            call = m["tool_calls"][0]["function"]
            assert call["name"] == "pick" and isinstance(json.loads(call["arguments"])["at"], bool), m
            assert m["content"] is None and len(m["tool_calls"]) == 1, m
            told = ""
            for line in self.chat(stream=True, **ask).body.decode().split("\n"):
                for c in json.loads(line[6:])["choices"] if line.startswith("data: {") else ():
                    assert not c["delta"].get("content"), c
                    told += "".join(x["function"]["arguments"] for x in c["delta"].get("tool_calls", []))
            assert told == call["arguments"], (told, call)

    def case_open(self):
        """Catches: thoughts that the prompt has begun taken for an answer."""
        (thoughts, content, _), _ = self.one(seed=1, max_tokens=30, **INSIDE)
        assert thoughts and not content, (thoughts, content)
        (thoughts, content, _), _ = self.one(seed=1, max_tokens=30)
        assert content and not thoughts, (thoughts, content)

    def case_back(self):
        """Catches: thoughts or a call that the next prompt does not show."""
        def prompt(*messages, **more):
            r = self.server.post("/apply-template", {"messages": [*ASK, *messages], **more})
            assert r.status == 200, r
            return r.json["prompt"]

        said = {"role": "assistant", "content": "No.", "reasoning_content": "hmhm"}
        assert "analysis<|message|>hmhm<|end|><|start|>assistant<|channel|>final<|message|>No." in prompt(said)
        call = {"id": "x", "type": "function", "function": {"name": "pick", "arguments": "{\"at\": true}"}}
        said = {"role": "assistant", "content": None, "reasoning_content": "hm", "tool_calls": [call]}
        shown = prompt(said, {"role": "tool", "tool_call_id": "x", "content": "7"}, tools=[PICK])
        assert "hm<|end|>" in shown and "to=functions.pick<|channel|>commentary json<|message|>{\"at\": true}" in shown, shown
        tokens = {word: self.chat(reasoning_effort=word, max_tokens=1).json["usage"]["prompt_tokens"]
                  for word in ("low", "medium")}
        assert "Effort: medium" in prompt() and tokens["low"] < tokens["medium"], tokens
        r = self.server.post("/v1/chat/completions", {**WARM, "thinking_token_budget": 5})
        assert r.status == 400 and r.error["param"] == "thinking_token_budget", r


def channels(cases, tmp):
    model = make_model(tmp / "channels")
    template_of(model, HARMONY)
    with Tandem(model, "--ctx", 4096) as server:
        at = Channels(server)
        for name in ("case_form", "case_calls", "case_open", "case_back"):
            cases.run(f"channels, {name}", getattr(at, name))


def refuses(server):
    """Catches: a setting dropped where the model has none."""
    for name, value in (("enable_thinking", False), ("reasoning_effort", "high")):
        r = server.post("/v1/chat/completions", {**WARM, name: value})
        assert r.status == 400 and r.error["param"] == name, r
    r = server.post("/v1/chat/completions", {**WARM, "enable_thinking": 1})
    assert r.status == 400 and "boolean" in r.error["message"], r
    assert server.post("/v1/chat/completions", {**WARM, "reasoning_effort": "none", "max_tokens": 2}).status == 200
    r = server.post("/v1/chat/completions", {**WARM, "thinking_token_budget": 5})
    assert r.status == 400 and r.error["param"] == "thinking_token_budget", r
    assert server.post("/v1/chat/completions", {**WARM, "thinking_token_budget": -1, "max_tokens": 2}).status == 200


def same_without_guesses(model, want):
    """Catches: a guess that changes where thoughts end."""
    with Tandem(model, "--ctx", 4096, "--speculate", "off") as server:
        assert Thinking(server).limited() == want


def main():
    cases = Cases()
    with scratch() as tmp:
        model = make_model(tmp / "m")
        template_of(model, TEMPLATE)
        rename_special(model, ("<|system|>", "<think>"), ("<|user|>", "</think>"))
        with Tandem(model, "--ctx", 4096) as server:
            at = Thinking(server)
            cases.run_all(at)
            limited = at.limited()
        cases.run("without guesses", lambda: same_without_guesses(model, limited))
        channels(cases, tmp)
        with Tandem(make_model(tmp / "plain")) as server:
            cases.run("a model without", lambda: refuses(server))
    return cases.end()


if __name__ == "__main__":
    sys.exit(main())
