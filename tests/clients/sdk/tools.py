# SPDX-License-Identifier: Apache-2.0
"""Calls of tools with the official OpenAI SDK, as agents make them: created, parsed, streamed, answered."""
import typing

import openai
import pydantic
from openai import OpenAI

CHATML = ("{% for t in tools or [] %}{{ t | tojson }}{% endfor %}{% for m in messages %}"
          "{{ '<|' + m.role + '|>' + (m.content or '') }}{% for c in m.tool_calls or [] %}"
          "{{ '<tool_call>\n' + c.function | tojson + '\n</tool_call>' }}{% endfor %}{{ '<|end|>' }}"
          "{% endfor %}{% if add_generation_prompt %}{{ '<|assistant|>' }}{% endif %}")
ASK = [{"role": "user", "content": "What is it like in Oslo?"}]


class GetWeather(pydantic.BaseModel):
    """The weather of a place."""
    place: typing.Literal["Oslo", "Bergen"]
    days: int
    is_short: bool


class Tools:
    def __init__(self, server, key):
        self.client = OpenAI(base_url=server.url + "/v1", api_key=key, max_retries=0, timeout=120)
        self.ask = {"model": "tools", "messages": ASK, "max_tokens": 800, "seed": 4, "parallel_tool_calls": False,
                    "tools": [openai.pydantic_function_tool(GetWeather)], "tool_choice": "required"}

    def case_create(self):
        """Catches: a call whose members are not those of the SDK's types; one that cannot be answered."""
        r = self.client.chat.completions.create(**self.ask)
        choice = r.choices[0]
        assert choice.finish_reason == "tool_calls" and choice.message.content is None, r
        call = choice.message.tool_calls[0]
        assert call.type == "function" and call.id and call.function.name == "GetWeather", call
        GetWeather.model_validate_json(call.function.arguments)
        back = [*ASK, choice.message, {"role": "tool", "tool_call_id": call.id, "content": "rain"}]
        r = self.client.chat.completions.create(**{**self.ask, "messages": back, "tool_choice": "none",
                                                   "max_tokens": 5})
        assert r.choices[0].message.tool_calls is None and r.choices[0].message.content is not None, r

    def case_parse(self):
        """Catches: a call that parse() cannot make the caller's object of."""
        r = self.client.chat.completions.parse(**self.ask)
        made = r.choices[0].message.tool_calls[0].function.parsed_arguments
        assert isinstance(made, GetWeather), r

    def case_stream(self):
        """Catches: pieces that the SDK joins to another call than the whole one."""
        whole = self.client.chat.completions.create(**self.ask).choices[0].message.tool_calls[0].function
        with self.client.chat.completions.stream(**self.ask) as events:
            kinds = [e.type for e in events]
            last = events.get_final_completion().choices[0]
        assert kinds.count("tool_calls.function.arguments.delta") > 1, kinds
        assert kinds.count("tool_calls.function.arguments.done") == 1, kinds
        f = last.message.tool_calls[0].function
        assert (f.name, f.arguments) == (whole.name, whole.arguments) and last.finish_reason == "tool_calls"
        assert isinstance(f.parsed_arguments, GetWeather)
        chunks = list(self.client.chat.completions.create(**self.ask, stream=True))
        pieces = [c.choices[0].delta.tool_calls for c in chunks if c.choices[0].delta.tool_calls]
        first = pieces[0][0]
        assert first.id and first.function.name == "GetWeather" and first.function.arguments == "", first
        assert "".join(p[0].function.arguments for p in pieces) == whole.arguments
        assert all(p[0].id is None and p[0].index == 0 for p in pieces[1:])

    def case_refused(self):
        """Catches: a schema that nobody can keep taken for one."""
        tool = {"type": "function", "function": {"name": "f", "strict": True, "parameters": {
            "type": "object", "properties": {"a": {"type": "array", "contains": {}}}}}}
        try:
            self.client.chat.completions.create(**{**self.ask, "tools": [tool]})
        except openai.BadRequestError as e:
            assert e.body["param"] == "tools" and "contains" in e.message, e.body
        else:
            raise AssertionError("it was taken")
