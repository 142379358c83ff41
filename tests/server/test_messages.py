#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""/v1/messages, Anthropic's shape, against a running server: the same texts, calls and thoughts as a chat
of the same conversation, in blocks; streams whose events are in their order; errors in their own form.
Random weights; standard library only."""
import json
import pathlib
import re
import socket
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "lib"))
from serving import Cases, Tandem, make_model, rename_special, scratch, template_of  # noqa: E402

TEMPLATE = ("{% for t in tools or [] %}{{ t | tojson }}{% endfor %}{% for m in messages %}"
            "{{ m.role + ':' + (m.content or '') }}{% if m.reasoning_content %}{{ '(' + m.reasoning_content + ')' }}"
            "{% endif %}{% for c in m.tool_calls or [] %}{{ '<tool_call>\\n' + c.function | tojson + '\\n</tool_call>' }}"
            "{% endfor %}{{ m.tool_call_id or '' }}{{ '<|end|>' }}{% endfor %}{% if add_generation_prompt %}"
            "{{ '<|assistant|>' }}{% if enable_thinking is defined and not enable_thinking %}"
            "{{ '<think>\n\n</think>\n\n' }}{% elif opens %}{{ '<think>\n' }}{% endif %}{% endif %}")
WEATHER = {"type": "object", "properties": {"city": {"enum": ["Oslo", "Rome"]}, "days": {"type": "integer"}},
           "required": ["city", "days"], "additionalProperties": False}
TOOLS = [{"name": "get_weather", "description": "It does.", "input_schema": WEATHER},
         {"name": "now", "input_schema": {"type": "object"}}]
CHAT_TOOLS = [{"type": "function", "function": {"name": "get_weather", "description": "It does.", "parameters": WEATHER}},
              {"type": "function", "function": {"name": "now", "parameters": {"type": "object"}}}]
ASK = [{"role": "user", "content": "What is it like?"}]
WARM = {"temperature": 1.2, "max_tokens": 60, "messages": ASK}
KEYS = "ann inference ann-key-ann-key\nbob inference bob-key-bob-key tpm=300\nroot all root-key-root-key\n"
ANN = {"x-api-key": "ann-key-ann-key", "anthropic-version": "2023-06-01"}
ROOT_KEY = {"Authorization": "Bearer root-key-root-key"}


def events_of(body):
    """[(name, data)]; each event's name is its type."""
    found = []
    for block in body.decode().split("\n\n")[:-1]:
        lines = [x for x in block.split("\n") if not x.startswith(":")]
        if not lines:
            continue
        assert len(lines) == 2 and lines[0].startswith("event: ") and lines[1].startswith("data: "), block
        data = json.loads(lines[1][6:])
        assert data["type"] == lines[0][7:], block
        found.append((data["type"], data))
    return found


def message_of(events):
    """The whole message that the events come to, which must be in their order."""
    names = [n for n, _ in events if n != "ping"]
    assert names[0] == "message_start" and names[-2:] == ["message_delta", "message_stop"], names
    message, is_open = dict(events[0][1]["message"]), False
    assert message["content"] == [] and message["stop_reason"] is None, message
    for name, e in events[1:]:
        if name == "content_block_start":
            assert not is_open and e["index"] == len(message["content"]), e
            message["content"].append({**e["content_block"]})
            is_open, parts = True, ""
        elif name == "content_block_delta":
            block, d = message["content"][-1], e["delta"]
            assert is_open and e["index"] == len(message["content"]) - 1, e
            kind = {"text": "text_delta", "thinking": "thinking_delta", "tool_use": "input_json_delta"}
            assert d["type"] == kind[block["type"]], (block, d)
            if block["type"] == "tool_use":
                parts += d["partial_json"]
            else:
                block[block["type"]] += d[block["type"]]
        elif name == "content_block_stop":
            assert is_open and e["index"] == len(message["content"]) - 1, e
            is_open, block = False, message["content"][-1]
            if block["type"] == "tool_use" and parts:
                assert block["input"] == {}, block
                block["input"] = json.loads(parts)
        elif name == "message_delta":
            assert not is_open
            message.update(e["delta"], usage=e["usage"])
    return message


def plain(message):
    """Without what is random of it, or differs by how it was asked for."""
    message = {**message, "id": "", "usage": message["usage"]["output_tokens"]}
    message["content"] = [{**b, "id": ""} if b["type"] == "tool_use" else b for b in message["content"]]
    return message


class Messages:
    def __init__(self, server):
        self.server = server

    def ask(self, **more):
        return self.server.post("/v1/messages", {**WARM, **more}, **ANN)

    def good(self, **more):
        r = self.ask(**more)
        assert r.status == 200, r
        m = r.json
        assert set(m) == {"id", "type", "role", "model", "content", "stop_reason", "stop_sequence", "usage"}, m
        assert m["type"] == "message" and m["role"] == "assistant" and m["id"].startswith("msg-"), m
        return m

    def streamed(self, **more):
        r = self.ask(stream=True, **more)
        assert r.status == 200 and r.headers["Content-Type"] == "text/event-stream", r
        return message_of(events_of(r.body))

    def chat(self, **more):
        r = self.server.post("/v1/chat/completions", {**WARM, **more}, **ROOT_KEY)
        assert r.status == 200, r
        return r.json

    def text(self, m):
        return "".join(b["text"] for b in m["content"] if b["type"] == "text")

    def thoughts(self, m):
        return "".join(b["thinking"] for b in m["content"] if b["type"] == "thinking")

    def refused(self, what, status=400, kind="invalid_request_error", **more):
        r = self.ask(**more)
        assert r.status == status, (r, what)
        assert set(r.json) == {"type", "error"} and r.json["type"] == "error", r
        assert r.json["error"]["type"] == kind and what in r.json["error"]["message"], (r, what)

    # ---- one way

    def case_same_as_a_chat(self):
        """Catches: another text for the same conversation and seed."""
        talk = [{"role": "user", "content": "A"}, {"role": "assistant", "content": "B"}, {"role": "user", "content": "C"}]
        n = 0
        for seed in range(8):
            m = self.good(seed=seed, system="Be brief.", messages=talk)
            c = self.chat(seed=seed, messages=[{"role": "system", "content": "Be brief."}, *talk])
            said = c["choices"][0]["message"]
            assert self.text(m) == (said["content"] or ""), (m, c)
            assert self.thoughts(m) == said.get("reasoning_content", ""), (m, c)
            u, v = m["usage"], c["usage"]
            assert u["output_tokens"] == v["completion_tokens"], (u, v)
            assert u["input_tokens"] + u["cache_read_input_tokens"] == v["prompt_tokens"], (u, v)
            ends = {"stop": "end_turn", "length": "max_tokens"}
            assert m["stop_reason"] == ends[c["choices"][0]["finish_reason"]], (m, c)
            assert plain(self.streamed(seed=seed, system="Be brief.", messages=talk)) == plain(m)
            n += bool(self.text(m))
        assert n

    def case_blocks(self):
        """Catches: blocks that come to another prompt than the text that they hold."""
        want = self.good(seed=1, system="One\nTwo", messages=[{"role": "user", "content": "A\nB"}])
        text = [{"type": "text", "text": "A", "cache_control": {"type": "ephemeral"}}, {"type": "text", "text": "B"}]
        system = [{"type": "text", "text": "One"}, {"type": "text", "text": "Two"}]
        got = self.good(seed=1, system=system, messages=[{"role": "user", "content": text}])
        assert plain(got) == plain(want), (got, want)

    def case_prefill(self):
        """Catches: the beginning of an answer that the answer does not go on from."""
        talk = [*ASK, {"role": "assistant", "content": "It is"}]
        c = self.chat(seed=2, messages=talk, continue_final_message=True, add_generation_prompt=False)
        assert self.text(self.good(seed=2, messages=talk)) == c["choices"][0]["message"]["content"]
        block = [*ASK, {"role": "assistant", "content": [{"type": "text", "text": "It is"}]}]
        assert self.text(self.good(seed=2, messages=block)) == c["choices"][0]["message"]["content"]

    def case_prefill_of_nothing(self):
        """Catches: an answer behind the end of an empty message."""
        want = plain(self.good(seed=2))
        for nothing in ("", " \n", [], [{"type": "text", "text": "\t "}]):
            got = self.good(seed=2, messages=[*ASK, {"role": "assistant", "content": nothing}])
            assert plain(got) == want, (nothing, got, want)

    def case_thinking(self):
        """Catches: thoughts among the words, or where they were not wanted."""
        n = 0
        for seed in range(6):
            ask = {"seed": seed, "max_tokens": 900, "chat_template_kwargs": {"opens": True}}
            m = self.good(**ask)
            assert [b["type"] for b in m["content"]] in (["thinking"], ["thinking", "text"]), m
            assert m["content"][0]["signature"] == "" and "</think>" not in m["content"][0]["thinking"], m
            assert plain(self.streamed(**ask)) == plain(m)
            assert self.text(self.good(**ask, thinking={"type": "enabled", "budget_tokens": 1024, "display": "omitted"})) \
                == self.text(m)
            n += len(m["content"]) == 2
        assert n, "no text came to its words"
        off = self.good(seed=1, thinking={"type": "disabled"})
        said = self.chat(seed=1, enable_thinking=False)["choices"][0]["message"]["content"]
        assert [b["type"] for b in off["content"]] == ["text"] and self.text(off) == said

    def case_thoughts_go_back(self):
        """Catches: thoughts that the template is not given."""
        def count(blocks):
            r = self.server.post("/v1/messages/count_tokens", {"messages": [
                *ASK, {"role": "assistant", "content": blocks}, *ASK]}, **ANN)
            assert r.status == 200, r
            return r.json["input_tokens"]
        text = {"type": "text", "text": "No."}
        assert count([{"type": "thinking", "thinking": "hmhm", "signature": ""}, text]) > count([text])
        assert count([{"type": "redacted_thinking", "data": "xyz"}, text]) == count([text])

    # ---- tools

    def case_tools(self):
        """Catches: a call that is not its chat's, arguments that are a string, a stream of other pieces."""
        n = 0
        for seed in range(8):
            ask = {"seed": seed, "max_tokens": 900, "thinking": {"type": "disabled"}}
            m = self.good(tools=TOOLS, tool_choice={"type": "any"}, **ask)
            c = self.chat(seed=seed, max_tokens=900, tools=CHAT_TOOLS, tool_choice="required", enable_thinking=False)
            calls = [b for b in m["content"] if b["type"] == "tool_use"]
            want = c["choices"][0]["message"].get("tool_calls", [])
            assert [(b["name"], b["input"]) for b in calls] == \
                [(x["function"]["name"], json.loads(x["function"]["arguments"])) for x in want], (m, c)
            assert (m["stop_reason"] == "tool_use") == (c["choices"][0]["finish_reason"] == "tool_calls"), m
            assert len({b["id"] for b in calls}) == len(calls) and all(b["id"] for b in calls), m
            if m["stop_reason"] == "tool_use":
                assert plain(self.streamed(tools=TOOLS, tool_choice={"type": "any"}, **ask)) == plain(m)
            n += len(calls)
        assert n > 4, n

    def case_tool_choice(self):
        """Catches: a choice that is not kept to."""
        ask = {"max_tokens": 900, "thinking": {"type": "disabled"}, "tools": TOOLS}
        for seed in range(4):
            m = self.good(seed=seed, tool_choice={"type": "tool", "name": "get_weather",
                                                  "disable_parallel_tool_use": True}, **ask)
            if m["stop_reason"] == "tool_use":
                call, = m["content"]
                assert call["name"] == "get_weather" and call["input"]["city"] in ("Oslo", "Rome"), m
            m = self.good(seed=seed, tool_choice={"type": "none"}, **ask)
            assert all(b["type"] == "text" for b in m["content"]), m

    def case_results(self):
        """Catches: a call and its result that come to another prompt than a chat's."""
        call = {"type": "tool_use", "id": "toolu_1", "name": "get_weather", "input": {"city": "Oslo", "days": 1}}
        result = {"type": "tool_result", "tool_use_id": "toolu_1", "content": [{"type": "text", "text": "rain"}]}
        talk = [*ASK, {"role": "assistant", "content": [{"type": "text", "text": "See:"}, call]},
                {"role": "user", "content": [result, {"type": "text", "text": "And now?"}]}]
        chat = [*ASK, {"role": "assistant", "content": "See:", "tool_calls": [{"id": "toolu_1", "type": "function", "function": {
            "name": "get_weather", "arguments": json.dumps(call["input"])}}]},
            {"role": "tool", "tool_call_id": "toolu_1", "content": "rain"}, {"role": "user", "content": "And now?"}]
        m = self.good(seed=3, messages=talk, tools=TOOLS, tool_choice={"type": "none"}, thinking={"type": "disabled"})
        c = self.chat(seed=3, messages=chat, tools=CHAT_TOOLS, tool_choice="none", enable_thinking=False)
        assert self.text(m) == c["choices"][0]["message"]["content"], (m, c)
        r = self.ask(messages=[*talk[:2], {"role": "user", "content": [{**result, "is_error": True}]}])
        assert r.headers["x-tandem-ignored"] == "messages.is_error", r.headers

    # ---- how it ends

    def case_ends(self):
        """Catches: a reason that is another's."""
        off = {"thinking": {"type": "disabled"}, "seed": 5}
        whole = self.text(self.good(**off, ignore_eos=True, max_tokens=40))
        stop = whole[5:8]
        m = self.good(**off, stop_sequences=["\0never", stop])
        assert (m["stop_reason"], m["stop_sequence"]) == ("stop_sequence", stop), m
        assert self.text(m) == whole[:whole.index(stop)] and plain(self.streamed(**off, stop_sequences=[stop])) == plain(m)
        m = self.good(**off, ignore_eos=True, max_tokens=3)
        assert m["stop_reason"] == "max_tokens" and m["stop_sequence"] is None and m["usage"]["output_tokens"] == 3, m

    def case_form(self):
        """Catches: a form that the text is not held to."""
        form = {"type": "json_schema", "schema": {"enum": ["good", "bad"]}}
        for ask in ({"output_config": {"format": form}}, {"output_format": form}):
            m = self.good(thinking={"type": "disabled"}, **ask)
            assert json.loads(self.text(m)) in ("good", "bad"), m

    def case_ping(self):
        """Catches: a stream without its ping, or one that is no event."""
        events = events_of(self.ask(stream=True).body)
        assert [n for n, _ in events][:2] == ["message_start", "ping"], events

    # ---- counting

    def case_count(self):
        """Catches: a count that is not the prompt's, or is refused for its length."""
        for more in ({"system": "Be brief."}, {"tools": TOOLS}, {"thinking": {"type": "disabled"}}):
            body = {"messages": ASK, **more}
            r = self.server.post("/v1/messages/count_tokens", body, **ANN)
            assert r.status == 200 and set(r.json) == {"input_tokens"}, r
            u = self.good(**more, max_tokens=1)["usage"]
            assert r.json["input_tokens"] == u["input_tokens"] + u["cache_read_input_tokens"], (r, u)
        r = self.server.post("/v1/messages/count_tokens", {"messages": [{"role": "user", "content": "a b " * 20000}]}, **ANN)
        assert r.status == 200 and r.json["input_tokens"] > 4096, r
        r = self.server.post("/v1/messages/count_tokens", {"messages": []}, **ANN)
        assert r.status == 400 and r.json["type"] == "error", r

    # ---- what is wrong

    def case_refusals(self):
        """Catches: what is half understood."""
        def user(*blocks):
            return {"messages": [{"role": "user", "content": list(blocks)}]}

        def said(*blocks):
            return {"messages": [*ASK, {"role": "assistant", "content": list(blocks)}, *ASK]}
        self.refused("'max_tokens' is required", max_tokens=None)
        self.refused("'messages' is required", messages=None)
        self.refused("1 to", messages=[])
        self.refused("array", messages={})
        self.refused("'messages[0]' must be an object", messages=["x"])
        self.refused("'messages[0].role'", messages=[{"role": "tool", "content": "x"}])
        self.refused("'messages[0].content' is missing", messages=[{"role": "user"}])
        self.refused("'messages[0].content' must be", messages=[{"role": "user", "content": 7}])
        self.refused("\"image\"", **user({"type": "image", "source": {"type": "url", "url": "http://x/y"}}))
        self.refused("\"document\"", **user({"type": "text", "text": "x"}, {"type": "document"}))
        self.refused("messages[0].content[1]", **user({"type": "text", "text": "x"}, {"type": "document"}))
        self.refused("'type'", **user("x"))
        self.refused("'text'", **user({"type": "text"}))
        self.refused("'tool_use_id'", **user({"type": "tool_result"}))
        self.refused("messages[0].content[0].content[0]", **user({
            "type": "tool_result", "tool_use_id": "x", "content": [{"type": "image"}]}))
        self.refused("is_error", **user({"type": "tool_result", "tool_use_id": "x", "is_error": 1}))
        self.refused("tool_use", **user({"type": "tool_use", "id": "x", "name": "y", "input": {}}))
        self.refused("'input'", **said({"type": "tool_use", "id": "x", "name": "y", "input": "z"}))
        self.refused("'id'", **said({"type": "tool_use", "name": "y", "input": {}}))
        self.refused("empty", **said({"type": "tool_use", "id": "", "name": "y", "input": {}}))
        self.refused("server_tool_use", **said({"type": "server_tool_use"}))
        self.refused("system", system=[{"type": "image"}])
        self.refused("system", system={})
        self.refused("tools[0].type", tools=[{"type": "web_search_20250305", "name": "web_search"}])
        self.refused("tools[0].name", tools=[{"name": "a b", "input_schema": {}}])
        self.refused("tools[1].name", tools=[TOOLS[0], TOOLS[0]])
        self.refused("tools[0].input_schema", tools=[{"name": "a", "input_schema": {"type": "string"}}])
        self.refused("tools[0].strict", tools=[{"name": "a", "strict": 1}])
        self.refused("tools[0]", tools=["x"])
        self.refused("holds none", tool_choice={"type": "any"})
        self.refused("none of", tools=TOOLS, tool_choice={"type": "tool", "name": "x"})
        self.refused("'name'", tools=TOOLS, tool_choice={"type": "tool"})
        self.refused("auto, any", tools=TOOLS, tool_choice={"type": "required"})
        self.refused("object", tools=TOOLS, tool_choice="auto")
        self.refused("boolean", tools=TOOLS, tool_choice={"type": "auto", "disable_parallel_tool_use": 1})
        self.refused("thinking", thinking={"type": "yes"})
        self.refused("thinking", thinking={"type": "enabled", "budget_tokens": "x"})
        self.refused("mcp_servers", mcp_servers=[{"name": "x"}])
        self.refused("temperature", temperature=3)
        self.refused("top_p", top_p="x")
        self.refused("stop_sequences", stop_sequences=[""])
        self.refused("context length", max_tokens=10**6)
        self.refused("maximum context", messages=[{"role": "user", "content": "a b " * 20000}])
        self.refused("model", status=404, kind="not_found_error", model="nobody")

    def case_form_of_errors(self):
        """Catches: an error in another shape, wherever on the way it is told."""
        def form(r, status, kind):
            assert r.status == status and r.json["type"] == "error" and r.json["error"]["type"] == kind, r
            assert set(r.json["error"]) == {"type", "message"}, r
        s = self.server
        form(s.post("/v1/messages", WARM), 401, "authentication_error")
        form(s.post("/v1/messages", WARM, **{"x-api-key": "nobody-nobody"}), 401, "authentication_error")
        form(s.get("/v1/messages", **ANN), 405, "invalid_request_error")
        form(s.post("/v1/messages/batches", WARM, **ANN), 404, "not_found_error")
        form(s.ask("POST", "/v1/messages", b"{", **ANN), 400, "invalid_request_error")
        form(s.ask("POST", "/v1/messages", b"x", **{**ANN, "Content-Type": "text/plain"}), 415, "invalid_request_error")
        form(s.ask("POST", "/v1/messages", b"x" * 65, **{**ANN, "Content-Length": str(33 << 20)}), 413, "request_too_large")
        form(s.post("/v1/messages", {**WARM, "max_tokens": 1000}, **{"x-api-key": "bob-key-bob-key"}), 400,
             "invalid_request_error")
        bob = {"x-api-key": "bob-key-bob-key"}
        said = [s.post("/v1/messages", {**WARM, "max_tokens": 200, "ignore_eos": True}, **bob) for _ in range(3)]
        form(said[-1], 429, "rate_limit_error")
        assert "Retry-After" in said[-1].headers and said[0].status == 200, said

    def case_keys(self):
        """Catches: a key that is taken on some routes alone, two keys of which the lesser counts."""
        assert self.server.get("/v1/models", **ANN).status == 200
        assert self.server.get("/metrics", **ANN).status == 403
        assert self.server.get("/metrics", **{**ANN, **ROOT_KEY}).status == 200
        r = self.server.get("/v1/models", **{**ANN, "Authorization": "Bearer nobody-nobody"})
        assert r.status == 401, r
        with socket.create_connection(("127.0.0.1", self.server.port)) as c:
            c.sendall(b"GET /v1/models HTTP/1.1\r\nHost: localhost\r\nx-api-key: ann-key-ann-key\r\n"
                      b"x-api-key: root-key-root-key\r\n\r\n")
            assert c.recv(100).startswith(b"HTTP/1.1 400"), "two keys"

    def case_ignored(self):
        """Catches: a field that is dropped in silence."""
        r = self.ask(metadata={"user_id": "x"}, foo=1, thinking={"type": "enabled", "budget_tokens": 2000})
        assert r.status == 200, r
        assert set(r.headers["x-tandem-ignored"].split(", ")) == {"metadata", "foo"}, r.headers

    # ---- where parts meet

    def case_leaves(self):
        """Catches: a client that goes inside a stream and leaves its text running."""
        body = json.dumps({**WARM, "max_tokens": 3500, "ignore_eos": True, "stream": True}).encode()
        for _ in range(3):
            with socket.create_connection(("127.0.0.1", self.server.port)) as c:
                c.sendall(b"POST /v1/messages HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                          b"x-api-key: ann-key-ann-key\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
                got = b""
                while b"content_block_delta" not in got:
                    got += c.recv(4096)
        self.server.wait_idle(**ROOT_KEY)

    def case_log_and_metrics(self):
        """Catches: a message that no figure or line knows of."""
        was = self.server.metrics(**ROOT_KEY)
        m = self.good(seed=1)
        now = self.server.wait_idle(**ROOT_KEY)
        assert now["vllm:generation_tokens_total"] - was["vllm:generation_tokens_total"] == m["usage"]["output_tokens"]
        assert re.search(r'/v1/messages\b.*\b200\b|200.*/v1/messages', self.server.said()), self.server.output()


def times_out(server):
    """Catches: a stream whose time is over and whose last event is another route's."""
    r = server.post("/v1/messages", {"messages": ASK, "max_tokens": 60000, "ignore_eos": True, "stream": True}, **ANN)
    name, data = events_of(r.body)[-1]
    assert (name, data["error"]["type"]) == ("error", "timeout_error"), r.body[-300:]


def no_tools(server):
    """Catches: tools that a model cannot be shown, dropped."""
    r = server.post("/v1/messages", {**WARM, "tools": TOOLS})
    assert r.status == 400 and "does not show tools" in r.json["error"]["message"], r
    r = server.post("/v1/messages", {**WARM, "max_tokens": 2, "thinking": {"type": "enabled"}})
    assert r.status == 200 and r.headers["x-tandem-ignored"] == "thinking", r


def main():
    cases = Cases()
    with scratch() as tmp:
        model, keys = make_model(tmp / "m"), tmp / "keys"
        keys.write_text(KEYS)
        keys.chmod(0o600)
        template_of(model, TEMPLATE)
        rename_special(model, ("<|system|>", "<think>"), ("<|user|>", "</think>"))
        with Tandem(model, "--ctx", 4096, "--api-key-file", keys) as server:
            at = Messages(server)
            cases.run_all(at)
        with Tandem(model, "--ctx", 65536, "--request-timeout", 1) as server:
            cases.run("times out", lambda: times_out(server))
        with Tandem(make_model(tmp / "plain")) as server:
            cases.run("a model without", lambda: no_tools(server))
    return cases.end()


if __name__ == "__main__":
    sys.exit(main())
