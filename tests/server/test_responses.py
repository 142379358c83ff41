#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""/v1/responses against a running server: the same texts, calls and thoughts as a chat of the same
conversation, in items; streams whose events are in the order of the specification, and numbered. Then
responses that are kept: for their key alone, over a restart, for their time and within their bytes. Random
weights; standard library only."""
import contextlib
import json
import pathlib
import socket
import sqlite3
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "lib"))
from serving import Cases, Tandem, make_model, rename_special, scratch, template_of  # noqa: E402
from test_messages import ASK, CHAT_TOOLS, TEMPLATE, WEATHER  # noqa: E402
from test_routes import Description  # noqa: E402

# What is tested here of server/http/routes.def: response response_drop response_cancel response_items. Of
# schema.def: ResponseDeleted, ResponseItemList.

TOOLS = [{"type": "function", "name": "get_weather", "description": "It does.", "parameters": WEATHER},
         {"type": "function", "name": "now", "parameters": {"type": "object"}}]
WARM = {"temperature": 1.2, "input": ASK}
KEYS = ("ann inference ann-key-ann-key\nbob inference bob-key-bob-key\nroot all root-key-root-key\n"
        "few inference few-key-few-key tpm=300\n")
ANN = {"Authorization": "Bearer ann-key-ann-key"}
BOB = {"Authorization": "Bearer bob-key-bob-key"}
ROOT_KEY = {"Authorization": "Bearer root-key-root-key"}
LOGPROBS = "message.output_text.logprobs"
DELTA = {"reasoning": "response.reasoning_text", "message": "response.output_text",
         "function_call": "response.function_call_arguments"}


def events_of(body):
    """Each event's data; its name is its type, and its number the next."""
    found = []
    for block in body.decode().split("\n\n")[:-1]:
        lines = [x for x in block.split("\n") if not x.startswith(":")]
        if not lines:
            continue
        assert len(lines) == 2 and lines[0].startswith("event: ") and lines[1].startswith("data: "), block
        data = json.loads(lines[1][6:])
        assert data["type"] == lines[0][7:] and data["sequence_number"] == len(found), block
        found.append(data)
    return found


def text_of(item):
    return item["arguments"] if item["type"] == "function_call" else "".join(p["text"] for p in item["content"])


def response_of(events):
    """The response that the last event has, which the others must come to."""
    assert [e["type"] for e in events[:2]] == ["response.created", "response.in_progress"], events[:2]
    for e in events[:2]:
        r = e["response"]
        assert r["status"] == "in_progress" and r["output"] == [] and r["usage"] is None, r
    output, i, last = [], 2, events[-1]
    while i < len(events) - 1:
        e, text, logprobs = events[i], "", []
        assert e["type"] == "response.output_item.added" and e["output_index"] == len(output), e
        item = e["item"]
        is_call = item["type"] == "function_call"
        assert item["status"] == "in_progress" and (item["arguments"] == "" if is_call else item["content"] == []), item
        place = {"item_id": item["id"], "output_index": len(output), **({} if is_call else {"content_index": 0})}
        if not is_call:
            i += 1
            assert events[i]["type"] == "response.content_part.added" and events[i]["part"]["text"] == "", events[i]
        while events[i + 1]["type"] == DELTA[item["type"]] + ".delta":
            i += 1
            assert {**events[i], **place} == events[i] and events[i]["delta"], events[i]
            text += events[i]["delta"]
            logprobs += events[i].get("logprobs", [])
        i += 1
        assert events[i]["type"] == DELTA[item["type"]] + ".done" and {**events[i], **place} == events[i], events[i]
        assert events[i]["arguments" if is_call else "text"] == text, (events[i], text)
        assert events[i].get("logprobs", [])[:len(logprobs)] == logprobs, events[i]
        if not is_call:
            i += 1
            assert events[i]["type"] == "response.content_part.done" and events[i]["part"]["text"] == text, events[i]
        i += 1
        assert events[i]["type"] == "response.output_item.done", events[i]
        done = events[i]["item"]
        assert done["id"] == item["id"] and text_of(done) == text, done
        output.append(done)
        i += 1
    assert last["type"] == "response." + last["response"]["status"], last
    assert last["response"]["output"] == output, (last, output)
    assert last["response"]["id"] == events[0]["response"]["id"]
    return last["response"]


def plain(r):
    """Without what is random of it, or differs by how it was asked for."""
    output = [{k: v for k, v in x.items() if k not in ("id", "call_id")} for x in r["output"]]
    return output, r["status"], r["incomplete_details"], r["usage"]["output_tokens"]


def said(r, kind="message"):
    return "".join(text_of(x) for x in r["output"] if x["type"] == kind)


class Responses:
    def __init__(self, server):
        self.server = server

    def ask(self, key=ANN, **more):
        return self.server.post("/v1/responses", {"max_output_tokens": 60, **WARM, **more}, **key)

    def good(self, **more):
        r = self.ask(**more)
        assert r.status == 200, r
        assert r.json["object"] == "response" and r.json["id"].startswith("resp_"), r
        return r.json

    def streamed(self, **more):
        r = self.ask(stream=True, **more)
        assert r.status == 200 and r.headers["Content-Type"] == "text/event-stream", r
        return response_of(events_of(r.body))

    def chat(self, **more):
        r = self.server.post("/v1/chat/completions", {"temperature": 1.2, "max_tokens": 60, "messages": ASK, **more}, **ANN)
        assert r.status == 200, r
        return r.json

    def refused(self, what, param, status=400, **more):
        r = self.ask(**more)
        assert r.status == status and r.error["param"] == param and what in r.error["message"], (r, what)

    # ---- one way

    def case_three_faces(self):
        """Catches: another text for the same conversation and seed."""
        talk = [{"role": "user", "content": "A"}, {"role": "assistant", "content": "B"}, {"role": "user", "content": "C"}]
        for seed in range(8):
            r = self.good(seed=seed, instructions="Be brief.", input=talk)
            c = self.chat(seed=seed, messages=[{"role": "system", "content": "Be brief."}, *talk])
            m = self.server.post("/v1/messages", {"temperature": 1.2, "seed": seed, "max_tokens": 60, "system": "Be brief.",
                                                  "messages": talk}, **ANN).json
            want = c["choices"][0]["message"]
            assert said(r) == (want["content"] or "") == "".join(b["text"] for b in m["content"] if b["type"] == "text"), (r, c, m)
            assert said(r, "reasoning") == want.get("reasoning_content", ""), (r, c)
            u, v = r["usage"], c["usage"]
            assert (u["input_tokens"], u["output_tokens"], u["total_tokens"]) == \
                (v["prompt_tokens"], v["completion_tokens"], v["total_tokens"]), (u, v)
            cut = c["choices"][0]["finish_reason"] == "length"
            assert r["status"] == ("incomplete" if cut else "completed"), (r, c)
            assert r["incomplete_details"] == ({"reason": "max_output_tokens"} if cut else None), r
            assert plain(self.streamed(seed=seed, instructions="Be brief.", input=talk)) == plain(r)

    def case_input(self):
        """Catches: items that come to another prompt than the text that they hold."""
        want = plain(self.good(seed=1, input="A\nB"))
        for more in ({"input": [{"role": "user", "content": "A\nB"}]},
                     {"input": [{"type": "message", "role": "user", "content": [
                         {"type": "input_text", "text": "A"}, {"type": "input_text", "text": "B"}]}]}):
            assert plain(self.good(seed=1, **more)) == want, more
        one = self.good(seed=1, input=[{"role": "developer", "content": "D"}, *ASK])
        assert said(one) == self.chat(seed=1, messages=[{"role": "developer", "content": "D"}, *ASK])["choices"][0]["message"]["content"]

    def case_repeats(self):
        """Catches: an answer that does not say what was asked for."""
        r = self.good(seed=1, instructions="Be brief.", metadata={"a": "b"}, tools=TOOLS, tool_choice="none", user="u",
                      enable_thinking=False)
        assert (r["instructions"], r["metadata"], r["tools"], r["tool_choice"], r["user"]) == \
            ("Be brief.", {"a": "b"}, TOOLS, "none", "u"), r
        assert (r["temperature"], r["max_output_tokens"], r["error"], r["background"]) == (1.2, 60, None, False), r
        r = self.good()
        assert (r["instructions"], r["metadata"], r["tools"], r["tool_choice"], r["text"]) == \
            (None, {}, [], "auto", {"format": {"type": "text"}}), r
        assert r["parallel_tool_calls"] is True and r["truncation"] == "disabled", r

    def case_thinking(self):
        """Catches: thoughts among the words; thoughts that do not go back."""
        n = 0
        for seed in range(6):
            ask = {"seed": seed, "max_output_tokens": 900, "chat_template_kwargs": {"opens": True}}
            r = self.good(**ask)
            assert [x["type"] for x in r["output"]] in (["reasoning"], ["reasoning", "message"]), r
            c = self.chat(seed=seed, max_tokens=900, chat_template_kwargs={"opens": True})["choices"][0]["message"]
            assert (said(r, "reasoning"), said(r)) == (c["reasoning_content"], c["content"] or ""), (r, c)
            assert plain(self.streamed(**ask)) == plain(r)
            n += len(r["output"]) == 2
        assert n, "no text came to its words"
        back = [*ASK, {"type": "reasoning", "id": "rs_1", "summary": [], "content": [{"type": "reasoning_text", "text": "hmhm"}]},
                {"type": "message", "role": "assistant", "id": "msg_1", "status": "completed",
                 "content": [{"type": "output_text", "text": "No.", "annotations": []}]}, *ASK]
        chat = [*ASK, {"role": "assistant", "content": "No.", "reasoning_content": "hmhm"}, *ASK]
        r, c = self.good(seed=1, input=back, reasoning={"effort": "none"}), self.chat(seed=1, messages=chat, reasoning_effort="none")
        assert said(r) == c["choices"][0]["message"]["content"], (r, c)
        assert r["usage"]["input_tokens"] == c["usage"]["prompt_tokens"], (r, c)

    # ---- tools

    def case_tools(self):
        """Catches: a call that is not its chat's, a stream of other pieces, a result that is lost."""
        n = 0
        for seed in range(6):
            ask = {"seed": seed, "max_output_tokens": 900, "enable_thinking": False, "tools": TOOLS, "tool_choice": "required"}
            r = self.good(**ask)
            c = self.chat(seed=seed, max_tokens=900, tools=CHAT_TOOLS, tool_choice="required", enable_thinking=False)
            calls = [x for x in r["output"] if x["type"] == "function_call"]
            want = c["choices"][0]["message"].get("tool_calls", [])
            assert [(x["name"], x["arguments"]) for x in calls] == \
                [(x["function"]["name"], x["function"]["arguments"]) for x in want], (r, c)
            if r["status"] == "completed":
                assert plain(self.streamed(**ask)) == plain(r)
            n += len(calls)
        assert n > 3, n
        call = {"type": "function_call", "call_id": "call_1", "name": "get_weather", "arguments": '{"city": "Oslo", "days": 1}'}
        back = [*ASK, {"role": "assistant", "content": "See:"}, call,
                {"type": "function_call_output", "call_id": "call_1", "output": "rain"}, {"role": "user", "content": "And now?"}]
        chat = [*ASK, {"role": "assistant", "content": "See:", "tool_calls": [{"id": "call_1", "type": "function", "function": {
            "name": "get_weather", "arguments": call["arguments"]}}]},
            {"role": "tool", "tool_call_id": "call_1", "content": "rain"}, {"role": "user", "content": "And now?"}]
        r = self.good(seed=3, input=back, tools=TOOLS, tool_choice="none", enable_thinking=False)
        c = self.chat(seed=3, messages=chat, tools=CHAT_TOOLS, tool_choice="none", enable_thinking=False)
        assert said(r) == c["choices"][0]["message"]["content"], (r, c)

    def case_tool_choice(self):
        """Catches: a choice that is not kept to."""
        ask = {"max_output_tokens": 900, "enable_thinking": False, "tools": TOOLS, "parallel_tool_calls": False}
        one = {"type": "function", "name": "get_weather"}
        for choice in (one, {"type": "allowed_tools", "mode": "required", "tools": [one]}):
            for seed in range(3):
                r = self.good(seed=seed, tool_choice=choice, **ask)
                assert {x["name"] for x in r["output"] if x["type"] == "function_call"} <= {"get_weather"}, r
                assert r["status"] == "incomplete" or len(r["output"]) == 1, r
        r = self.good(seed=1, tool_choice="none", **ask)
        assert [x["type"] for x in r["output"]] == ["message"], r

    def case_form(self):
        """Catches: a form that the text is not held to."""
        form = {"type": "json_schema", "name": "x", "strict": True, "schema": {"enum": ["good", "bad"]}}
        r = self.good(text={"format": form, "verbosity": "medium"}, enable_thinking=False)
        assert json.loads(said(r)) in ("good", "bad") and r["text"]["format"] == form, r
        r = self.good(text={"format": {"type": "json_object"}}, enable_thinking=False, max_output_tokens=900)
        assert r["status"] == "incomplete" or isinstance(json.loads(said(r)), dict), r

    def case_logprobs(self):
        """Catches: log-probabilities of other tokens than the message's, of thoughts, none or others in a stream."""
        n_thoughts = 0
        for seed in range(6):
            ask = {"seed": seed, **({"chat_template_kwargs": {"opens": True}} if seed % 2 else {})}
            c = self.chat(**ask, logprobs=True, top_logprobs=2, max_tokens=900)
            want = c["choices"][0]["logprobs"]["content"][c["usage"]["completion_tokens_details"]["reasoning_tokens"]:]
            for how in (self.good, self.streamed):
                r = how(**ask, include=[LOGPROBS], top_logprobs=2, max_output_tokens=900)
                got = [x["content"][0]["logprobs"] for x in r["output"] if x["type"] == "message"]
                assert got == [want] or (got == [] and not said(r)), (got, want)
                assert r["top_logprobs"] == 2, r
                n_thoughts += len(r["output"]) == 2
            r = self.good(**ask)
            assert all(p.get("logprobs", []) == [] for x in r["output"] for p in x["content"]), r
        assert n_thoughts > 1, n_thoughts

    # ---- what is wrong

    def case_refusals(self):
        """Catches: what is half understood."""
        def item(x, what, at="input[0]"):
            self.refused(what, at, input=[x])
        self.refused("required", "input", input=None)
        self.refused("1 to", "input", input=[])
        self.refused("string or an array", "input", input=7)
        item("x", "object")
        item({"role": "tool", "content": "x"}, "'role'")
        item({"role": "user"}, "missing", "input[0].content")
        item({"role": "user", "content": [{"type": "input_image", "image_url": "http://x/y"}]}, "input_image", "input[0].content[0]")
        item({"role": "user", "content": [{"type": "input_file"}]}, "input_file", "input[0].content[0]")
        item({"role": "user", "content": [{"type": "input_text"}]}, "'text'", "input[0].content[0]")
        item({"role": "user", "content": ["x"]}, "'type'", "input[0].content[0]")
        item({"type": "web_search_call"}, "web_search_call")
        item({"type": "item_reference", "id": "msg_1"}, "previous_response_id")
        item({"type": "function_call", "name": "x", "arguments": "{}"}, "call_id")
        item({"type": "function_call", "call_id": "x", "arguments": "{}"}, "name")
        item({"type": "function_call", "call_id": "x", "name": "y", "arguments": {}}, "arguments")
        item({"type": "function_call_output", "call_id": "x"}, "missing", "input[0].output")
        item({"type": "reasoning", "content": [{"type": "text"}]}, "reasoning_text")
        item({"type": "reasoning", "content": "hmhm"}, "array")
        item({"type": 7}, "'type'")
        self.refused("string", "instructions", instructions=["x"])
        self.refused("function", "tools[0].type", tools=[{"type": "web_search"}])
        self.refused("64", "tools[0].name", tools=[{"type": "function", "name": "a b"}])
        self.refused("object", "tools[0].parameters", tools=[{"type": "function", "name": "a", "parameters": {"type": "string"}}])
        self.refused("object", "tools[0]", tools=["x"])
        self.refused("none of", "tool_choice", tools=TOOLS, tool_choice={"type": "function", "name": "x"})
        self.refused("must name", "tool_choice", tools=TOOLS, tool_choice={"type": "web_search"})
        self.refused("none, auto", "tool_choice", tools=TOOLS, tool_choice="any")
        self.refused("holds none", "tool_choice", tool_choice="required")
        self.refused("mode", "tool_choice", tools=TOOLS, tool_choice={"type": "allowed_tools"})
        self.refused("list", "tool_choice", tools=TOOLS, tool_choice={"type": "allowed_tools", "mode": "auto", "tools": [{}]})
        self.refused("type", "text", text={"format": {"type": "xml"}})
        self.refused("verbosity", "text", text={"verbosity": "low"})
        self.refused("encrypted", "include", include=["web_search_call.results"])
        self.refused("background", "background", background=True)
        self.refused("conversation", "conversation", conversation="conv_1")
        self.refused("disabled", "truncation", truncation="auto")
        self.refused("include", "top_logprobs", top_logprobs=3)
        self.refused("20", "top_logprobs", top_logprobs=21, include=[LOGPROBS])
        self.refused("tools", "include", include=[LOGPROBS], tools=TOOLS)
        self.refused("512", "metadata", metadata={"a": "x" * 513})
        for stream in (False, True):
            self.refused("repeats at most", "user", user="u" * (25 << 20), stream=stream)
        self.refused("context length", "messages", max_output_tokens=10**6)
        self.refused("", "model", status=404, model="nobody")

    def case_ignored(self):
        """Catches: a field that is dropped in silence."""
        r = self.ask(foo=1, include=["reasoning.encrypted_content"], reasoning={"effort": "none", "summary": "auto"}, user="x")
        assert r.status == 200, r
        assert set(r.headers["x-tandem-ignored"].split(", ")) == \
            {"foo", "include.reasoning.encrypted_content", "reasoning.summary", "user"}, r.headers

    # ---- where parts meet

    def case_leaves(self):
        """Catches: a client that goes inside a stream and leaves its text running."""
        body = json.dumps({"input": "a", "max_output_tokens": 3500, "ignore_eos": True, "stream": True}).encode()
        for _ in range(3):
            with socket.create_connection(("127.0.0.1", self.server.port)) as c:
                c.sendall(b"POST /v1/responses HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                          b"Authorization: Bearer ann-key-ann-key\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
                got = b""
                while b".delta" not in got:
                    got += c.recv(4096)
        self.server.wait_idle(**ROOT_KEY)

    def case_limit_and_metrics(self):
        """Catches: an answer beyond its key's tokens, one that no figure knows of."""
        few = {"Authorization": "Bearer few-key-few-key"}
        said_status = [self.ask(key=few, max_output_tokens=200, ignore_eos=True).status for _ in range(3)]
        assert said_status[0] == 200 and said_status[-1] == 429, said_status
        was = self.server.wait_idle(**ROOT_KEY)
        r = self.good(seed=1)
        now = self.server.wait_idle(**ROOT_KEY)
        assert now["vllm:generation_tokens_total"] - was["vllm:generation_tokens_total"] == r["usage"]["output_tokens"]


def times_out(server):
    """Catches: a stream whose time is over and that ends as another route's."""
    r = server.post("/v1/responses", {"input": "a", "max_output_tokens": 60000, "ignore_eos": True, "stream": True})
    last = events_of(r.body)[-1]
    assert last["type"] == "response.failed" and last["response"]["status"] == "failed", r.body[-300:]
    assert last["response"]["error"]["code"] == "server_error" and "timeout" in last["response"]["error"]["message"], last


def keeps_none(server):
    """Catches: an answer that says it is kept where none is."""
    r = server.post("/v1/responses", {"input": "a", "max_output_tokens": 2})
    assert r.status == 200 and r.json["store"] is False, r
    for more in ({"store": True}, {"previous_response_id": "resp_x"}):
        r = server.post("/v1/responses", {"input": "a", **more})
        assert r.status == 400 and r.error["param"] == next(iter(more)) and "keeps no" in r.error["message"], r
    assert server.get("/v1/responses/resp_x").error["code"] == "no_data_dir"


class Kept(Responses):
    """On a server with a data directory."""

    def fits(self, value, schema):
        """Against the server's own description."""
        Description(self.server.get("/openapi.json", **ANN).json).check(value, {"$ref": f"#/components/schemas/{schema}"})

    def get(self, r, key=ANN, more=""):
        return self.server.get(f"/v1/responses/{r['id']}{more}", **key)

    def goes_on(self, r, **more):
        return self.good(previous_response_id=r["id"], **more)

    def case_shown_again(self):
        """Catches: a response that is not what was told, whole or in a stream."""
        for r in (self.good(seed=1), self.streamed(seed=1), self.good(seed=1, tools=TOOLS, instructions="Be brief.")):
            assert r["store"] is True and self.get(r).json == r, (r, self.get(r))
        r = self.good(seed=1, store=False)
        assert r["store"] is False and self.get(r).status == 404, r

    def case_goes_on(self):
        """Catches: a conversation that is not the one that stands before, whole or in streams."""
        off = {"enable_thinking": False}
        one = self.good(seed=1, input="A", instructions="Be brief.", **off)
        two = self.streamed(seed=2, input=[{"role": "user", "content": "B"}], previous_response_id=one["id"], **off)
        three = self.goes_on(two, seed=3, input="C", **off)
        chat = [{"role": "user", "content": "A"}, {"role": "assistant", "content": said(one)}, {"role": "user", "content": "B"},
                {"role": "assistant", "content": said(two)}, {"role": "user", "content": "C"}]
        c = self.chat(seed=3, messages=chat, **off)
        assert said(three) == c["choices"][0]["message"]["content"], (three, c)
        assert three["usage"]["input_tokens"] == c["usage"]["prompt_tokens"], (three, c)
        assert three["previous_response_id"] == two["id"], three
        again = self.goes_on(two, seed=3, input="C", store=False, **off)
        assert plain(again) == plain(three)

    def case_long_past(self):
        """Catches: a past of any size that a short request has read."""
        fat = {"input": [{**ASK[0], "other": "y" * (12 << 20)}], "max_output_tokens": 1, "enable_thinking": False}
        r = self.good(**fat)
        for _ in range(2):
            r = self.good(**fat, previous_response_id=r["id"])
        said_to = self.ask(previous_response_id=r["id"])
        assert said_to.status == 400 and "bytes" in said_to.error["message"], said_to
        assert said_to.error["param"] == "previous_response_id", said_to

    def case_call_and_result(self):
        """Catches: a call that its result does not find."""
        off = {"enable_thinking": False, "tools": TOOLS}
        for seed in range(20):
            r = self.good(seed=seed, tool_choice={"type": "function", "name": "get_weather"}, parallel_tool_calls=False,
                          max_output_tokens=900, **off)
            if r["status"] == "completed":
                break
        call, = r["output"]
        result = {"type": "function_call_output", "call_id": call["call_id"], "output": "rain"}
        two = self.goes_on(r, seed=1, input=[result], tool_choice="none", **off)
        chat = [*ASK, {"role": "assistant", "content": None, "tool_calls": [{"id": call["call_id"], "type": "function", "function": {
            "name": call["name"], "arguments": call["arguments"]}}]},
            {"role": "tool", "tool_call_id": call["call_id"], "content": "rain"}]
        c = self.chat(seed=1, messages=chat, tools=CHAT_TOOLS, tool_choice="none", enable_thinking=False)
        assert said(two) == c["choices"][0]["message"]["content"], (two, c)

    def case_other_keys(self):
        """Catches: a response that another key reads, lists, goes on from or deletes."""
        r = self.good(seed=1)
        none = {**r, "id": "resp_none"}
        for key in (BOB, ROOT_KEY):
            for more in ("", "/input_items"):
                mine, nobodys = self.get(r, key, more), self.get(none, key, more)
                assert mine.status == nobodys.status == 404 and mine.error["code"] == nobodys.error["code"], mine
            assert self.server.ask("DELETE", f"/v1/responses/{r['id']}", **key).status == 404
            assert self.server.ask("POST", f"/v1/responses/{r['id']}/cancel", b"", **key).status == 404
            said_to = self.ask(key=key, previous_response_id=r["id"])
            assert said_to.status == 400 and said_to.error["code"] == "previous_response_not_found", said_to
        assert self.get(r).json == r

    def case_deleted(self):
        """Catches: what is deleted and still there."""
        one = self.good(seed=1)
        two = self.goes_on(one, input="B")
        gone = self.server.ask("DELETE", f"/v1/responses/{one['id']}", **ANN)
        assert gone.json == {"id": one["id"], "object": "response.deleted", "deleted": True}, gone
        self.fits(gone.json, "ResponseDeleted")
        self.fits(self.get(two).json, "Response")
        assert self.get(one).status == 404 == self.server.ask("DELETE", f"/v1/responses/{one['id']}", **ANN).status
        assert self.get(two).status == 200
        r = self.ask(previous_response_id=two["id"])
        assert r.status == 400 and one["id"] in r.error["message"] and r.error["param"] == "previous_response_id", r

    def case_cancel(self):
        """Catches: a whole response that is said to be cancelled."""
        r = self.good(seed=1)
        said_to = self.server.ask("POST", f"/v1/responses/{r['id']}/cancel", b"", **ANN)
        assert said_to.status == 400 and "synchronous" in said_to.error["message"], said_to
        said_to = self.server.get(f"/v1/responses/{r['id']}?stream=true", **ANN)
        assert said_to.status == 400 and said_to.error["param"] == "stream", said_to

    def case_input_items(self):
        """Catches: items that are lost between pages, or have no id."""
        r = self.good(input="Hello")
        one, = self.get(r, more="/input_items").json["data"]
        assert one["type"] == "message" and one["role"] == "user" and one["content"] == [
            {"type": "input_text", "text": "Hello"}] and one["id"].startswith("msg_"), one
        items = [*ASK, {"role": "assistant", "content": "x"}, {"type": "function_call", "id": "fc_7", "call_id": "c", "name": "now",
                                                              "arguments": "{}"},
                 {"type": "function_call_output", "call_id": "c", "output": "y"}]
        r = self.good(input=items)
        whole = self.get(r, more="/input_items?order=asc").json
        self.fits(whole, "ResponseItemList")
        assert [x["type"] for x in whole["data"]] == ["message", "message", "function_call", "function_call_output"], whole
        assert len({x["id"] for x in whole["data"]}) == 4 and whole["data"][2]["id"] == "fc_7", whole
        assert (whole["first_id"], whole["last_id"], whole["has_more"]) == (whole["data"][0]["id"], whole["data"][3]["id"], False)
        found, after = [], ""
        while True:
            page = self.get(r, more=f"/input_items?limit=1{after}").json
            found += page["data"]
            if not page["has_more"]:
                break
            after = f"&after={page['last_id']}"
        assert found == whole["data"][::-1], found
        for bad in ("limit=0", "limit=101", "order=up", "after=msg_none"):
            assert self.get(r, more=f"/input_items?{bad}").status == 400, bad

    def case_leaves_unkept(self):
        """Catches: half a response that is kept."""
        body = json.dumps({"input": "a", "max_output_tokens": 3500, "ignore_eos": True, "stream": True}).encode()
        with socket.create_connection(("127.0.0.1", self.server.port)) as c:
            c.sendall(b"POST /v1/responses HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                      b"Authorization: Bearer ann-key-ann-key\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
            got = b""
            while b".delta" not in got:
                got += c.recv(4096)
        self.server.wait_idle(**ROOT_KEY)
        id_of = json.loads(got.split(b"data: ")[1].split(b"\n")[0])["response"]["id"]
        assert self.get({"id": id_of}).status == 404


def rows(data, sql, *values):
    with contextlib.closing(sqlite3.connect(data / "store.db")) as db, db:
        return db.execute(sql, values).fetchall()


def kept(cases, model, keys, data):
    """Responses over restarts: of their key, for their time, within their bytes."""
    options = (model, "--ctx", 4096, "--api-key-file", keys, "--data-dir", data)
    with Tandem(*options) as server:
        at = Kept(server)
        cases.run_all(at, "kept, ")
        one = at.good(seed=1, input="A", enable_thinking=False)
        two = at.goes_on(one, seed=2, input="B", enable_thinking=False)
        third = plain(at.goes_on(two, seed=3, input="C", enable_thinking=False))

    def restarted():
        assert at.get(two).json == two
        assert plain(at.goes_on(two, seed=3, input="C", enable_thinking=False)) == third
        assert at.get(two, BOB).status == 404
    with Tandem(*options) as server:
        at = Kept(server)
        cases.run("restarted", restarted)
    rows(data, "UPDATE response SET expires = 1 WHERE id = ?", one["id"])

    def expired():
        assert at.get(one).status == 404 and at.get(two).status == 200
        r = at.ask(previous_response_id=two["id"])
        assert r.status == 400 and r.error["code"] == "previous_response_not_found", r
    with Tandem(*options) as server:
        at = Kept(server)
        cases.run("expired", expired)
    n = rows(data, "SELECT owner, sum(bytes) FROM response GROUP BY owner ORDER BY owner")
    cases.check("sums", n == rows(data, "SELECT owner, bytes FROM response_sum WHERE bytes > 0 ORDER BY owner"), n)

    def bounded():
        ids = [at.good(seed=i, input="x" * 2000)["id"] for i in range(8)]
        there = [at.get({"id": i}).status for i in ids]
        assert there == sorted(there, reverse=True) and there[0] == 404 and there[-1] == 200, there
        big = {f"k{i}": "y" * 512 for i in range(16)}
        r = at.ask(input="x" * 2000, metadata=big)
        assert r.status == 400 and "store: false" in r.error["message"] and r.error["code"] is None, r
        assert at.ask(metadata=big, store=False).status == 200
        bobs = at.ask(key=BOB)
        assert at.get(bobs.json, BOB).status == 200
    with Tandem(*options, "--responses-quota", 9000) as server:
        at = Kept(server)
        cases.run("bounded", bounded)
    (most,), = rows(data, "SELECT max(bytes) FROM response_sum WHERE owner = 'ann'")
    cases.check("within the quota", most <= 9000, most)

    def off():
        r = at.ask(store=True)
        assert r.status == 400 and r.error["param"] == "store", r
    with Tandem(*options, "--responses-quota", 0) as server:
        at = Kept(server)
        cases.run("turned off", off)


def model_of(tmp):
    model = make_model(tmp / "m")
    template_of(model, TEMPLATE)
    rename_special(model, ("<|system|>", "<think>"), ("<|user|>", "</think>"))
    return model


def main():
    cases = Cases()
    with scratch() as tmp:
        model, keys = model_of(tmp), tmp / "keys"
        keys.write_text(KEYS)
        keys.chmod(0o600)
        with Tandem(model, "--ctx", 4096, "--api-key-file", keys) as server:
            at = Responses(server)
            cases.run_all(at)
        with Tandem(model, "--ctx", 65536, "--request-timeout", 1) as server:
            cases.run("times out", lambda: times_out(server))
            cases.run("keeps none", lambda: keeps_none(server))
        kept(cases, model, keys, tmp / "data")
    return cases.end()


if __name__ == "__main__":
    sys.exit(main())
