#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What people do with the official OpenAI SDK, done to `tandem serve` on tiny random models. Run by
test_sdk.py. Each case names what it would catch. The SDK's own types do part of the checking: an
answer without a member that they want has no such attribute."""
import asyncio
import json
import os
import pathlib
import re
import struct
import subprocess
import sys
import time
import typing

import openai
import pydantic
import responses
import tools
from openai import AsyncOpenAI, OpenAI
from serving import MODE, SLOW, Cases, Tandem, few_facts, make_model, scratch, template_of
from tuning import MODEL, OPTIONS, Tuning

KEYS = "user inference user-key\ntrainer training train-key\nroot all root-key\n"
LONG = {"extra_body": {"ignore_eos": True}}
CTX = 65536  # many seconds of tokens: who leaves such a stream leaves it in the midst
ASK = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Say héllo."}]


def counts(usage):
    """What the same request always counts. How many tokens were guessed ahead is nobody's promise: a
    guess is made where it gains time."""
    return usage.model_dump(exclude={"completion_tokens_details"})


class Sdk:
    """The cases, and the server that they share."""

    def __init__(self, server, name):
        self.server, self.model = server, name
        self.client = OpenAI(base_url=server.url + "/v1", api_key="user-key", max_retries=0,
                             timeout=120)

    def other(self, **options):
        return self.client.with_options(**options)

    def chat(self, **more):
        return self.client.chat.completions.create(
            **{"model": self.model, "messages": ASK, "max_tokens": 12, "temperature": 0, **more})

    def text(self, **more):
        return self.client.completions.create(
            **{"model": self.model, "prompt": "Once upon", "max_tokens": 12, "temperature": 0,
               **more})

    # ---- models

    def case_models(self):
        """Catches: a list that does not page, a model that cannot be had by the name it is listed
        under."""
        models = list(self.client.models.list())
        assert [m.id for m in models] == [self.model], models
        one = self.client.models.retrieve(self.model)
        assert (one.id, one.object) == (self.model, "model") and one.created > 0 and one.owned_by
        try:
            self.client.models.retrieve("no/such:model")
        except openai.NotFoundError as e:
            assert e.body["code"] == "model_not_found" and e.body["param"] == "model", e.body
        else:
            raise AssertionError("an unknown model was found")

    # ---- chat

    def case_chat(self):
        """Catches: an answer whose members are not those of the specification."""
        r = self.chat()
        choice = r.choices[0]
        assert r.id.startswith("chatcmpl-") and r.object == "chat.completion", r
        assert r.model == self.model and abs(r.created - time.time()) < 3600, r
        assert len(r.choices) == 1 and choice.index == 0 and choice.message.role == "assistant"
        assert isinstance(choice.message.content, str) and choice.finish_reason in ("stop", "length")
        u = r.usage
        assert u.prompt_tokens > 0 and 0 < u.completion_tokens <= 12
        assert u.total_tokens == u.prompt_tokens + u.completion_tokens
        assert r._request_id, "no x-request-id"

    def case_chat_stream(self):
        """Catches: a stream whose text is not that of the whole answer, whose id changes, whose
        usage is missing, or that has no end."""
        whole = self.chat(max_tokens=20, **LONG)
        chunks = list(self.chat(max_tokens=20, stream=True,
                                stream_options={"include_usage": True}, **LONG))
        assert {c.object for c in chunks} == {"chat.completion.chunk"}
        assert len({(c.id, c.created, c.model) for c in chunks}) == 1
        first, *body, last = chunks
        assert first.choices[0].delta.role == "assistant", first
        assert all(c.choices[0].delta.role is None for c in body), "the role came twice"
        text = "".join(c.choices[0].delta.content or "" for c in chunks if c.choices)
        assert text == whole.choices[0].message.content, (text, whole)
        ends = [c.choices[0].finish_reason for c in [first, *body]]
        assert ends[-1] == "length" and not any(ends[:-1]), ends
        assert last.choices == [] and counts(last.usage) == counts(whole.usage), last
        assert all(c.usage is None for c in [first, *body])
        plain = list(self.chat(stream=True))
        assert all(c.usage is None and c.choices for c in plain), "usage that nobody asked for"

    def case_chat_contents(self):
        """Catches: a content of parts, a developer's message, a name that is refused."""
        parts = [{"role": "developer", "content": "Be brief."},
                 {"role": "user", "content": [{"type": "text", "text": "Say "},
                                              {"type": "text", "text": "héllo."}]}]
        r = self.chat(messages=parts)
        assert r.choices[0].message.content is not None
        r = self.chat(max_tokens=openai.NOT_GIVEN, max_completion_tokens=3, **LONG)
        assert r.usage.completion_tokens == 3 and r.choices[0].finish_reason == "length"
        r = self.chat(messages=[*ASK, {"role": "assistant", "content": "Hi"},
                                {"role": "user", "content": "Again"}])
        assert r.usage.prompt_tokens > self.chat().usage.prompt_tokens

    def case_chat_logprobs(self):
        """Catches: log-probabilities that are not of the tokens shown, or not sorted, or not
        greedy's."""
        r = self.chat(logprobs=True, top_logprobs=4, max_tokens=8, **LONG)
        content = r.choices[0].logprobs.content
        assert len(content) == 8
        for t in content:
            assert t.logprob <= 0 and len(t.top_logprobs) == 4
            assert t.top_logprobs[0].token == t.token and t.top_logprobs[0].logprob == t.logprob
            tops = [x.logprob for x in t.top_logprobs]
            assert tops == sorted(tops, reverse=True)
        text = b"".join(bytes(t.bytes) for t in content).decode("utf-8", "replace")
        assert text == r.choices[0].message.content, (text, r.choices[0].message.content)
        streamed = [t for c in self.chat(logprobs=True, top_logprobs=4, max_tokens=8, stream=True,
                                         **LONG)
                    if c.choices and c.choices[0].logprobs for t in c.choices[0].logprobs.content]
        assert streamed == content, "a stream's log-probabilities are others"
        assert self.chat().choices[0].logprobs is None

    def case_sampling(self):
        """Catches: a seed that does not decide, choices that are all the same, a parameter that
        the SDK sends and we refuse."""
        hot = {"temperature": 1.0, "max_tokens": 24, **LONG}
        one, two = self.chat(seed=7, n=2, **hot), self.chat(seed=7, n=2, **hot)
        texts = [c.message.content for c in one.choices]
        assert texts == [c.message.content for c in two.choices]
        assert [c.index for c in one.choices] == [0, 1] and texts[0] != texts[1]
        assert self.chat(seed=8, **hot).choices[0].message.content not in texts
        assert one.usage.completion_tokens == 48
        self.chat(top_p=0.9, frequency_penalty=0.5, presence_penalty=-0.5, seed=1, temperature=0.7,
                  logit_bias={"70": -100}, user="someone", metadata={"a": "b"}, store=False,
                  service_tier="auto", parallel_tool_calls=openai.NOT_GIVEN)
        self.chat(extra_body={"top_k": 5, "min_p": 0.1, "repetition_penalty": 1.1,
                              "min_tokens": 2, "stop_token_ids": [9]})
        by_index = {}
        for c in self.chat(seed=7, n=2, stream=True, **hot):
            for choice in c.choices:
                by_index.setdefault(choice.index, []).append(choice.delta.content or "")
        assert ["".join(by_index[i]) for i in (0, 1)] == texts, "a stream of two is another"

    def case_bias_and_stop(self):
        """Catches: a bias that does nothing, a stop that is shown or comes late."""
        r = self.text(logit_bias={"75": 100}, max_tokens=6, logprobs=1, **LONG)
        assert len(set(r.choices[0].logprobs.tokens)) == 1, r
        long = self.text(max_tokens=40, **LONG).choices[0].text
        stop = long[10:12]
        r = self.text(max_tokens=40, stop=[stop], **LONG)
        assert r.choices[0].finish_reason == "stop"
        assert r.choices[0].text == long[:long.index(stop)], (r.choices[0].text, long)
        streamed = "".join(c.choices[0].text for c in self.text(max_tokens=40, stop=stop,
                                                                stream=True, **LONG))
        assert streamed == r.choices[0].text, "part of the stop was streamed"

    # ---- completions

    def case_completions(self):
        """Catches: prompts in each of their four forms that do not come out alike."""
        r = self.text()
        assert r.id.startswith("cmpl-") and r.object == "text_completion" and r.model == self.model
        one = r.choices[0].text
        ids = self.server.post("/tokenize", {"prompt": "Once upon", "add_special_tokens": True},
                               Authorization="Bearer user-key").json["tokens"]
        assert r.usage.prompt_tokens == len(ids)
        assert self.text(prompt=ids).choices[0].text == one
        many = self.text(prompt=[ids, ids[:-1], ids])
        assert [c.index for c in many.choices] == [0, 1, 2]
        assert many.choices[0].text == many.choices[2].text == one
        many = self.text(prompt=["Once upon", "Twice"], n=2, temperature=1, seed=3)
        assert [c.index for c in many.choices] == [0, 1, 2, 3]
        streamed = "".join(c.choices[0].text for c in self.text(stream=True) if c.choices)
        assert streamed == one

    def case_echo(self):
        """Catches: what evaluation harnesses ask: the prompt's own log-probabilities."""
        r = self.text(prompt="Once upon", echo=True, logprobs=2, max_tokens=1)
        lp = r.choices[0].logprobs
        assert r.choices[0].text.startswith("Once upon")
        n = r.usage.total_tokens
        assert len(lp.tokens) == len(lp.token_logprobs) == len(lp.top_logprobs) == n
        assert lp.token_logprobs[0] is None and lp.top_logprobs[0] is None
        assert all(x <= 0 for x in lp.token_logprobs[1:]) and lp.text_offset[0] == 0
        assert "".join(lp.tokens)[:9] == "Once upon" and lp.text_offset == sorted(lp.text_offset)
        again = self.text(prompt="Once upon", echo=True, logprobs=2, max_tokens=1)
        assert again.choices[0].logprobs == lp, "the prompt's log-probabilities changed"
        best = self.text(best_of=3, n=1, temperature=1, seed=5)
        assert len(best.choices) == 1

    # ---- faults

    def fails(self, kind, param, call, words="", what=""):
        try:
            call()
        except openai.APIStatusError as e:
            assert isinstance(e, kind), (type(e), e.body)
            assert set(e.body) >= {"message", "type", "param", "code"}, e.body
            assert param is None or e.body["param"] == param, (param, e.body)
            assert words in e.message, (words, e.message)
            return e
        raise AssertionError(f"no fault for {param or what}")

    def case_bad_parameters(self):
        """Catches: a value out of range that is taken, or refused without its name."""
        bad = openai.BadRequestError
        for param, value in (("temperature", -1), ("temperature", 1e308), ("top_p", -0.1),
                             ("top_p", 1.1), ("n", 0), ("n", 10 ** 9), ("max_tokens", -1),
                             ("seed", -(2 ** 60) * 1.5), ("top_logprobs", 21), ("frequency_penalty", 3),
                             ("presence_penalty", -3), ("logit_bias", {"99999999": 1}),
                             ("logit_bias", {"a": 1}), ("stop", ["a"] * 100), ("messages", []),
                             ("messages", "hello"), ("stream", "yes"), ("temperature", "hot")):
            more = {"logprobs": True} if param == "top_logprobs" else {}
            e = self.fails(bad, None, lambda: self.chat(**{param: value}, **more), what=param)
            assert (e.body["param"] or "").startswith(param), (param, value, e.body)
        self.fails(bad, "prompt", lambda: self.text(prompt=[10 ** 9]))
        self.fails(bad, "messages[0].role", lambda: self.chat(
            messages=[{"role": "teapot", "content": "x"}]))
        self.fails(bad, None, lambda: self.text(prompt="a " * 100000, max_tokens=10))
        self.fails(openai.NotFoundError, "model", lambda: self.chat(model="gpt-4o"))

    def case_parse(self):
        """Catches: an answer that the SDK cannot make the caller's object of; a stream of it that
        says something else; a schema that nobody can keep taken for one."""
        class Pet(pydantic.BaseModel):
            kind: typing.Literal["cat", "dog"]
            is_good: bool
            legs: int
            colours: list[typing.Literal["black", "white", "ginger"]] = pydantic.Field(max_length=3)
            parent: typing.Optional[str] = pydantic.Field(max_length=8)

        parse = self.client.chat.completions.parse
        ask = {"model": self.model, "messages": ASK, "max_tokens": 500, "seed": 5}
        whole = parse(**ask, response_format=Pet)
        assert whole.choices[0].finish_reason == "stop", whole
        assert isinstance(whole.choices[0].message.parsed, Pet), whole
        with self.client.chat.completions.stream(**ask, response_format=Pet) as events:
            streamed = events.get_final_completion()
        assert streamed.choices[0].message.content == whole.choices[0].message.content, streamed
        assert streamed.choices[0].message.parsed == whole.choices[0].message.parsed, streamed
        one = self.chat(response_format={"type": "json_object"}, max_tokens=500)
        if one.choices[0].finish_reason == "stop":
            assert isinstance(json.loads(one.choices[0].message.content), dict), one
        form = {"type": "json_schema",
                "json_schema": {"name": "x", "schema": {"type": "array", "contains": {}}}}
        self.fails(openai.BadRequestError, "response_format",
                   lambda: self.chat(response_format=form))

    def case_not_yet(self):
        """Catches: a parameter that we do not honour and do not refuse."""
        bad = openai.BadRequestError
        self.fails(bad, "suffix", lambda: self.text(suffix="end"))
        self.chat(response_format={"type": "text"}, tools=[])
        self.fails(openai.NotFoundError, None, lambda: self.client.moderations.create(input="x"))

    def case_keys(self):
        """Catches: a key that is not looked at; what the SDK makes of 401 and of 403."""
        wrong = self.other(api_key="nobody")
        self.fails(openai.AuthenticationError, None, wrong.models.list)
        e = self.fails(openai.AuthenticationError, None,
                       lambda: wrong.chat.completions.create(model=self.model, messages=ASK))
        assert "nobody" not in e.message, "the key is told to whoever reads the error"
        small = self.other(api_key="train-key")
        self.fails(openai.PermissionDeniedError, None,
                   lambda: small.chat.completions.create(model=self.model, messages=ASK))

    # ---- the transport

    def case_raw(self):
        """Catches: headers that clients read and we do not send."""
        raw = self.client.chat.completions.with_raw_response.create(
            model=self.model, messages=ASK, max_tokens=2, extra_headers={"X-Request-Id": "mine-1"})
        assert raw.headers["content-type"].startswith("application/json"), raw.headers
        assert raw.headers["x-request-id"] == "mine-1" and raw.parse().choices
        raw = self.client.chat.completions.with_raw_response.create(
            model=self.model, messages=ASK, max_tokens=2, extra_body={"frobnicate": 1})
        assert "frobnicate" in raw.headers["x-tandem-ignored"], raw.headers
        with self.client.chat.completions.with_streaming_response.create(
                model=self.model, messages=ASK, max_tokens=3, stream=True) as r:
            assert r.headers["content-type"].startswith("text/event-stream"), r.headers
            lines = [x for x in r.iter_lines() if x and not x.startswith(":")]
        assert lines[-1] == "data: [DONE]" and all(x.startswith("data: {") for x in lines[:-1])
        assert all(json.loads(x[6:])["object"] == "chat.completion.chunk" for x in lines[:-1])

    def metrics(self):
        body = self.server.get("/metrics", Authorization="Bearer root-key").body.decode()
        return {x.split("{")[0].split()[0]: float(x.split()[-1]) for x in body.splitlines()
                if x and not x.startswith("#") and "_bucket" not in x}

    def wait_quiet(self, seconds=60):
        end = time.monotonic() + seconds * SLOW
        while time.monotonic() < end:
            m = self.metrics()
            if m["tandem_requests_running"] + m["tandem_requests_waiting"] == 0:
                return
            time.sleep(0.05)
        raise AssertionError("sequences still run")

    def case_cancel(self):
        """Catches: a stream that was left and runs on; one that takes others with it."""
        other = self.chat(max_tokens=40, stream=True, **LONG)
        want = self.chat(max_tokens=40, **LONG).choices[0].message.content
        left = self.chat(max_tokens=CTX - 1000, stream=True, **LONG)
        for _, _ in zip(left, range(5)):
            pass
        before = self.metrics()["tandem_generation_tokens_total"]
        left.close()
        got = "".join(c.choices[0].delta.content or "" for c in other)
        assert got == want
        self.wait_quiet()
        made = self.metrics()["tandem_generation_tokens_total"] - before
        assert made < CTX - 2000, f"{made} tokens were made for nobody"

    def case_timeout(self):
        """Catches: a request whose client gave up that runs on."""
        try:
            self.other(timeout=0.15).chat.completions.create(
                model=self.model, messages=ASK, max_tokens=CTX - 1000, **LONG)
        except openai.APITimeoutError:
            pass
        self.wait_quiet()
        assert self.chat().choices

    def case_many(self):
        """64 clients at once. Catches: an answer that depends on who else asks."""
        prompts = [f"{'word ' * (i % 13)}number {i}" for i in range(64)]

        def options(i):
            return {"model": self.model, "messages": [{"role": "user", "content": prompts[i]}],
                    "max_tokens": 8 + i % 17, "temperature": i % 3 * 0.5, "seed": i, **LONG}

        solo = [self.client.chat.completions.create(**options(i)).choices[0].message.content
                for i in range(64)]

        async def one(client, i):
            if i % 2:
                r = await client.chat.completions.create(**options(i))
                return r.choices[0].message.content
            stream = await client.chat.completions.create(**options(i), stream=True)
            return "".join([c.choices[0].delta.content or "" async for c in stream])

        async def together():
            async with AsyncOpenAI(base_url=self.server.url + "/v1", api_key="user-key",
                                   max_retries=0, timeout=240) as client:
                return await asyncio.gather(*(one(client, i) for i in range(64)))

        got = asyncio.run(together())
        differ = [i for i in range(64) if got[i] != solo[i]]
        assert not differ, f"other answers in company: {differ}"


class Embeddings:
    """The same of a model that gives vectors."""

    def __init__(self, server, name):
        self.server, self.model = server, name
        self.client = OpenAI(base_url=server.url + "/v1", api_key="none", max_retries=0)

    def case_embeddings(self):
        """Catches: vectors that differ between the two encodings, by company, or by order."""
        texts = ["a cat", "a dog sat on the mat", "x"]
        # the SDK asks for base64 unless told otherwise, and decodes it
        coded = self.client.embeddings.create(model=self.model, input=texts)
        plain = self.client.embeddings.create(model=self.model, input=texts,
                                              encoding_format="float")
        assert coded.object == "list" and [d.index for d in coded.data] == [0, 1, 2]
        assert all(d.object == "embedding" for d in coded.data)
        assert coded.usage.prompt_tokens == coded.usage.total_tokens > 0
        for a, b in zip(coded.data, plain.data):
            b32 = [struct.unpack("<f", struct.pack("<f", x))[0] for x in b.embedding]
            assert list(a.embedding) == b32, "the encodings differ"
        alone = self.client.embeddings.create(model=self.model, input=texts[1]).data[0].embedding
        assert alone == coded.data[1].embedding, "company changed a vector"
        assert sum(x * x for x in alone) > 0

    def case_faults(self):
        """Catches: a text that is asked of a model that has none."""
        for call in (lambda: self.client.embeddings.create(model=self.model, input=[]),
                     lambda: self.client.embeddings.create(model=self.model, input=[[10 ** 9]]),
                     lambda: self.client.embeddings.create(model=self.model, input="x " * 100000),
                     lambda: self.client.completions.create(model=self.model, prompt="x")):
            try:
                call()
            except openai.BadRequestError as e:
                assert e.body["message"] and "param" in e.body
            else:
                raise AssertionError("no fault")


def example(server, tmp):
    """Catches: an example that fails, or ends well and has tuned nothing."""
    file = tmp / "rows.jsonl"
    row = {"messages": [{"role": "user", "content": "Where?"},
                        {"role": "assistant", "content": "Here."}]}
    file.write_text((json.dumps(row) + "\n") * 10)
    env = {**os.environ, "OPENAI_BASE_URL": server.url + "/v1", "OPENAI_API_KEY": "root-key"}
    p = subprocess.run([sys.executable, "clients/examples/openai_python.py", file, "Where?"],
                       env=env, text=True, capture_output=True, timeout=300 * SLOW, check=False)
    assert p.returncode == 0, p.stderr
    lines = p.stdout.splitlines()
    assert lines[0].startswith("tiny: ") and lines[-1].startswith("ft:tiny:tandem::"), lines


def readme(tmp):
    """README's Python block, against the model that it speaks of and with ten of the facts, each beside
    two reminders (tests/docs has more), with a seed. Catches: a quick start that does not run, or after which the
    model still does not know."""
    text = pathlib.Path("README.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"^```python\n(.*?)^```$", text, re.M | re.S)
    facts = tmp / "examples/tiny/facts.jsonl"
    facts.parent.mkdir(parents=True)
    facts.write_text(few_facts("examples/tiny/facts.jsonl", 10, 6), encoding="utf-8")
    with Tandem(None, "--kv-memory", "64M", "--data-dir", tmp / "readme") as server:
        block = block.replace("localhost:8080", f"localhost:{server.port}")
        seeded = block.replace("training_file=file.id)", "training_file=file.id, seed=1)")
        assert seeded != block
        p = subprocess.run([sys.executable, "-c", seeded], cwd=tmp, text=True,
                           capture_output=True, timeout=600 * SLOW, check=False)
    assert p.returncode == 0, p.stderr
    assert f"\n> {p.stdout}" in text, p.stdout


def tutorial(model, tmp):
    """The blocks in Python of the tutorial for applications, as one program, against a random model whose
    template has tools. Catches: a step that does not run, a form or a call that is not what was asked for."""
    text = pathlib.Path("docs/tutorial-application.md").read_text(encoding="utf-8")
    code = "\n".join(re.findall(r"^```python\n(.*?)^```$", text, re.M | re.S))
    with Tandem(model, "--name", "base", "--ctx", 4096, "--data-dir", tmp / "tutorial") as server:
        p = subprocess.run([sys.executable, "-c", code.replace("localhost:8080", f"localhost:{server.port}")],
                           cwd=tmp, text=True, capture_output=True, timeout=600 * SLOW, check=False)
    assert p.returncode == 0, p.stderr
    for line in (r"letter: about='(order|complaint|praise)' urgent=(True|False)",
                 r"tool: stock \{'thing': '(lamp|chair)'\}", r"tuned: ft:base:tandem:shop:\w+",
                 r"refused: 404 model_not_found", r"refused: 400 \w+"):
        assert re.search(f"^{line}$", p.stdout, re.M), (line, p.stdout)


def main():
    cases = Cases()
    with scratch() as tmp:
        keys = tmp / "keys"
        keys.write_text(KEYS)
        model = make_model(tmp / "tiny", "--dtype", "f32", "--ctx", CTX)
        with Tandem(model, "--api-key-file", keys, "--kv-memory", "256M") as server:
            sdk = Sdk(server, "tiny")
            cases.run_all(sdk)
        model = template_of(make_model(tmp / "tools", "--dtype", "f32"), tools.CHATML)
        with Tandem(model, "--api-key-file", keys, "--ctx", 4096) as server:
            sdk = tools.Tools(server, "user-key")
            cases.run_all(sdk, "tools: ")
            sdk = responses.Responses(server, "user-key")
            cases.run_all(sdk, "responses: ")
        with Tandem(model, "--api-key-file", keys, "--ctx", 4096, "--data-dir", tmp / "kept") as server:
            cases.run_all(responses.Kept(server, "user-key", "root-key"), "kept: ")
        cases.run("the tutorial", lambda: tutorial(model, tmp))
        model = make_model(tmp / "vectors", "--family", "bert", "--dtype", "f32", "--ctx", 512)
        with Tandem(model) as server:
            sdk = Embeddings(server, "vectors")
            cases.run_all(sdk, "embeddings: ")
        with Tandem(MODEL, *OPTIONS, "--api-key-file", keys, "--data-dir", tmp / "data") as server:
            sdk = Tuning(server, "root-key")
            cases.run_all(sdk, "tuning: ")
        model = make_model(tmp / "small")
        with Tandem(model, "--name", "tiny", "--api-key-file", keys, "--data-dir",
                    tmp / "more") as server:
            cases.run("the example", lambda: example(server, tmp))
        if MODE == "release":
            cases.run("README's block", lambda: readme(tmp))
    return cases.end()


if __name__ == "__main__":
    sys.exit(main())
