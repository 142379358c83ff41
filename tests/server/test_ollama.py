#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Ollama's API (ollama_chat, ollama_generate, ollama_embed, ollama_vector, ollama_show, ollama_tags, ollama_ps,
ollama_version) against a running server: the same texts, calls, thoughts and vectors as OpenAI's routes have
for the same conversation; streams of lines of JSON; errors in their own form. Random weights; standard
library only."""
import json
import pathlib
import shutil
import socket
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "lib"))
sys.path.insert(0, str(ROOT / "tests" / "server"))
from serving import Cases, Tandem, make_model, rename_special, scratch, template_of  # noqa: E402
from test_tuning import Client  # noqa: E402

GOLDEN = ROOT / "tests" / "golden"
TEMPLATE = ("{% for t in tools or [] %}{{ t | tojson }}{% endfor %}{% for m in messages %}"
            "{{ m.role + ':' + (m.content or '') }}{% if m.reasoning_content %}{{ '(' + m.reasoning_content + ')' }}"
            "{% endif %}{% for c in m.tool_calls or [] %}{{ '<tool_call>\\n' + c.function | tojson + '\\n</tool_call>' }}"
            "{{ c.id }}{% endfor %}{{ m.tool_call_id or '' }}{{ '<|end|>' }}{% endfor %}{% if add_generation_prompt %}"
            "{{ '<|assistant|>' }}{% if enable_thinking is defined and not enable_thinking %}"
            "{{ '<think>\n\n</think>\n\n' }}{% elif enable_thinking %}{{ '<think>\n' }}{% endif %}{% endif %}")
WEATHER = {"type": "object", "properties": {"city": {"enum": ["Oslo", "Rome"]}, "days": {"type": "integer"}},
           "required": ["city", "days"], "additionalProperties": False}
TOOLS = [{"type": "function", "function": {"name": "get_weather", "description": "It does.", "parameters": WEATHER,
                                           "strict": True}}]
ASK = [{"role": "user", "content": "What is it like?"}]
WARM = {"temperature": 1.2, "num_predict": 60}
SAME = {"temperature": 1.2, "max_tokens": 60}
KEYS = "ann inference ann-key-ann-key\nroot all root-key-root-key\n"
ANN = {"Authorization": "Bearer ann-key-ann-key"}
ROOT_KEY = {"Authorization": "Bearer root-key-root-key"}
TOOK = {"total_duration", "load_duration", "prompt_eval_count", "prompt_eval_duration", "eval_count", "eval_duration"}


def plain(answer):
    """What of it does not depend on time or chance."""
    answer = {k: v for k, v in answer.items() if not k.endswith("_duration") and k != "created_at"}
    for call in answer.get("message", {}).get("tool_calls", []):
        call.pop("id")
    return answer


class Ollama:
    def __init__(self, server):
        self.server = server

    def ask(self, path="/api/chat", options=None, **more):
        body = {"model": "m", "options": {**WARM, **(options or {})}, **more}
        if path == "/api/chat":
            body = {"messages": ASK, **body}
        return self.server.post(path, body, **ANN)

    def good(self, path="/api/chat", **more):
        r = self.ask(path, stream=False, **more)
        assert r.status == 200 and r.headers["Content-Type"] == "application/json", r
        a = r.json
        assert a["done"] is True and a["model"] == "m" and TOOK <= set(a) and a["created_at"].endswith("Z"), a
        assert a["total_duration"] == a["load_duration"] + a["prompt_eval_duration"] + a["eval_duration"], a
        return a

    def streamed(self, path="/api/chat", **more):
        """The whole answer that the lines come to."""
        r = self.ask(path, **more)
        assert r.status == 200 and r.headers["Content-Type"] == "application/x-ndjson", r
        assert r.body.endswith(b"\n"), r
        lines = [json.loads(x) for x in r.body.decode().split("\n")[:-1]]
        last, said = lines.pop(), {}
        assert last["done"] is True and not any(x["done"] for x in lines) and TOOK <= set(last), lines
        for line in lines:
            assert not set(line) & TOOK, line
            words = line["message"] if path == "/api/chat" else line
            for key in ("content", "response", "thinking"):
                if key in words:
                    said[key] = said.get(key, "") + words[key]
            if "tool_calls" in words:
                said.setdefault("tool_calls", []).extend(words["tool_calls"])
        if path == "/api/chat":
            assert last["message"] == {"role": "assistant", "content": ""}, last
            last["message"].update(said)
        else:
            assert last["response"] == "", last
            last.update(said)
        return last

    def chat(self, **more):
        r = self.server.post("/v1/chat/completions", {"messages": ASK, **SAME, **more}, **ROOT_KEY)
        assert r.status == 200, r
        return r.json["choices"][0], r.json["usage"]

    def refused(self, what, status=400, path="/api/chat", **more):
        r = self.ask(path, **more)
        assert r.status == status and set(r.json) == {"error"} and what in r.json["error"], (r, what)

    # ---- one way

    def case_same_as_a_chat(self):
        """Catches: another text for the same conversation and seed; a stream that says otherwise."""
        talk = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "A"},
                {"role": "assistant", "content": "B"}, {"role": "user", "content": "C"}]
        for seed in range(8):
            a = self.good(messages=talk, options={"seed": seed, "num_predict": 400})
            c, usage = self.chat(messages=talk, seed=seed, max_tokens=400)
            assert a["message"]["content"] == (c["message"]["content"] or ""), (a, c)
            assert a["message"].get("thinking", "") == c["message"].get("reasoning_content", ""), (a, c)
            assert a["done_reason"] == c["finish_reason"], (a, c)
            assert (a["prompt_eval_count"], a["eval_count"]) == (usage["prompt_tokens"], usage["completion_tokens"])
            assert plain(self.streamed(messages=talk, options={"seed": seed, "num_predict": 400})) == plain(a)

    def case_prompt_is_a_message(self):
        """Catches: a prompt that is rendered otherwise than a message of the user; a system that is lost."""
        for more in ({}, {"system": "Be brief."}):
            a = self.good("/api/generate", prompt="What is it like?", options={"seed": 4}, **more)
            head = [{"role": "system", "content": more["system"]}] if more else []
            c, _ = self.chat(messages=[*head, *ASK], seed=4)
            assert a["response"] == (c["message"]["content"] or "") and "message" not in a, (a, c)
            assert plain(self.streamed("/api/generate", prompt="What is it like?", options={"seed": 4}, **more)) == plain(a)

    def case_raw(self):
        """Catches: a prompt that is rendered though it is to be taken as it is."""
        a = self.good("/api/generate", prompt="Once <|end|> upon", raw=True, options={"seed": 4})
        r = self.server.post("/v1/completions", {"prompt": "Once <|end|> upon", "seed": 4, **SAME}, **ROOT_KEY).json
        assert a["response"] == r["choices"][0]["text"], (a, r)
        assert a["prompt_eval_count"] == r["usage"]["prompt_tokens"], (a, r)
        self.refused("'system'", path="/api/generate", prompt="x", raw=True, system="y")
        self.refused("'think'", path="/api/generate", prompt="x", raw=True, think=True)

    def case_options(self):
        """Catches: an option that does not reach the sampler, or reaches another."""
        pairs = (({"top_k": 3}, {"top_k": 3}), ({"top_p": 0.5}, {"top_p": 0.5}), ({"min_p": 0.2}, {"min_p": 0.2}),
                 ({"typical_p": 0.5}, {"typical_p": 0.5}), ({"repeat_penalty": 1.8}, {"repetition_penalty": 1.8}),
                 ({"repeat_penalty": 1.8, "repeat_last_n": 0}, {}), ({"presence_penalty": 2}, {"presence_penalty": 2}),
                 ({"frequency_penalty": 2}, {"frequency_penalty": 2}), ({"temperature": 0}, {"temperature": 0}),
                 ({"num_predict": 5}, {"max_tokens": 5}))
        for mine, other in pairs:
            a = self.good(options={"seed": 3, **mine}, think=False)
            c, _ = self.chat(seed=3, enable_thinking=False, **other)
            assert a["message"]["content"] == (c["message"]["content"] or ""), (mine, a, c)
        text = self.good(options={"seed": 3}, think=False)["message"]["content"]
        for stop in (text[5:8], [text[5:8]]):
            a = self.good(options={"seed": 3, "stop": stop}, think=False)
            assert a["message"]["content"] == text[:text.index(text[5:8])] and a["done_reason"] == "stop", (a, text)
        a, b = (self.good(options={"seed": -1})["message"] for _ in range(2))
        assert a != b, "-1 is no seed"

    def case_forms(self):
        """Catches: a form that the text is not held to."""
        a = self.good(format="json", think=False, options={"num_predict": 800})
        if a["done_reason"] == "stop":
            assert isinstance(json.loads(a["message"]["content"]), dict), a
        a = self.good("/api/generate", prompt="x", format={"enum": ["good", "bad"]}, think=False)
        assert json.loads(a["response"]) in ("good", "bad"), a
        self.good(format="", options={"num_predict": 1})

    def case_thinking(self):
        """Catches: thoughts where none were wanted."""
        a = self.good(think=False, options={"seed": 1})
        c, _ = self.chat(seed=1, enable_thinking=False)
        assert a["message"]["content"] == c["message"]["content"] and "thinking" not in a["message"], (a, c)
        n = 0
        for seed in range(6):
            ask = {"options": {"seed": seed, "num_predict": 900}}
            a = self.good(think=True, **ask)
            said = self.chat(seed=seed, max_tokens=900, enable_thinking=True)[0]["message"]
            assert a["message"].get("thinking", "") == said.get("reasoning_content", ""), (a, said)
            assert a["message"]["content"] == (said["content"] or ""), (a, said)
            assert plain(self.streamed(think="low", **ask)) == plain(a)
            n += "thinking" in a["message"]
        assert n, "no thoughts"

    # ---- tools

    def case_tools(self):
        """Catches: a call that is not its chat's, arguments that are a string or come in pieces."""
        n = most = 0
        for seed in range(40):
            if seed >= 6 and most > 1:  # texts are the CPU's: which of them has two calls is not known
                break
            ask = {"tools": TOOLS, "think": False}
            a = self.good(options={"seed": seed, "num_predict": 1200}, **ask)
            c, _ = self.chat(seed=seed, max_tokens=1200, tools=TOOLS, enable_thinking=False)
            calls = a["message"].get("tool_calls", [])
            want = c["message"].get("tool_calls", [])
            assert [(x["function"]["name"], x["function"]["arguments"]) for x in calls] == \
                [(x["function"]["name"], json.loads(x["function"]["arguments"])) for x in want], (a, c)
            assert [x["function"]["index"] for x in calls] == list(range(len(calls))), calls
            assert plain(self.streamed(options={"seed": seed, "num_predict": 1200}, **ask)) == plain(a)
            n += len(calls)
            most = max(most, len(calls))
        assert n, "no calls"

    def case_results(self):
        """Catches: a call and its result that come to another prompt than a chat's."""
        def call(city, **more):
            return {"function": {"name": "get_weather", "arguments": {"city": city, "days": 1}}, **more}

        def other(city, name):
            return {"id": name, "type": "function", "function": {
                "name": "get_weather", "arguments": json.dumps({"city": city, "days": 1})}}
        behind = [{"role": "tool", "content": "rain", "tool_name": "get_weather"}, {"role": "tool", "content": "sun"}, *ASK]
        a = self.good(messages=[*ASK, {"role": "assistant", "content": "", "thinking": "Hm.", "tool_calls": [
            call("Oslo"), call("Rome", id="mine")]}, *behind], think=False, options={"seed": 2})
        c, _ = self.chat(messages=[*ASK, {"role": "assistant", "content": None, "reasoning_content": "Hm.", "tool_calls": [
            other("Oslo", "call00000"), other("Rome", "mine")]},
            {"role": "tool", "content": "rain", "tool_call_id": "call00000"},
            {"role": "tool", "content": "sun", "tool_call_id": "mine"}, *ASK], enable_thinking=False, seed=2)
        assert a["message"]["content"] == c["message"]["content"], (a, c)
        # TEMPLATE shows ids: those of a result without a call and of the call behind it are two
        n = [self.good(messages=[{"role": "tool", "content": "rain", **more}, {"role": "assistant", "tool_calls": [
            call("Oslo", id="call00001")]}, *ASK], think=False, options={"seed": 2})["message"]["content"]
            for more in ({}, {"tool_call_id": "call00000"}, {"tool_call_id": "call00001"})]
        assert n[0] == n[1] != n[2], n

    # ---- models

    def case_models(self):
        """Catches: a list that its own names are not taken from."""
        at = self.server
        for path in ("/api/tags", "/api/ps"):
            r = at.get(path, **ANN)
            assert r.status == 200, r
            m, = r.json["models"]
            assert m["name"] == m["model"] == "m:latest" and len(m["digest"]) == 64 and m["size"] > 0, m
            assert m["details"]["quantization_level"] in ("BF16", "F32"), m
            assert self.good(options={"num_predict": 1}, messages=ASK)["model"] == "m"
            for name in ("m", m["name"]):
                r = at.post("/api/show", {"model": name}, **ANN)
                assert r.status == 200 and set(r.json["capabilities"]) == {"completion", "tools", "thinking"}, r
                assert r.json["template"] == TEMPLATE and r.json["model_info"]["general.parameter_count"] > 0, r
                r = at.post("/api/chat", {"model": name, "messages": ASK, "stream": False, "options": {"num_predict": 1}}, **ANN)
                assert r.status == 200, r
        assert at.post("/api/show", {"name": "m", "verbose": True}, **ANN).status == 200
        assert set(at.get("/api/version", **ANN).json) == {"version", "tandem"}

    def case_nothing_asked(self):
        """Catches: a request that only loads a model, refused or sent to the engine."""
        for body in ({"messages": []}, {}):
            r = self.server.post("/api/chat", {"model": "m", "keep_alive": 0, **body}, **ANN)
            assert r.status == 200 and r.json["done_reason"] == "load" and r.json["message"]["content"] == "", r
            assert r.headers["x-tandem-ignored"] == "keep_alive", r.headers
        for body in ({"prompt": ""}, {}):
            r = self.server.post("/api/generate", {"model": "m", **body}, **ANN)
            assert r.status == 200 and r.json["done_reason"] == "load" and r.json["response"] == "", r

    # ---- what is wrong

    def case_refusals(self):
        """Catches: what is half understood."""
        def turn(**more):
            return {"messages": [*ASK, more]}
        self.refused("'messages' must be an array", messages={})
        self.refused("'messages[1]' must be an object", messages=[*ASK, 7])
        self.refused("'messages[1].role'", **turn(role="developer", content="x"))
        self.refused("content", **turn(role="user", content=7))
        self.refused("thinking", **turn(role="assistant", content="x", thinking=[]))
        self.refused("'messages[1].images' cannot be shown", **turn(role="user", content="x", images=["aaaa"]))
        self.refused("images", **turn(role="user", content="x", images="aaaa"))
        self.refused("tool_calls", **turn(role="assistant", tool_calls={}))
        self.refused("tool_calls[0]", **turn(role="assistant", tool_calls=[1]))
        self.refused("arguments", **turn(role="assistant", tool_calls=[{"function": {"name": "x", "arguments": "{}"}}]))
        self.refused("'name'", **turn(role="assistant", tool_calls=[{"function": {"arguments": {}}}]))
        self.refused("'id'", **turn(role="assistant", tool_calls=[{"id": 1, "function": {"name": "x", "arguments": {}}}]))
        self.refused("tool_name", **turn(role="tool", content="x", tool_name=""))
        self.refused("tool_call_id", **turn(role="tool", content="x", tool_call_id=7))
        self.refused("'images'", path="/api/generate", prompt="x", images=["aaaa"])
        self.refused("'prompt' must be a string", path="/api/generate", prompt=["x"])
        self.refused("'context'", path="/api/generate", prompt="x", context=[1, 2])
        self.refused("'template'", path="/api/generate", prompt="x", template="{{ .Prompt }}")
        self.refused("'suffix' cannot be had", path="/api/generate", prompt="x", suffix="y")
        self.refused("'format'", format="yaml")
        self.refused("'format'", format=7)
        self.refused("'think'", think=7)
        self.refused("'think'", think="much")
        self.refused("'keep_alive'", keep_alive=[])
        self.refused("'stream'", stream="yes")
        self.refused("'temperature'", options={"temperature": -1})
        self.refused("'temperature'", options={"temperature": "x"})
        self.refused("'num_predict'", options={"num_predict": 0})
        self.refused("'num_predict'", options={"num_predict": -3})
        self.refused("'num_ctx' is more than", options={"num_ctx": 1 << 20})
        self.refused("'num_ctx'", options={"num_ctx": 1 << 40})
        self.refused("'seed'", options={"seed": 1.5})
        self.refused("'mirostat'", options={"mirostat": 1})
        self.refused("'penalize_newline'", options={"penalize_newline": False})
        self.refused("'stop'", options={"stop": [""]})
        self.refused("tools[0]", tools=["x"])
        self.refused("tools[0].function.name", tools=[{"type": "function", "function": {"name": "a b"}}])
        self.refused("context length", options={"num_predict": 10**6})
        self.refused("maximum context", messages=[{"role": "user", "content": "a b " * 20000}])
        self.refused("No model", status=404, model="nobody")
        self.refused("No model", status=404, model=":latest")
        self.refused("embeddings", path="/api/embed", input="x")
        self.refused("'input' is required", path="/api/embed")
        r = self.server.post("/api/chat", {"options": 7, "messages": ASK}, **ANN)
        assert r.status == 400 and "'options' must be an object" in r.json["error"], r
        r = self.server.post("/api/show", {}, **ANN)
        assert r.status == 400 and "'model' is required" in r.json["error"], r

    def case_form_of_errors(self):
        """Catches: an error in another shape, wherever on the way it is told; a path of Ollama's that is not
        here and does not say what is."""
        def form(r, status, what=""):
            assert r.status == status and set(r.json) == {"error"} and what in r.json["error"], r
        s = self.server
        form(s.post("/api/chat", {"messages": ASK}), 401)
        form(s.get("/api/chat", **ANN), 405)
        form(s.ask("POST", "/api/chat", b"{", **ANN), 400)
        form(s.ask("POST", "/api/chat", b"[]", **ANN), 400)
        form(s.ask("POST", "/api/chat", b"x" * 65, **{**ANN, "Content-Length": str(33 << 20)}), 413)
        form(s.post("/api/pull", {"model": "x"}, **ANN), 404, "tandem pull")
        for path in ("/api/push", "/api/create", "/api/copy", "/api/blobs/sha256:00"):
            form(s.post(path, {"model": "x"}, **ANN), 404, "not supported")
        form(s.ask("DELETE", "/api/delete", b"{}", **ANN), 404, "/v1/models")

    def case_any_type(self):
        """Catches: Ollama's own examples with curl, which say a form's type, refused."""
        body = json.dumps({"messages": ASK, "stream": False, "options": {"num_predict": 1}}).encode()
        r = self.server.ask("POST", "/api/chat", body, **{**ANN, "Content-Type": "application/x-www-form-urlencoded"})
        assert r.status == 200, r
        r = self.server.ask("POST", "/api/chat", body, **{**ANN, "Content-Type": "text/plain", "Origin": "http://evil.example"})
        assert r.status == 403, r

    def case_ignored(self):
        """Catches: a field that is dropped in silence."""
        r = self.ask(stream=False, foo=1, keep_alive="5m", options={"num_ctx": 64, "num_gpu": 1, "repeat_last_n": 64, "bar": 2})
        assert r.status == 200, r
        assert set(r.headers["x-tandem-ignored"].split(", ")) == \
            {"foo", "keep_alive", "num_ctx", "num_gpu", "repeat_last_n", "bar"}, r.headers

    def case_leaves(self):
        """Catches: a client that goes inside a stream and leaves its text running."""
        body = json.dumps({"messages": ASK, "options": {"num_predict": 3500}}).encode()
        for _ in range(3):
            with socket.create_connection(("127.0.0.1", self.server.port)) as c:
                c.sendall(b"POST /api/chat HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ann-key-ann-key\r\n"
                          b"Content-Length: %d\r\n\r\n" % len(body) + body)
                got = b""
                while b'"done"' not in got:
                    more = c.recv(4096)
                    assert more, got
                    got += more
        self.server.wait_idle(**ROOT_KEY)


def known_models(tmp):
    """Catches: a model that is known and not loaded shown as a base, or as loaded; a digest that loads change."""
    rows = b'{"prompt": "a b", "completion": "c d"}\n' * 12

    def listed(s, path="/api/tags"):
        return {m["name"]: (m["details"]["parent_model"], m["digest"]) for m in s.get(path).json["models"]}
    with Tandem(make_model(tmp / "two"), "--name", "tiny", "--data-dir", tmp / "data", "--max-adapters", 1) as s:
        c = Client(s, {})
        file = c.file(rows)
        tuned = [c.wait(c.job(file))["fine_tuned_model"] for _ in range(2)]
        all_there = listed(s)
        assert all_there.pop("tiny:latest")[0] == "" and len(all_there) >= 2, all_there
        assert {of for of, _ in all_there.values()} == {"tiny"}, all_there
        for name in tuned * 2:
            r = s.post("/api/generate", {"model": name, "prompt": "a", "raw": True, "stream": False,
                                         "options": {"num_predict": 1}})
            assert r.status == 200, r
            loaded = listed(s, "/api/ps")
            assert len(loaded) == 2 and any(x.startswith(name) for x in loaded), (name, loaded)
            assert all_there.items() <= listed(s).items(), (all_there, listed(s))


def times_out(server):
    """Catches: a stream whose time is over and that ends without a word."""
    r = server.post("/api/generate", {"prompt": "x" * 20000, "raw": True, "format": {"type": "string", "minLength": 60000}})
    last = json.loads(r.body.decode().rstrip("\n").split("\n")[-1])
    assert set(last) == {"error"} and "request-timeout" in last["error"], r.body[-300:]


def no_template(tmp):
    """Catches: a prompt of a model without a template refused; tools and thoughts of one that has none."""
    model = make_model(tmp / "bare")
    config = model / "tokenizer_config.json"
    config.write_text(json.dumps({k: v for k, v in json.loads(config.read_text()).items() if k != "chat_template"}))
    for file in model.glob("chat_template*"):
        file.unlink()
    with Tandem(model) as s:
        ask = {"stream": False, "options": {"seed": 1, **WARM}}
        a = s.post("/api/generate", {"prompt": "Once", **ask})
        b = s.post("/v1/completions", {"prompt": "Once", "seed": 1, **SAME})
        assert a.status == b.status == 200 and a.json["response"] == b.json["choices"][0]["text"], (a, b)
        for more, what in (({"system": "x"}, "'system'"), ({"think": True}, "thinking")):
            r = s.post("/api/generate", {"prompt": "Once", **more, **ask})
            assert r.status == 400 and what in r.json["error"], r
        r = s.post("/api/chat", {"messages": ASK, **ask})
        assert r.status == 400 and "template" in r.json["error"], r
        assert s.post("/api/show", {"model": "bare"}).json["capabilities"] == ["completion"]


def vectors(tmp):
    """Catches: a vector that is not the one of /v1/embeddings; a text that is cut where it must not be."""
    folder = tmp / "bge_m3"
    shutil.copytree(GOLDEN / "encoder" / "bge_m3", folder)
    shutil.copy(GOLDEN / "tokenizer" / "xlmr.json", folder / "tokenizer.json")
    with Tandem(folder, "--name", "tiny") as s:
        texts = ["a b c", "d e"]
        want = [v["embedding"] for v in s.post("/v1/embeddings", {"input": texts}).json["data"]]
        r = s.post("/api/embed", {"model": "tiny:latest", "input": texts})
        assert r.status == 200 and r.json["embeddings"] == want and r.json["prompt_eval_count"] > 0, r
        assert s.post("/api/embed", {"input": texts[0]}).json["embeddings"] == want[:1]
        assert s.post("/api/embeddings", {"prompt": texts[1], "keep_alive": "5m"}).json == {"embedding": want[1]}
        assert len(s.post("/api/embed", {"input": "a", "dimensions": 4}).json["embeddings"][0]) == 4
        long = "a b c " * 5000
        r = s.post("/api/embed", {"input": long})
        assert r.status == 200, r
        r = s.post("/api/embed", {"input": long, "truncate": False})
        assert r.status == 400 and "maximum context" in r.json["error"], r
        for body, what in (({"input": 7}, "'input'"), ({"input": []}, "'input'"), ({"input": "a", "truncate": 1}, "'truncate'"),
                           ({"input": "a", "options": {"num_ctx": 1 << 30}}, "num_ctx"), ({"input": "a", "dimensions": 0}, "dim")):
            r = s.post("/api/embed", body)
            assert r.status == 400 and what in r.json["error"], (body, r)
        for path in ("/api/chat", "/api/generate"):
            r = s.post(path, {"messages": ASK, "prompt": "x"} if path == "/api/chat" else {"prompt": "x"})
            assert r.status == 400 and "is an encoder" in r.json["error"], r


def main():
    cases = Cases()
    with scratch() as tmp:
        model, keys = make_model(tmp / "m"), tmp / "keys"
        keys.write_text(KEYS)
        keys.chmod(0o600)
        template_of(model, TEMPLATE)
        rename_special(model, ("<|system|>", "<think>"), ("<|user|>", "</think>"), ("<|assistant|>", "<tool_call>"))
        with Tandem(model, "--ctx", 4096, "--api-key-file", keys) as server:
            at = Ollama(server)
            cases.run_all(at)
        with Tandem(model, "--ctx", 65536, "--request-timeout", 1) as server:
            cases.run("times out", lambda: times_out(server))
        cases.run("a model without a template", lambda: no_template(tmp))
        cases.run("known models", lambda: known_models(tmp))
        cases.run("vectors", lambda: vectors(tmp))
    return cases.end()


if __name__ == "__main__":
    sys.exit(main())
