# SPDX-License-Identifier: Apache-2.0
"""/v1/responses with the official OpenAI SDK, as agents ask it: created, parsed, streamed, with tools."""
import typing

import openai
import pydantic
from openai import OpenAI

ASK = "What is it like in Oslo?"


class GetWeather(pydantic.BaseModel):
    """The weather of a place."""
    place: typing.Literal["Oslo", "Bergen"]
    days: int


class Kept:
    """On a server with a data directory."""

    def __init__(self, server, key, other):
        self.client = OpenAI(base_url=server.url + "/v1", api_key=key, max_retries=0, timeout=120)
        self.other = self.client.with_options(api_key=other)
        self.ask = {"model": "tools", "max_output_tokens": 12, "extra_body": {"seed": 4}}

    def case_goes_on(self):
        """Catches: a response that cannot be shown, gone on from or deleted; one that another key sees."""
        create = self.client.responses.create
        one = create(**self.ask, input=ASK)
        two = create(**self.ask, input="And now?", previous_response_id=one.id)
        assert two.previous_response_id == one.id and two.usage.input_tokens > one.usage.input_tokens, two
        assert self.client.responses.retrieve(one.id) == one
        items = list(self.client.responses.input_items.list(one.id))
        assert [(i.type, i.role, i.content[0].text) for i in items] == [("message", "user", ASK)], items
        for ask in (self.other.responses.retrieve, self.other.responses.delete, self.other.responses.cancel):
            try:
                ask(one.id)
            except openai.NotFoundError:
                continue
            raise AssertionError(f"{ask} found another key's")
        self.client.responses.delete(one.id)
        for ask, kind in ((lambda: self.client.responses.retrieve(one.id), openai.NotFoundError),
                          (lambda: create(**self.ask, input="x", previous_response_id=two.id), openai.BadRequestError),
                          (lambda: self.client.responses.cancel(two.id), openai.BadRequestError)):
            try:
                ask()
            except kind:
                continue
            raise AssertionError("it was taken")


    def case_chats(self):
        """Catches: a kept chat that cannot be listed, shown, marked or deleted; one that another key sees."""
        chats = self.client.chat.completions
        ask = {"model": "tools", "max_tokens": 6, "messages": [{"role": "user", "content": ASK}], "store": True}
        made = [chats.create(**ask, metadata={"run": "sdk", "i": str(i)}, seed=i) for i in range(3)]
        with chats.create(**ask, metadata={"run": "sdk", "i": "s"}, stream=True) as stream:
            ids = {chunk.id for chunk in stream}
        listed = list(chats.list(metadata={"run": "sdk"}, limit=2))
        assert [c.id for c in listed] == [c.id for c in made] + list(ids), listed
        for told, kept in zip(made, listed):
            assert kept.choices == told.choices and kept.usage == told.usage and kept.metadata["run"] == "sdk", (told, kept)
            assert chats.retrieve(told.id) == kept
        assert [c.id for c in chats.list(metadata={"run": "sdk", "i": "1"}, order="desc", model="tools")] == [made[1].id]
        message, = chats.messages.list(made[0].id)
        assert (message.id, message.role, message.content) == (made[0].id + "-0", "user", ASK), message
        assert chats.update(made[0].id, metadata={"x": "y"}).metadata == {"x": "y"} == chats.retrieve(made[0].id).metadata
        others = self.other.chat.completions
        assert not list(others.list())
        for call in (others.retrieve, others.delete, lambda i: others.update(i, metadata={}), lambda i: list(others.messages.list(i))):
            try:
                call(made[0].id)
            except openai.NotFoundError:
                continue
            raise AssertionError(f"{call} found another key's")
        assert chats.delete(made[0].id).deleted and made[0].id not in [c.id for c in chats.list()]

    def case_logprobs(self):
        """Catches: log-probabilities that the SDK cannot read, or that a stream has otherwise."""
        ask = {**self.ask, "input": ASK, "include": ["message.output_text.logprobs"], "top_logprobs": 3}
        part = self.client.responses.create(**ask).output[0].content[0]
        assert part.logprobs and "".join(x.token for x in part.logprobs), part
        for x in part.logprobs:
            assert bytes(x.bytes) and x.logprob <= 0 and len(x.top_logprobs) == 3, x
        told, done = [], None
        with self.client.responses.stream(**ask) as stream:
            for event in stream:
                told += event.logprobs if event.type == "response.output_text.delta" else []
                done = event.logprobs if event.type == "response.output_text.done" else done
        assert [(x.token, x.logprob) for x in told] == [(x.token, x.logprob) for x in done], (told, done)
        assert [(x.token, x.logprob) for x in done] == [(x.token, x.logprob) for x in part.logprobs], (done, part)


class Responses:
    """On a model whose template shows tools."""

    def __init__(self, server, key):
        self.client = OpenAI(base_url=server.url + "/v1", api_key=key, max_retries=0, timeout=120)
        self.ask = {"model": "tools", "input": ASK, "max_output_tokens": 30, "extra_body": {"seed": 4}}
        self.called = {**self.ask, "max_output_tokens": 800, "tools": [openai.pydantic_function_tool(GetWeather)["function"]],
                       "tool_choice": "required", "parallel_tool_calls": False}
        for t in self.called["tools"]:
            t["type"] = "function"

    def case_create(self):
        """Catches: an answer that lacks what the SDK's types want, or has another text than a chat."""
        r = self.client.responses.create(**self.ask, instructions="Be brief.", metadata={"a": "b"}, temperature=0.9)
        c = self.client.chat.completions.create(model="tools", max_tokens=30, seed=4, temperature=0.9, messages=[
            {"role": "system", "content": "Be brief."}, {"role": "user", "content": ASK}])
        assert r.output_text == c.choices[0].message.content, (r, c)
        assert r.object == "response" and r.status in ("completed", "incomplete") and r.metadata == {"a": "b"}, r
        assert r.usage.total_tokens == c.usage.total_tokens and r.output[0].type == "message", r

    def case_stream(self):
        """Catches: events that the SDK joins to another response than the whole one."""
        whole = self.client.responses.create(**self.ask)
        form = {**self.ask, "max_output_tokens": 800, "text_format": GetWeather}  # one that comes to its end
        with self.client.responses.stream(**form) as events:
            kinds = [e.type for e in events]
            last = events.get_final_response()
        assert isinstance(last.output_parsed, GetWeather), last
        assert last.output_text == self.client.responses.parse(**form).output_text
        assert kinds[0] == "response.created" and kinds[-1] == "response.completed", kinds
        raw = list(self.client.responses.create(**self.ask, stream=True))
        assert [e.sequence_number for e in raw] == list(range(len(raw))), raw
        assert "".join(e.delta for e in raw if e.type == "response.output_text.delta") == whole.output_text

    def case_tools(self):
        """Catches: a call that an agent cannot answer."""
        r = self.client.responses.create(**self.called)
        call, = r.output
        assert call.type == "function_call" and call.name == "GetWeather" and call.call_id, r
        GetWeather.model_validate_json(call.arguments)
        with self.client.responses.stream(**self.called) as events:
            done = [e.arguments for e in events if e.type == "response.function_call_arguments.done"]
            last = events.get_final_response().output[0]
        assert done == [call.arguments] and last.arguments == call.arguments, (done, call)
        back = [{"role": "user", "content": ASK}, *r.output,
                {"type": "function_call_output", "call_id": call.call_id, "output": "rain"}]
        r = self.client.responses.create(**{**self.called, "input": back, "tool_choice": "none", "max_output_tokens": 5})
        assert r.output[0].type == "message", r

    def case_parse(self):
        """Catches: a form that parse() cannot make the caller's object of."""
        r = self.client.responses.parse(**{**self.ask, "max_output_tokens": 800}, text_format=GetWeather)
        assert isinstance(r.output_parsed, GetWeather), r

    def case_faults(self):
        """Catches: a fault that is not the SDK's class for it."""
        for kind, more in ((openai.BadRequestError, {"temperature": 7}), (openai.NotFoundError, {"model": "nobody"}),
                           (openai.BadRequestError, {"tools": [{"type": "web_search"}]})):
            try:
                self.client.responses.create(**{**self.ask, **more})
            except kind as e:
                assert e.body["message"] and e.body["param"].startswith(next(iter(more))), e.body
            else:
                raise AssertionError(f"{more} was taken")
