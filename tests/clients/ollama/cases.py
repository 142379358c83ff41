#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What programs do with Ollama's client for Python, done to `tandem serve` on tiny random models. Run by
test_ollama.py. Each case names what it would catch."""
import asyncio
import json
import pathlib
import shutil
import sys

import ollama
from serving import Cases, Tandem, make_model, scratch, template_of

GOLDEN = pathlib.Path(__file__).resolve().parents[2] / "golden"
CHATML = ("{% for t in tools or [] %}{{ t | tojson }}{% endfor %}{% for m in messages %}"
          "{{ '<|' + m.role + '|>' + (m.content or '') }}{% for c in m.tool_calls or [] %}"
          "{{ '<tool_call>\n' + c.function | tojson + '\n</tool_call>' }}{% endfor %}{{ '<|end|>' }}"
          "{% endfor %}{% if add_generation_prompt %}{{ '<|assistant|>' }}{% endif %}")
KEYS = "user inference user-key\ntrainer training train-key\n"
ASK = [{"role": "user", "content": "What is it like in Oslo?"}]
OPTIONS = {"temperature": 0.9, "seed": 7, "num_predict": 30, "num_ctx": 2048}


def get_weather(place: str, days: int = 1) -> str:
    """The weather of a place.

    Args:
        place: Where.
        days: How many.
    """
    return f"rain in {place} for {days} days"


class Client:
    def __init__(self, server):
        self.server = server
        self.client = self.of("user-key")

    def of(self, key):
        return ollama.Client(host=self.server.url, headers={"Authorization": f"Bearer {key}"}, timeout=120)

    def case_chat(self):
        """Catches: an answer that the client cannot read, a stream that comes to another."""
        whole = self.client.chat("tools", messages=ASK, options=OPTIONS)
        assert whole.done and whole.done_reason in ("stop", "length") and whole.eval_count <= 30, whole
        assert whole.total_duration > 0 and whole.message.role == "assistant", whole
        parts = list(self.client.chat("tools:latest", messages=ASK, options=OPTIONS, stream=True))
        assert "".join(p.message.content for p in parts) == whole.message.content, parts
        assert [p.done for p in parts] == [False] * (len(parts) - 1) + [True], parts
        assert parts[-1].eval_count == whole.eval_count, parts[-1]

    def case_generate(self):
        """Catches: the same of /api/generate, with a system and raw."""
        whole = self.client.generate("tools", "Hello", system="Be brief.", options=OPTIONS)
        parts = list(self.client.generate("tools", "Hello", system="Be brief.", options=OPTIONS, stream=True))
        assert "".join(p.response for p in parts) == whole.response, (parts, whole)
        assert self.client.generate("tools", "Hello", raw=True, options=OPTIONS).done

    def case_tools(self):
        """Catches: tools as the client makes them of functions, refused; calls and results that it cannot send
        back as they came."""
        m = self.client.chat("tools", messages=ASK, tools=[get_weather], options={**OPTIONS, "num_predict": 200})
        assert m.done, m
        call = ollama.Message.ToolCall(function=ollama.Message.ToolCall.Function(
            name="get_weather", arguments={"place": "Oslo", "days": 2}))
        back = [*ASK, ollama.Message(role="assistant", content="", tool_calls=[call]),
                {"role": "tool", "content": get_weather("Oslo", 2), "tool_name": "get_weather"}]
        assert self.client.chat("tools", messages=back, tools=[get_weather], options=OPTIONS).done

    def case_format(self):
        """Catches: a schema that the text is not held to."""
        schema = {"type": "object", "properties": {"mood": {"enum": ["good", "bad"]}}, "required": ["mood"],
                  "additionalProperties": False}
        m = self.client.chat("tools", messages=ASK, format=schema, options={**OPTIONS, "num_predict": 400})
        assert json.loads(m.message.content)["mood"] in ("good", "bad"), m

    def case_models(self):
        """Catches: lists that the client cannot read."""
        m, = self.client.list().models
        assert m.model == "tools:latest" and m.size > 0 and m.details.family == "llama", m
        assert m.modified_at.year > 2000, m
        shown = self.client.show(m.model)
        assert "completion" in shown.capabilities and shown.modelinfo["general.architecture"] == "llama", shown
        running, = self.client.ps().models
        assert running.model == m.model and running.context_length == 4096, running

    def case_faults(self):
        """Catches: a fault whose reason the client loses."""
        def fails(status, what, ask):
            try:
                ask()
            except ollama.ResponseError as e:
                assert e.status_code == status and what in e.error, e
                return
            raise AssertionError(f"nothing was raised that says {what}")
        c = self.client
        fails(404, "No model", lambda: c.chat("nobody", messages=ASK))
        fails(404, "No model", lambda: list(c.chat("nobody", messages=ASK, stream=True)))
        fails(400, "temperature", lambda: c.chat("tools", messages=ASK, options={"temperature": 7}))
        fails(400, "images", lambda: c.chat("tools", messages=[{**ASK[0], "images": [b"\x89PNG"]}]))
        fails(404, "tandem pull", lambda: c.pull("llama3"))
        fails(404, "/v1/models", lambda: c.delete("tools"))
        fails(401, "key", lambda: self.of("nobody").chat("tools", messages=ASK))
        fails(403, "", lambda: self.of("train-key").chat("tools", messages=ASK))

    def case_many(self):
        """Catches: texts that depend on who else asks."""
        alone = self.client.chat("tools", messages=ASK, options=OPTIONS).message

        async def go():
            c = ollama.AsyncClient(host=self.server.url, headers={"Authorization": "Bearer user-key"})
            return await asyncio.gather(*(c.chat("tools", messages=ASK, options=OPTIONS) for _ in range(16)))
        assert all(m.message == alone for m in asyncio.run(go()))


def vectors(tmp):
    """Catches: vectors that the client cannot read."""
    folder = tmp / "bge_m3"
    shutil.copytree(GOLDEN / "encoder" / "bge_m3", folder)
    shutil.copy(GOLDEN / "tokenizer" / "xlmr.json", folder / "tokenizer.json")
    with Tandem(folder, "--name", "tiny") as s:
        c = ollama.Client(host=s.url)
        many = c.embed("tiny", ["a b c", "d e"])
        assert len(many.embeddings) == 2 and many.prompt_eval_count > 0, many
        assert list(c.embeddings("tiny", "d e").embedding) == list(many.embeddings[1])


def main():
    cases = Cases()
    with scratch() as tmp:
        keys, model = tmp / "keys", make_model(tmp / "tools", "--dtype", "f32")
        keys.write_text(KEYS)
        template_of(model, CHATML)
        with Tandem(model, "--api-key-file", keys, "--ctx", 4096) as server:
            client = Client(server)
            cases.run_all(client)
        cases.run("vectors", lambda: vectors(tmp))
    return cases.end()


if __name__ == "__main__":
    sys.exit(main())
