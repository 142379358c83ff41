#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What agents do with the official Anthropic SDK, done to `tandem serve` on tiny random models. Run by
test_anthropic.py. Each case names what it would catch."""
import asyncio
import json
import sys

import anthropic
from anthropic import Anthropic, AsyncAnthropic
from serving import Cases, Tandem, make_model, scratch, template_of

CHATML = ("{% for t in tools or [] %}{{ t | tojson }}{% endfor %}{% for m in messages %}"
          "{{ '<|' + m.role + '|>' + (m.content or '') }}{% for c in m.tool_calls or [] %}"
          "{{ '<tool_call>\n' + c.function | tojson + '\n</tool_call>' }}{% endfor %}{{ '<|end|>' }}"
          "{% endfor %}{% if add_generation_prompt %}{{ '<|assistant|>' }}{% endif %}")
KEYS = "user inference user-key\ntrainer training train-key\n"
ASK = [{"role": "user", "content": "What is it like in Oslo?"}]
WEATHER = {"name": "get_weather", "description": "The weather of a place.", "input_schema": {
    "type": "object", "properties": {"place": {"enum": ["Oslo", "Bergen"]}, "days": {"type": "integer"}},
    "required": ["place", "days"], "additionalProperties": False}}


class Sdk:
    def __init__(self, server):
        self.server = server
        self.client = Anthropic(base_url=server.url, api_key="user-key", max_retries=0, timeout=120)
        self.ask = {"model": "tools", "max_tokens": 30, "messages": ASK,
                    "extra_body": {"temperature": 0.9, "seed": 7}}
        self.called = {**self.ask, "max_tokens": 800, "tools": [WEATHER],
                       "tool_choice": {"type": "tool", "name": "get_weather", "disable_parallel_tool_use": True}}

    def case_create(self):
        """Catches: an answer that lacks what the SDK's types want."""
        m = self.client.messages.create(**self.ask, system="Be brief.", metadata={"user_id": "u"})
        assert m.type == "message" and m.role == "assistant" and m.model == "tools", m
        assert all(b.type == "text" for b in m.content), m
        assert m.stop_reason in ("end_turn", "max_tokens") and m.usage.output_tokens <= 30, m
        assert m.usage.input_tokens > 0 and m.usage.cache_creation_input_tokens == 0, m

    def case_stream(self):
        """Catches: events that the SDK joins to another message than the whole one."""
        whole = self.client.messages.create(**self.ask)
        with self.client.messages.stream(**self.ask) as s:
            text = "".join(s.text_stream)
            last = s.get_final_message()
        assert text == "".join(b.text for b in whole.content) == "".join(b.text for b in last.content)
        assert (last.stop_reason, last.usage.output_tokens) == (whole.stop_reason, whole.usage.output_tokens)
        raw = [e.type for e in self.client.messages.create(**self.ask, stream=True)]
        assert raw[0] == "message_start" and raw[-1] == "message_stop" and "content_block_delta" in raw, raw

    def case_tools(self):
        """Catches: a call that an agent cannot answer, a stream that loses its arguments."""
        m = self.client.messages.create(**self.called)
        assert m.stop_reason == "tool_use", m
        call, = m.content
        assert call.type == "tool_use" and call.name == "get_weather" and call.input["place"] in ("Oslo", "Bergen"), call
        with self.client.messages.stream(**self.called) as s:
            pieces = [e.partial_json for e in s if e.type == "input_json"]
            last = s.get_final_message()
        assert json.loads("".join(pieces)) == call.input == last.content[0].input, (pieces, call)
        back = [*ASK, {"role": "assistant", "content": m.content},
                {"role": "user", "content": [{"type": "tool_result", "tool_use_id": call.id, "content": "rain"}]}]
        m = self.client.messages.create(**{**self.called, "messages": back, "tool_choice": {"type": "none"}})
        assert all(b.type == "text" for b in m.content), m

    def case_count(self):
        """Catches: a count that is not what the same message counts."""
        n = self.client.messages.count_tokens(model="tools", messages=ASK, system="Be brief.", tools=[WEATHER])
        m = self.client.messages.create(**{**self.ask, "max_tokens": 1}, system="Be brief.", tools=[WEATHER])
        assert n.input_tokens == m.usage.input_tokens + (m.usage.cache_read_input_tokens or 0), (n, m)

    def case_faults(self):
        """Catches: a fault that is not the SDK's class for it."""
        def fails(kind, client=self.client, **more):
            try:
                client.messages.create(**{**self.ask, **more})
            except kind as e:
                assert e.body["type"] == "error" and e.body["error"]["message"], e.body
                return e
            raise AssertionError(f"no {kind.__name__}")
        assert "temperature" in str(fails(anthropic.BadRequestError, extra_body={"temperature": 7}))
        assert "image" in str(fails(anthropic.BadRequestError, messages=[{"role": "user", "content": [
            {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aaaa"}}]}]))
        fails(anthropic.NotFoundError, model="nobody")
        fails(anthropic.AuthenticationError, client=self.client.with_options(api_key="nobody"))
        fails(anthropic.PermissionDeniedError, client=self.client.with_options(api_key="train-key"))

    def case_bearer(self):
        """Catches: a key that is taken by one name alone."""
        client = Anthropic(base_url=self.server.url, auth_token="user-key", api_key=None, max_retries=0)
        assert client.messages.create(**self.ask).type == "message"

    def case_many(self):
        """Catches: texts that depend on who else asks."""
        alone = self.client.messages.create(**self.ask).content

        async def go():
            async with AsyncAnthropic(base_url=self.server.url, api_key="user-key", max_retries=0) as c:
                return await asyncio.gather(*(c.messages.create(**self.ask) for _ in range(16)))
        assert all(m.content == alone for m in asyncio.run(go()))


def main():
    cases = Cases()
    with scratch() as tmp:
        keys, model = tmp / "keys", make_model(tmp / "tools", "--dtype", "f32")
        keys.write_text(KEYS)
        template_of(model, CHATML)
        with Tandem(model, "--api-key-file", keys, "--ctx", 4096) as server:
            sdk = Sdk(server)
            cases.run_all(sdk)
    return cases.end()


if __name__ == "__main__":
    sys.exit(main())
