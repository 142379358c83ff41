#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A running server against its own description, /openapi.json: every route's real answer fits the
schema that is published, member for member; every route asks for a key and its scope; every number
is refused out of its bounds by its name. Then what the figures of /metrics say, and what must not
make them grow.

Faults they can catch: a route that is described otherwise than it answers, or is open by oversight;
a bound in the table that the server does not hold; labels that clients can make.

Standard library only; where jsonschema, openapi-spec-validator and prometheus_client are
installed, they have a word too."""
import fnmatch
import json
import pathlib
import site
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "lib"))
from serving import SLOW, Cases, Tandem, make_model, scratch  # noqa: E402

KEYS = """low inference low-key-low-key-low-key
root all root-key-root-key-root-key
"""
LOW = {"Authorization": "Bearer low-key-low-key-low-key"}
ROOT = {"Authorization": "Bearer root-key-root-key-root-key"}
CHAT = {"messages": [{"role": "user", "content": "hello"}], "max_tokens": 4}
TEXT = {"prompt": "hello", "max_tokens": 4, "ignore_eos": True}

# What each route is asked for its real answer.
BODIES = {
    "chat": {**CHAT, "logprobs": True, "top_logprobs": 2, "n": 2},
    "completions": {**TEXT, "logprobs": 2, "echo": True, "return_token_ids": True},
    "plain_chat": {**CHAT},
    "plain_completions": {**TEXT, "logprobs": 20},  # more than OpenAI's five
    "messages": {**CHAT},
    "responses": {"input": "hello", "max_output_tokens": 4},
    "count_tokens": {"messages": CHAT["messages"]},
    "tokenize": {"prompt": "hello", "return_token_strs": True},
    "detokenize": {"tokens": [1, 2, 3]},
    "apply_template": {"messages": CHAT["messages"]},
    "adapter_load": {"name": "nothing"},
    **dict.fromkeys(("rerank", "plain_rerank", "v2_rerank"), {"query": "a", "documents": ["b"]}),
    **dict.fromkeys(("score", "plain_score"), {"text_1": "a", "text_2": "b"}),
    **dict.fromkeys(("classify", "plain_classify"), {"input": "a"}),
    "lora_load": {"lora_name": "nothing", "lora_path": "nothing"},
    "lora_unload": {"lora_name": "nothing"},
    "infill": {"input_prefix": "hello"},
    "ollama_chat": {"messages": CHAT["messages"], "stream": False, "options": {"num_predict": 4}},
    "ollama_generate": {"prompt": "hello", "stream": False, "options": {"num_predict": 4}},
    "ollama_embed": {"input": "hello"},
    "ollama_vector": {"prompt": "hello"},
    "ollama_show": {"model": "tiny"},
}
# What must have been seen in a real answer by the end.
SCHEMAS = {
    "Error", "ErrorBody", "ModelList", "Model", "Tokens", "Text", "TokenizerInfo", "Version",
    "Health", "Usage", "Timings", "PromptDetails", "CompletionDetails", "ChatCompletion",
    "ChatChoice", "ChatMessage", "ChatLogprobs", "TokenLogprob", "TopLogprob", "ChatCompletionChunk", "ChatChunkChoice",
    "Response", "ResponseItem", "ResponsePart", "ResponseUsage", "ResponseCut", "ResponseEvent",
    "Message", "MessageUsage", "Block", "MessageEvent", "BlockDelta", "MessageDelta", "TokenCount",
    "ChatDelta", "Completion", "CompletionChoice", "CompletionLogprobs",
    "OllamaError", "OllamaChat", "OllamaMessage", "OllamaText", "OllamaModels", "OllamaModel", "OllamaDetails",
    "TinkerHealth", "TinkerConfig", "TinkerDynamic", "TinkerTaken", "TinkerCapabilities", "TinkerModel",
    "Load", "Props", "PropsSettings", "PropsModalities",
    "OllamaRunning", "OllamaLoaded", "OllamaModelInfo", "OllamaVersion",
}
# Need an adapter or an encoder: tests/server/answer/test_ops.c and test_generate.c have them.
ELSEWHERE = {"Adapter", "AdapterDeleted", "EmbeddingList", "Embedding",
             # what scores: tests/server/test_scores.py
             "Ranking", "RankedDocument", "DocumentText", "ScoreList", "Score", "ClassList", "Class", "InputUsage",
             # a template with tools: tests/server/test_tools.py
             # where such a route refuses: tests/server/test_messages.py
             "MessageError", "MessageErrorBody",
             # one that failed: tests/server/test_responses.py
             "ResponseError",
             # a vocabulary with marks: tests/server/test_infill.py
             "Infill", "InfillTimings",
             # tests/server/test_tinker.py
             "TinkerSession", "TinkerBeat", "TinkerNothing", "TinkerPlace", "TinkerInfo", "TinkerModelData",
             "TinkerWeights", "TinkerCheckpoints", "TinkerCheckpoint", "TinkerSampler", "TinkerSamplerInfo",
             # tests/server/test_ollama.py
             "OllamaCall", "OllamaFunction", "OllamaVectors", "OllamaVector",
             "ToolCall", "ToolFunction", "ToolCallDelta", "ToolFunctionDelta"}
# Of what tests/server/test_tuning.py asks: it has a data directory, and sends forms.
ELSEWHERE_CODES = {"no_data_dir", "unsupported_media_type"}
SCORES = ("rerank", "plain_rerank", "v2_rerank", "score", "plain_score", "classify", "plain_classify")
EDGES = [-1, 0, 1, 2**31 - 1, 2**31, 2**53, 2**63 - 1, 1e308, 1.5, "1", True, [], {}]


class Description:
    """/openapi.json, and what of it was met."""

    def __init__(self, doc):
        self.doc, self.met = doc, set()
        self.schemas = doc["components"]["schemas"]

    def routes(self):
        for path, methods in self.doc["paths"].items():
            for method, op in methods.items():
                yield method.upper(), path, op

    def fits(self, value, schema, where="answer"):
        """None, or what does not fit. Members that are not described do not."""
        if "$ref" in schema:
            name = schema["$ref"].rsplit("/", 1)[1]
            fault = self.fits(value, self.schemas[name], name)
            if not fault:
                self.met.add(name)
            return fault
        if "anyOf" in schema:
            faults = [self.fits(value, s, where) for s in schema["anyOf"]]
            return None if None in faults else "; ".join(faults)
        if "const" in schema:
            return None if value == schema["const"] else f"{where}: {value!r}"
        kind = schema.get("type")
        types = {"string": str, "integer": int, "number": (int, float), "boolean": bool,
                 "object": dict, "array": list, "null": type(None)}
        if kind and (not isinstance(value, types[kind])
                     or isinstance(value, bool) and kind != "boolean"):
            return f"{where}: {value!r} is no {kind}"
        if kind == "array":
            return next(filter(None, (self.fits(v, schema["items"], where) for v in value)), None)
        if kind == "object" and "properties" in schema:
            return self.members(value, schema, where)
        return None

    def members(self, value, schema, where):
        lacks = [k for k in schema["required"] if k not in value]
        more = [k for k in value if k not in schema["properties"]]
        if lacks or more:
            return f"{where}: lacks {lacks}, has {more} besides"
        faults = (self.fits(v, schema["properties"][k], f"{where}.{k}") for k, v in value.items())
        return next(filter(None, faults), None)

    def check(self, value, schema):
        fault = self.fits(value, schema)
        assert not fault, fault


def is_ollama(path):
    return path.startswith("/api/") and not path.startswith("/api/v1/")


def concrete(path, model):
    return path.replace("{id}", model).replace("{name}", "nothing").replace("{file}", "app.js")


def answers_fit(server, api, model):
    """Each route once, and the error of each that cannot succeed here."""
    for method, path, op in api.routes():
        body = BODIES.get(op["operationId"], {}) if method == "POST" else None
        r = server.ask(method, concrete(path, model), body, **ROOT)
        content = op["responses"]["200"]["content"]
        if r.status != 200:
            assert op["operationId"] in ("embeddings", "plain_embeddings", "ollama_embed", "ollama_vector", "adapter_load", "adapter_drop",
                                         "lora_load", "lora_unload", "infill", *SCORES) \
                or r.error["code"] in ELSEWHERE_CODES, (path, r)
            api.check(r.json, {"$ref": "#/components/schemas/" + ("OllamaError" if is_ollama(path) else "Error")})
            continue
        media, shape = next(iter(content.items()))
        type_of = r.headers["Content-Type"].split(";")[0]
        assert fnmatch.fnmatch(type_of, media), (path, type_of)
        if "schema" in shape:
            api.check(r.json, shape["schema"])


def streams_fit(server, api):
    for op, path, body in (("chat", "/v1/chat/completions", CHAT),
                           ("completions", "/v1/completions", TEXT)):
        shape = api.doc["paths"][path]["post"]["responses"]["200"]["content"]["text/event-stream"]
        r = server.post(path, {**body, "stream": True, "logprobs": True if op == "chat" else 1,
                               "stream_options": {"include_usage": True}}, **ROOT)
        events = [e[6:] for e in r.body.decode().split("\n\n") if e.startswith("data: ")]
        assert events[-1] == "[DONE]", events[-1]
        for e in events[:-1]:
            api.check(json.loads(e), shape["schema"])
    for path, body in (("/v1/messages", CHAT), ("/v1/responses", BODIES["responses"])):
        shape = api.doc["paths"][path]["post"]["responses"]["200"]["content"]["text/event-stream"]
        for e in server.post(path, {**body, "stream": True}, **ROOT).body.decode().split("\n\n")[:-1]:
            api.check(json.loads(e.split("data: ")[1]), shape["schema"])
    for op, path in (("ollama_chat", "/api/chat"), ("ollama_generate", "/api/generate")):
        shape = api.doc["paths"][path]["post"]["responses"]["200"]["content"]["application/x-ndjson"]
        for line in server.post(path, {**BODIES[op], "stream": True}, **ROOT).body.decode().splitlines():
            api.check(json.loads(line), shape["schema"])


def keys_are_asked_for(server, api, model):
    n = 0
    for method, path, op in api.routes():
        body = {} if method == "POST" else None
        for headers, status in (({}, 401), ({"Authorization": "Bearer wrong"}, 401), (LOW, 403)):
            r = server.ask(method, concrete(path, model), body, **headers)
            if not op["security"]:
                assert r.status == 200, (path, r)
            elif headers is LOW and op["x-scope"] == "inference":
                assert r.status not in (401, 403) or r.error["code"] in ELSEWHERE_CODES, (path, r)
            else:
                assert r.status == status, (path, headers, r)
                error = r.json["error"]
                assert error if is_ollama(path) else error["message"], path
            n += 1
    return f"{n} asked"


def outside(schema, value):
    is_int = isinstance(value, (int, float)) and not isinstance(value, bool) \
        and float(value).is_integer()
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        return True
    if schema["anyOf"][0]["type"] == "integer" and not is_int:
        return True
    return not schema["minimum"] <= value <= schema["maximum"]


def bounds_are_held(server, api):
    """Every field that has bounds, at and around them, and at what has broken other servers."""
    n, rss = 0, server.rss()
    for path, good in (("/v1/chat/completions", CHAT), ("/v1/completions", TEXT), ("/v1/messages", CHAT),
                       ("/v1/responses", BODIES["responses"])):
        body = api.doc["paths"][path]["post"]["requestBody"]["content"]["application/json"]
        fields = api.schemas[body["schema"]["$ref"].rsplit("/", 1)[1]]["properties"]
        for name, schema in fields.items():
            if "minimum" not in schema:
                continue
            around = [schema["minimum"] - 1, schema["maximum"] + 1]
            for value in EDGES + around:
                if not outside(schema, value):
                    continue
                r = server.post(path, {**good, name: value}, **ROOT)
                assert r.status == 400 and f"'{name}'" in r.json["error"]["message"], (name, value, r)
                assert r.json.get("type") == "error" or r.error["param"] == name, (name, value, r)
                n += 1
    grown = server.rss() - rss
    assert grown < 64 << 20, f"{grown >> 20} MiB more"
    return f"{n} refused"


def messages_are_described(server, api):
    """Of InputMessage: every role that it has is taken, no other, and contents of its kinds alone."""
    fields = api.schemas["InputMessage"]["properties"]
    roles = [x["const"] for x in fields["role"]["anyOf"]]
    for message, fits in [({"role": r, "content": "x"}, True) for r in roles] + [
            ({"role": "somebody", "content": "x"}, False), ({"content": "x"}, False), ({"role": "user", "content": 7}, False),
            ({"role": "user", "content": [{"type": "text", "text": "x"}]}, True), ({"role": "user", "content": {}}, False)]:
        r = server.post("/v1/chat/completions", {**CHAT, "messages": [message, *CHAT["messages"]]}, **ROOT)
        assert (r.status == 200) == fits, (message, r)


def deep_json_is_refused(server):
    for path in ("/tokenize", "/v1/completions", "/apply-template", "/detokenize"):
        for opener in ("[", '{"a":'):
            body = ('{"prompt":' + opener * 10**6).encode()
            r = server.post(path, body, **ROOT)
            assert r.status == 400 and r.error["code"] == "invalid_json", (path, r)


def ids_out_of_range(server):
    info = server.get("/tokenizer_info", **ROOT).json
    for bad in (-1, info["vocab_size"] + 10**6, 2**31, 2**63 - 1, 1.5, "1", None, True, [1]):
        for path, field in (("/detokenize", "tokens"), ("/v1/completions", "prompt")):
            r = server.post(path, {field: [1, bad]}, **ROOT)
            assert r.status == 400 and r.error["param"] == field, (path, bad, r)
    last = server.post("/detokenize", {"tokens": [info["vocab_size"] - 1]}, **ROOT)
    assert last.status == 200, last


def adapters_need_a_root(server):
    r = server.post("/v1/adapters", {"name": "x", "path": "../../etc"}, **ROOT)
    assert r.status == 403 and "--adapter-root" in r.error["message"], r
    for name in ("../x", "/etc/passwd", "a\0b", ".x", "x" * 97, 7, None):
        r = server.post("/v1/adapters", {"name": name}, **ROOT)
        assert r.status == 400 and r.error["param"] == "name", (name, r)


def series(server):
    server.wait_idle(**ROOT)  # a request is counted when its connection has its last byte
    text = server.get("/metrics", **ROOT).body.decode()
    return {k: float(v) for k, v in
            (line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))}


def series_behind(server, before, n):
    """Once n more answers are counted, of which this figure is the last: whoever made the last of one
    may let go of it after its connection did."""
    end = time.monotonic() + 60 * SLOW
    while time.monotonic() < end:
        if told(before, series(server), "vllm:time_to_first_token_seconds_count") >= n:
            break
    return series(server)


def told(before, after, name, **labels):
    """How much a family's series with these labels rose."""
    def total(s):
        return sum(v for k, v in s.items() if k.split("{")[0] == name
                   and all(f'{a}="{b}"' in k for a, b in labels.items()))
    return total(after) - total(before)


def figures_are_true(server):
    before = series(server)
    usage = []
    for i in range(7):
        usage.append(server.post("/v1/completions", {**TEXT, "max_tokens": i + 1}, **ROOT)
                     .json["usage"])
    server.get("/v1/nothing", **ROOT)
    server.post("/v1/completions", {"prompt": 1}, **ROOT)
    after = series_behind(server, before, 7)
    new, old = (sum(u[k] for u in usage) for k in ("completion_tokens", "prompt_tokens"))
    assert new == 28, usage
    route = "/v1/completions"
    want = {
        ("tandem_http_requests_total", route, "2xx"): 7,
        ("tandem_http_requests_total", route, "4xx"): 1,
        ("tandem_http_requests_total", "other", "4xx"): 1,
    }
    for (name, at, status), n in want.items():
        assert told(before, after, name, route=at, status=status) == n, (at, status, n)
    for name, n in (("vllm:generation_tokens_total", new), ("vllm:prompt_tokens_total", old),
                    ("vllm:request_generation_tokens_sum", new),
                    ("vllm:request_prompt_tokens_sum", old),
                    ("vllm:e2e_request_latency_seconds_count", 7),
                    ("vllm:inter_token_latency_seconds_count", new - 7)):
        assert told(before, after, name) == n, (name, told(before, after, name), n)
    assert told(before, after, "vllm:request_success_total", finished_reason="length") == 7
    assert after[next(k for k in after if k.startswith("vllm:num_requests_running"))] == 0


def guesses_are_told(server):
    """A greedy text of so small a model goes round in circles, which is guessed."""
    before, accepted, rejected = series(server), 0, 0
    for _ in range(50):
        u = server.post("/v1/completions", {**TEXT, "temperature": 0, "max_tokens": 60}, **ROOT)
        u = u.json["usage"]
        details = u["completion_tokens_details"]
        assert 0 <= details["accepted_prediction_tokens"] < u["completion_tokens"], u
        accepted += details["accepted_prediction_tokens"]
        rejected += details["rejected_prediction_tokens"]
        if accepted:
            break
    assert accepted
    after = series(server)
    for name, n in (("draft_tokens", accepted + rejected), ("accepted_tokens", accepted)):
        assert told(before, after, f"vllm:spec_decode_num_{name}_total") == n, (name, n)


def labels_do_not_grow(server):
    server.ask("BREW", "/pot", **ROOT)
    server.post("/v1/completions", {**TEXT, "model": "m"}, **ROOT)
    before = set(series(server))
    for i in range(300):
        server.ask(f"M{i}", f"/p{i}", **ROOT)
        server.post("/v1/completions", {**TEXT, "model": f"m{i}"}, **ROOT)
    more = set(series(server)) - before
    assert not more, more


def head_has_no_body(server):
    r = server.ask("HEAD", "/metrics", **ROOT)
    assert r.status == 200 and not r.body and r.headers["Content-Type"].startswith("text/plain"), r


def others_agree(server, doc):
    """Readers that are not ours, where they are installed: the runner starts without a look at that."""
    site.main()
    said = []
    try:
        import openapi_spec_validator
        openapi_spec_validator.validate(doc)
        said.append("openapi-spec-validator")
    except ImportError:
        pass
    try:
        from prometheus_client.parser import text_string_to_metric_families
        families = list(text_string_to_metric_families(
            server.get("/metrics", **ROOT).body.decode()))
        assert len(families) > 30
        said.append("prometheus_client")
    except ImportError:
        pass
    return ", ".join(said) or "none is installed"


def main():
    cases = Cases()
    with scratch() as tmp:
        model = "tiny"
        make_model(tmp / model)
        keys = tmp / "keys"
        keys.write_text(KEYS)
        keys.chmod(0o600)
        with Tandem(tmp / model, "--api-key-file", keys, "--name", model, "--no-access-log") as s:
            api = Description(s.get("/openapi.json", **ROOT).json)
            assert set(api.schemas) >= SCHEMAS | ELSEWHERE
            cases.run("answers fit", lambda: answers_fit(s, api, model))
            cases.run("streams fit", lambda: streams_fit(s, api))
            cases.run("schemas were met", lambda: api_met(api))
            cases.run("keys", lambda: keys_are_asked_for(s, api, model))
            cases.run("bounds", lambda: bounds_are_held(s, api))
            cases.run("messages", lambda: messages_are_described(s, api))
            cases.run("deep JSON", lambda: deep_json_is_refused(s))
            cases.run("ids out of range", lambda: ids_out_of_range(s))
            cases.run("adapters need a root", lambda: adapters_need_a_root(s))
            cases.run("figures", lambda: figures_are_true(s))
            cases.run("guesses", lambda: guesses_are_told(s))
            cases.run("labels", lambda: labels_do_not_grow(s))
            cases.run("HEAD", lambda: head_has_no_body(s))
            cases.run("others", lambda: others_agree(s, api.doc))
    print(f"{cases.passed} passed, {cases.failed} failed")
    return 1 if cases.failed else 0


def api_met(api):
    lacks = SCHEMAS - api.met
    assert not lacks, f"no real answer had {sorted(lacks)}"


if __name__ == "__main__":
    sys.exit(main())
