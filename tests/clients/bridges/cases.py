#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What stands between programs and models, instructor and litellm, done to `tandem serve` on a tiny random
model. Run by test_bridges.py. Each case names what it would catch."""
import os
import sys
import typing

os.environ.update(LITELLM_LOCAL_MODEL_COST_MAP="True", LITELLM_TELEMETRY="False")  # nothing is fetched
import instructor  # noqa: E402
import litellm  # noqa: E402
import openai  # noqa: E402
import pydantic  # noqa: E402
from serving import Cases, Tandem, make_model, scratch, template_of  # noqa: E402

litellm.suppress_debug_info = True
CHATML = ("{% for t in tools or [] %}{{ t | tojson }}{% endfor %}{% for m in messages %}"
          "{{ '<|' + m.role + '|>' + (m.content or '') }}{% for c in m.tool_calls or [] %}"
          "{{ '<tool_call>\n' + c.function | tojson + '\n</tool_call>' }}{% endfor %}{{ '<|end|>' }}"
          "{% endfor %}{% if add_generation_prompt %}{{ '<|assistant|>' }}{% endif %}")
ASK = [{"role": "user", "content": "What is it like in Oslo?"}]


class Weather(pydantic.BaseModel):
    """The weather of a place."""
    place: typing.Literal["Oslo", "Bergen"]
    days: int
    is_short: bool


TOOL = {"type": "function", "function": {"name": "weather", "parameters": Weather.model_json_schema()}}


class Instructor:
    def __init__(self, url):
        self.client = openai.OpenAI(base_url=url + "/v1", api_key="x", max_retries=0)

    def made(self, mode, **more):
        client = instructor.from_openai(self.client, mode=mode)
        return client.chat.completions.create(model="tools", messages=ASK, response_model=Weather, max_retries=0,
                                              max_tokens=800, temperature=0.9, seed=4, **more)

    def case_modes(self):
        """Catches: an object that instructor cannot make of a form, or of a call."""
        for mode in (instructor.Mode.JSON_SCHEMA, instructor.Mode.TOOLS):
            assert isinstance(self.made(mode), Weather), mode

    def case_partial(self):
        """Catches: a stream whose pieces come to no object, or to another than the whole."""
        client = instructor.from_openai(self.client, mode=instructor.Mode.JSON_SCHEMA)
        *_, last = client.chat.completions.create_partial(model="tools", messages=ASK, response_model=Weather,
                                                          max_tokens=800, temperature=0.9, seed=4)
        whole = self.made(instructor.Mode.JSON_SCHEMA)
        assert last.model_dump() == whole.model_dump(), (last, whole)


class Litellm:
    def __init__(self, url):
        self.url = url
        self.at = {"api_key": "x", "max_retries": 0, "seed": 4, "temperature": 0.9}

    def chat(self, **more):
        return litellm.completion(model="openai/tools", api_base=self.url + "/v1", messages=ASK,
                                  **{"max_tokens": 800, **self.at, **more})

    def case_chat(self):
        """Catches: a stream that comes to another text, usage that is lost."""
        whole = self.chat(max_tokens=20)
        text = whole.choices[0].message.content
        pieces = [c.choices[0].delta.content or "" for c in self.chat(max_tokens=20, stream=True)]
        assert "".join(pieces) == text and 0 < whole.usage.completion_tokens <= 20, (pieces, whole)

    def case_forms_and_tools(self):
        """Catches: a form or a call that litellm loses on its way, in whole answers and in streams."""
        Weather.model_validate_json(self.chat(response_format=Weather).choices[0].message.content)
        asked = {"tools": [TOOL], "tool_choice": "required", "parallel_tool_calls": False}
        call = self.chat(**asked).choices[0].message.tool_calls[0].function
        Weather.model_validate_json(call.arguments)
        chunks = list(self.chat(stream=True, **asked))
        built = litellm.stream_chunk_builder(chunks).choices[0].message.tool_calls[0].function
        assert (built.name, built.arguments) == (call.name, call.arguments), (built, call)

    def case_other_faces(self):
        """Catches: the shapes of Ollama's and Anthropic's routes that litellm's bridges cannot read."""
        ours = {"max_tokens": 12, "temperature": 0}
        same = self.chat(**ours).choices[0].message.content
        r = litellm.completion(model="ollama_chat/tools", api_base=self.url, messages=ASK, **ours)
        assert r.choices[0].message.content == same, (r, same)
        r = litellm.completion(model="anthropic/tools", api_base=self.url, api_key="x", messages=ASK, **ours)
        assert r.choices[0].message.content == same, (r, same)

    def case_texts_and_faults(self):
        """Catches: a completion that litellm cannot read, a fault that it takes for another."""
        r = litellm.text_completion(model="text-completion-openai/tools", api_base=self.url + "/v1", prompt="Once",
                                    max_tokens=8, api_key="x")
        assert isinstance(r.choices[0].text, str), r
        try:
            self.chat(max_tokens=-3)
        except litellm.BadRequestError as fault:
            assert "max_tokens" in str(fault), fault
            return
        raise AssertionError("it was answered")


def main():
    cases = Cases()
    with scratch() as tmp:
        model = make_model(tmp / "tools", "--dtype", "f32")
        template_of(model, CHATML)
        with Tandem(model, "--ctx", 4096) as server:
            for kind in (Instructor, Litellm):
                cases.run_all(kind(server.url), f"{kind.__name__} ")
    return cases.end()


if __name__ == "__main__":
    sys.exit(main())
