#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What agents do with LangChain, pydantic-ai and OpenAI's Agents SDK, done to `tandem serve` on a tiny random
model. Run by test_frameworks.py. Each case names what it would catch."""
import asyncio
import json
import os
import sys
import typing

import agents
import openai
import pydantic
from langchain_core.messages import HumanMessage, ToolMessage
from langchain_openai import ChatOpenAI
from langchain_openai import OpenAI as TextOpenAI
from pydantic_ai import Agent, NativeOutput, ToolOutput
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
from pydantic_ai.providers.openai import OpenAIProvider
from serving import Cases, Tandem, make_model, scratch, template_of

CHATML = ("{% for t in tools or [] %}{{ t | tojson }}{% endfor %}{% for m in messages %}"
          "{{ '<|' + m.role + '|>' + (m.content or '') }}{% for c in m.tool_calls or [] %}"
          "{{ '<tool_call>\n' + c.function | tojson + '\n</tool_call>' }}{% endfor %}{{ '<|end|>' }}"
          "{% endfor %}{% if add_generation_prompt %}{{ '<|assistant|>' }}{% endif %}")
ASK = "What is it like in Oslo?"


class Weather(pydantic.BaseModel):
    """The weather of a place."""
    place: typing.Literal["Oslo", "Bergen"]
    days: int
    is_short: bool


@agents.function_tool
def get_weather(place: typing.Literal["Oslo", "Bergen"], days: int) -> str:
    """The weather of a place."""
    return f"rain in {place} for {days} days"


class LangChain:
    def __init__(self, url):
        self.at = {"model": "tools", "base_url": url, "api_key": "x", "max_retries": 0}
        self.llm = ChatOpenAI(**self.at, temperature=0.9, max_tokens=800, seed=4)

    def case_invoke(self):
        """Catches: a stream that comes to another text, usage or log-probabilities that are lost."""
        llm = self.llm.bind(max_tokens=20)
        a = llm.invoke(ASK)
        assert "".join(c.content for c in llm.stream(ASK)) == a.content, a
        assert a.usage_metadata["output_tokens"] <= 20 < a.usage_metadata["total_tokens"], a
        a = llm.bind(logprobs=True, top_logprobs=2).invoke(ASK)
        assert a.response_metadata["logprobs"]["content"], a
        assert len(llm.batch(["a", "b", "c"])) == 3

    def case_bind_tools(self):
        """Catches: a call that LangChain cannot read, join of pieces, or send back with its result."""
        llm = self.llm.bind_tools([Weather], tool_choice="any", parallel_tool_calls=False)
        a, whole = llm.invoke(ASK), None
        Weather(**a.tool_calls[0]["args"])
        for chunk in llm.stream(ASK):
            whole = chunk if whole is None else whole + chunk
        assert whole.tool_calls[0]["args"] == a.tool_calls[0]["args"], (whole, a)
        back = [HumanMessage(ASK), a, ToolMessage("rain", tool_call_id=a.tool_calls[0]["id"])]
        assert self.llm.bind(max_tokens=5).invoke(back).usage_metadata["output_tokens"] <= 5

    def case_with_structured_output(self):
        """Catches: a form that the answer is not held to."""
        for method in ("json_schema", "function_calling"):
            made = self.llm.with_structured_output(Weather, method=method).invoke(ASK)
            assert isinstance(made, Weather), (method, made)
        raw = self.llm.with_structured_output(Weather, method="json_mode", include_raw=True).invoke("JSON: " + ASK)
        assert isinstance(json.loads(raw["raw"].content), dict), raw

    def case_responses(self):
        """Catches: events of /v1/responses that LangChain cannot read."""
        llm = ChatOpenAI(**self.at, use_responses_api=True, max_tokens=800, extra_body={"seed": 4})
        assert llm.bind(max_output_tokens=20).invoke(ASK).response_metadata["object"] == "response"
        a = llm.bind_tools([Weather], tool_choice="any", parallel_tool_calls=False).invoke(ASK)
        Weather(**a.tool_calls[0]["args"])
        assert sum(1 for _ in llm.stream(ASK)) > 1

    def case_text(self):
        """Catches: a completion that LangChain cannot read."""
        assert isinstance(TextOpenAI(**self.at, max_tokens=8).invoke("Once"), str)


class PydanticAi:
    def __init__(self, url):
        self.url = url

    def each(self, ask):
        """Of both ways of asking, what `ask` comes to with a model; its client lives as long as the loop."""
        async def go():
            async with openai.AsyncOpenAI(base_url=self.url, api_key="x", max_retries=0) as client:
                provider = OpenAIProvider(openai_client=client)
                for kind in (OpenAIChatModel, OpenAIResponsesModel):
                    await ask(kind("tools", provider=provider))
        asyncio.run(go())

    def case_outputs(self):
        """Catches: an output that pydantic-ai cannot make of an answer, by a form or by a call."""
        async def ask(model):
            for kind in (NativeOutput, ToolOutput):
                settings = {"max_tokens": 800, "parallel_tool_calls": False, "extra_body": {"seed": 4}}
                made = await Agent(model, output_type=kind(Weather)).run(ASK, model_settings=settings)
                assert isinstance(made.output, Weather), (model, kind, made)
        self.each(ask)

    def case_texts(self):
        """Catches: a stream that comes to another text."""
        settings = {"max_tokens": 20, "temperature": 0.9, "extra_body": {"seed": 4}}

        async def ask(model):
            whole = await Agent(model).run(ASK, model_settings=settings)
            async with Agent(model).run_stream(ASK, model_settings=settings) as r:
                text = "".join([t async for t in r.stream_text(delta=True)])
            assert text == whole.output and whole.usage.output_tokens <= 20, (model, text, whole)
        self.each(ask)


class Agents:
    """With its default, /v1/responses; an answer that is cut is a fault there, so none has a limit."""

    def __init__(self, url):
        self.url = url
        agents.set_tracing_disabled(True)

    def agent(self, name="one", **more):
        settings = {"extra_body": {"seed": 4}, **more.pop("settings", {})}
        return agents.Agent(name=name, model="tools", model_settings=agents.ModelSettings(**settings), **more)

    def run(self, agent, events=None):
        """The result; the kinds of its events are added to a list that is given."""
        async def go():
            async with openai.AsyncOpenAI(base_url=self.url, api_key="x", max_retries=0) as client:
                agents.set_default_openai_client(client, use_for_tracing=False)
                if events is None:
                    return await agents.Runner.run(agent, ASK)
                r = agents.Runner.run_streamed(agent, ASK)
                events.extend([e.type async for e in r.stream_events()])
                return r
        return asyncio.run(go())

    def case_text(self):
        """Catches: a response, or its events, that the SDK cannot read."""
        one, kinds = self.agent(instructions="Be brief."), []
        whole = self.run(one).final_output
        text = self.run(one, kinds).final_output
        assert text == whole and kinds.count("raw_response_event") > 2, (kinds, text, whole)

    def case_typed(self):
        """Catches: a form that the answer is not held to."""
        made = self.run(self.agent(output_type=Weather)).final_output
        assert isinstance(made, Weather), made

    def case_tools(self):
        """Catches: a call that is not run, a result that is not taken back."""
        must = {"tool_choice": "required", "parallel_tool_calls": False}
        r = self.run(self.agent(tools=[get_weather], settings=must))
        kinds = [type(i).__name__ for i in r.new_items]
        assert kinds[:2] == ["ToolCallItem", "ToolCallOutputItem"], kinds
        r = self.run(self.agent(handoffs=[self.agent("two")], settings=must))
        assert r.last_agent.name == "two", r


def main():
    cases = Cases()
    os.environ.update(LANGSMITH_TRACING="false", OPENAI_API_KEY="x")
    with scratch() as tmp:
        model = make_model(tmp / "tools", "--dtype", "f32")
        template_of(model, CHATML)
        with Tandem(model, "--ctx", 4096, "--data-dir", tmp / "data") as server:
            for kind in (LangChain, PydanticAi, Agents):
                framework = kind(server.url + "/v1")
                cases.run_all(framework, f"{kind.__name__} ")
    return cases.end()


if __name__ == "__main__":
    sys.exit(main())
