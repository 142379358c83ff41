# SPDX-License-Identifier: Apache-2.0
"""Talks that branch, two models beside each other, and what an answer may hold: Markdown, thoughts,
calls of tools."""
import json

from chat import said, user
from page import answer, ask, choose, says
from playwright.sync_api import expect

MARKDOWN = """# One

Some **bold**, *soft* and `code`, [a link](https://example.org/) and [none](javascript:alert(1)).

- first
  - inner
- second

> quoted

| a | b |
|---|---|
| 1 | 2 |

```python
def f(x):
    return x * 2
```

<img src=x onerror="window.hacked=1">"""


def branches(w):
    """An edited question that takes what was there away, or that is asked with what stood behind it; an
    answer made anew in place of the old one; a branch that cannot be gone back to, or not by keyboard."""
    with w.page() as p:
        choose(p, seed=4, max_tokens=12)
        first = ask_and_hear(p, "First?")
        ask_and_hear(p, "Second?")
        p.locator(".message.user").first.get_by_role("button", name="Edit").click()
        p.locator(".editor textarea").fill("Another first?")
        p.keyboard.press("Enter")
        expect(p.locator(".message.user")).to_have_count(1)
        got = answer(p)
        wanted = said(w.server, [user("Another first?")], seed=4, max_tokens=12)
        assert got == wanted["message"]["content"], (got, wanted)
        before = p.locator(".message.user").get_by_role("button", name="Branch before")
        expect(p.locator(".message.user .branches")).to_contain_text("2 of 2")
        before.focus()
        p.keyboard.press("Enter")
        expect(p.locator(".message.user")).to_have_count(2)
        assert answer(p, 0) == first
        expect(p.locator(".message.user").first.get_by_role("button", name="Next branch")).to_be_focused()
        choose(p, seed=5)
        p.get_by_role("button", name="Again").click()
        expect(p.locator(".message.assistant .branches")).to_contain_text("2 of 2")
        p.reload()
        expect(p.locator(".branches")).to_have_count(2)
        p.locator("#prompt").focus()
        p.keyboard.press("ArrowUp")
        expect(p.locator(".editor textarea")).to_have_value("Second?")
        p.keyboard.press("Escape")
        expect(p.locator(".editor")).to_have_count(0)


def ask_and_hear(p, text):
    n = p.locator(".message.assistant").count()
    ask(p, text)
    expect(p.locator(".message.assistant")).to_have_count(n + 1)
    return answer(p)


def beside(w):
    """Two answers of which one is the other's, or a second question that a model is told the other's
    words with."""
    with w.page() as p:
        choose(p, seed=4, max_tokens=12)
        p.locator("#rival").select_option("tiny")
        ask(p, "First?")
        expect(p.locator(".two .message.assistant")).to_have_count(2)
        first = [answer(p, 0), answer(p, 1)]
        assert first[0] == first[1] == said(w.server, [user("First?")], seed=4,
                                            max_tokens=12)["message"]["content"], first
    before, asked = says(*[[{"content": c}] for c in ("left", "right", "l", "r")])
    with w.page(before=before) as p:
        p.locator("#rival").select_option("tiny")
        for n, text in ((2, "First?"), (4, "Second?")):
            ask(p, text)
            expect(p.locator(".two .message.assistant footer")).to_have_count(n)
        told = [[m["content"] for m in a["messages"]] for a in asked[2:]]
        assert sorted(told) == [["First?", "left", "Second?"], ["First?", "right", "Second?"]], told


def formatted(w):
    """Markdown shown as its marks, or as markup; tokens that are lost in it; a link to a script; code that
    cannot be copied as it is."""
    before, _ = says([{"content": part} for part in (MARKDOWN[:40], MARKDOWN[40:])])
    with w.page(before=before, plain=False) as p:
        ask(p, "Hello")
        answer(p)
        text = p.locator(".message.assistant .text")
        for place, wanted in (("h4", "One"), ("strong", "bold"), ("em", "soft"), ("p > code", "code"),
                              ("li li", "inner"), ("blockquote", "quoted"), ("td >> nth=1", "2")):
            expect(text.locator(place)).to_have_text(wanted)
        assert [a.get_attribute("href") for a in text.locator("a").all()] == ["https://example.org/"]
        expect(text).to_contain_text("<img src=x")
        assert p.evaluate("window.hacked") is None
        text.get_by_role("button", name="Copy").click()
        expect(p.locator("#notice")).to_have_text("Code copied")
        assert p.evaluate("navigator.clipboard.readText()") == "def f(x):\n    return x * 2"
        p.locator("#markdown").uncheck()
        assert answer(p) == MARKDOWN
    with w.page(plain=False) as p:  # of tokens too: each shown once, in their order
        choose(p, seed=11, max_tokens=40)
        ask(p, "Tell me")
        got = answer(p)
        assert p.locator(".token").count() > 0
        shown = "".join(p.locator(".token").all_text_contents())
        assert shown.split() == got.split(), (shown, got)


def called(w):
    """Thoughts among the answer's words; a call that is not shown, or whose result goes to nobody."""
    tool = [{"type": "function", "function": {"name": "weather", "parameters": {"type": "object"}}}]
    call = {"index": 0, "id": "call-1", "type": "function",
            "function": {"name": "weather", "arguments": '{"city": '}}
    before, asked = says([{"reasoning_content": "Let me look."}, {"tool_calls": [call]},
                          {"tool_calls": [{"index": 0, "function": {"arguments": '"Bern"}'}}]}],
                         [{"content": "It rains."}])
    with w.page(before=before) as p:
        p.get_by_text("Tools", exact=True).click()
        p.locator("#tools").fill("[")
        ask(p, "Rain?")
        expect(p.locator("#messages .fault")).to_contain_text("Tools are no JSON")
        expect(p.locator("#prompt")).to_have_value("Rain?")
        p.locator("#tools").fill(json.dumps(tool))
        expect(p.locator("#rival")).to_be_disabled()
        p.locator("#prompt").press("Enter")
        expect(p.locator(".fold code")).to_have_text("weather")
        expect(p.locator(".fold pre").first).to_be_hidden()
        p.get_by_text("Thoughts", exact=True).click()
        expect(p.locator(".fold pre").first).to_have_text("Let me look.")
        p.get_by_label("Result of weather").fill("wet")
        p.get_by_role("button", name="Give to the model").click()
        expect(p.locator(".message.assistant")).to_have_count(2)
        assert answer(p) == "It rains."
        assert asked[0]["tools"] == tool
        _, said_it, result = asked[1]["messages"]
        assert said_it["tool_calls"][0]["function"] == {"name": "weather", "arguments": '{"city": "Bern"}'}
        assert result == {"role": "tool", "content": "wet", "tool_call_id": "call-1"}, result


def examples(w):
    """An empty page that says nothing of what may be asked."""
    with w.page() as p:
        choose(p, max_tokens=4)
        first = p.locator(".examples button").first
        text = first.text_content()
        first.click()
        assert answer(p)
        expect(p.locator(".message.user .text")).to_have_text(text)


CASES = (branches, beside, formatted, called, examples)
