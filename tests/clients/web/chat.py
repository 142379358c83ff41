# SPDX-License-Identifier: Apache-2.0
"""The playground: what is streamed is what the API says, what is stopped ends, what fails is said."""
import json
import math
import subprocess
import time

from page import REFUSED, answer, ask, choose, endless, wide_token
from playwright.sync_api import expect
from serving import SLOW

PATH = "/v1/chat/completions"
AWKWARD = "it's \"quoted\" $HOME `x` \\ <b>bold</b> ü"


def said(server, messages, **more):
    r = server.post(PATH, {"model": "tiny", "messages": messages, "temperature": 1, "top_p": 1,
                           **more})
    assert r.status == 200, r
    return r.json["choices"][0]


def user(text):
    return {"role": "user", "content": text}


def assistant(text):
    return {"role": "assistant", "content": text}


def idle(server):
    """Until nothing runs; the browser's connections stay open."""
    end = time.monotonic() + 60 * SLOW
    while server.metrics()["tandem_requests_running"]:
        assert time.monotonic() < end, "a stream that was stopped still runs"
        time.sleep(0.02)


def streamed(w):
    """Text that is lost, doubled or cut among tokens; a history or setting that is not sent."""
    for probabilities in (True, False):
        with w.page() as p:
            p.locator("#logprobs").set_checked(probabilities)
            choose(p, seed=11, max_tokens=60, system="Be brief.")
            p.locator("#temperature").focus()
            p.keyboard.press("Home")
            messages = [{"role": "system", "content": "Be brief."}]
            for text in (AWKWARD, "And then?"):
                ask(p, text)
                messages.append(user(text))
                expect(p.locator(".message.assistant")).to_have_count(len(messages) // 2)
                wanted = said(w.server, messages, seed=11, max_tokens=60, temperature=0)
                got = answer(p)
                assert got == wanted["message"]["content"], (got, wanted)
                messages.append(assistant(got))
            shown = p.locator(".message.user .text").evaluate_all("l => l.map(e => e.textContent)")
            assert shown == [AWKWARD, "And then?"], shown
            assert (p.locator(".token").count() > 0) == probabilities
            expect(p.locator("footer .hint").last).to_contain_text("60 tokens")
            expect(p.locator("footer .hint").last).to_contain_text("reached max tokens")


def stopped(w):
    """A stop that only looks like one: the server goes on, or the page takes no more questions."""
    with w.page(before=endless) as p:
        ask(p, "Go on and on")
        expect(p.locator(".token").nth(5)).to_be_attached()
        p.get_by_role("button", name="Stop").click()
        expect(p.locator("footer .hint")).to_have_text("stopped")
        kept = answer(p)
        assert kept
        idle(w.server)
        assert p.locator(".message .text").last.evaluate("e => e.textContent") == kept
        choose(p, max_tokens=5)
        ask(p, "And now?")
        expect(p.locator(".message.assistant")).to_have_count(2)
        assert answer(p)


def refused(w):
    """An error that is swallowed or reworded, and a question that is lost with it."""
    asked = {"model": "tiny", "messages": [user("Hello")], "max_tokens": 10 ** 7}
    error = w.server.post(PATH, asked).error
    with w.page(allow=REFUSED) as p:
        choose(p, max_tokens=10 ** 7)
        ask(p, "Hello")
        fault = p.locator("#messages .fault")
        expect(fault.locator("p").first).to_have_text(error["message"])
        for part in ("400", error["type"], error["param"]):
            expect(fault).to_contain_text(part)
        expect(p.locator(".message")).to_have_count(0)
        expect(p.locator("#prompt")).to_have_value("Hello")
        choose(p, max_tokens=4)
        p.get_by_role("button", name="Send").click()
        assert answer(p)
        expect(p.locator(".fault")).to_have_count(0)


def percent(logprob):
    x = math.exp(logprob)
    if 0 < x < 0.0005:
        return "<0.1%"
    return f"{100 * x:.1f}%" if x < 0.0995 else f"{100 * x:.0f}%"


WHITE = str.maketrans({" ": "␣", "\n": "↵", "\t": "⇥"})


def probabilities(w):
    """Figures of another token; a card that only the mouse can call up, or that stays, or has no name for a
    token that adds no text."""
    with w.page() as p:
        choose(p, seed=5, max_tokens=30)
        ask(p, "How likely")
        answer(p)
        wanted = said(w.server, [user("How likely")], seed=5, max_tokens=30, logprobs=True,
                      top_logprobs=5)["logprobs"]["content"]
        tokens, tip = p.locator(".token"), p.locator("#tip")
        assert tokens.count() == len(wanted), (tokens.count(), len(wanted))

        def check(i):
            expect(tip).to_be_visible()
            expect(tip.locator("p")).to_contain_text(f"was {percent(wanted[i]['logprob'])} likely")
            name = tokens.nth(i).evaluate("e => e.textContent") or wanted[i]["token"]
            assert tip.locator("p code").evaluate("e => e.textContent") == name.translate(WHITE), name
            expect(tip.locator("li .number")).to_have_text(
                [percent(t["logprob"]) for t in wanted[i]["top_logprobs"]])

        seen = wide_token(p)
        tokens.nth(seen).hover()
        check(seen)
        p.locator("h1").first.hover()
        expect(tip).to_be_hidden()
        p.locator(".message.assistant .text").focus()
        for key, i in (("ArrowRight", 0), ("ArrowRight", 1), ("ArrowLeft", 0), ("ArrowLeft", 0)):
            p.keyboard.press(key)
            check(i)
        p.keyboard.press("Escape")
        expect(tip).to_be_hidden()
        bare = tokens.evaluate_all("all => all.findIndex(e => e.textContent === '')")
        assert bare >= 0, "this seed has no token without a text"
        tokens.nth(bare).focus()
        check(bare)


def curl(w):
    """A command that a shell reads otherwise, or that asks something else than Send does."""
    with w.page() as p:
        choose(p, seed=3, max_tokens=20)
        for text in (AWKWARD, "And then?"):
            p.locator("#prompt").fill(text)
            p.get_by_role("button", name="Copy as curl").click()
            expect(p.locator("#notice")).to_have_text("Command copied")
            command = p.evaluate("navigator.clipboard.readText()")
            p.locator("#prompt").press("Enter")
            expect(p.locator(".message.user")).to_have_count(1 + (text != AWKWARD))
            wanted = answer(p)
            out = subprocess.run(["bash", "-c", command], stdout=subprocess.PIPE,
                                 stderr=subprocess.PIPE, check=True).stdout.decode()
            events = [json.loads(line[6:]) for line in out.splitlines()
                      if line.startswith("data: {")]
            got = "".join(e["choices"][0]["delta"].get("content") or "" for e in events
                          if e["choices"])
            assert got == wanted, (command, got, wanted)


def session(w):
    """A reload that loses what was said or chosen; a chat that cannot be gone back to."""
    with w.page() as p:
        choose(p, max_tokens=6, seed=1)
        ask(p, "First")
        first = answer(p)
        p.reload()
        assert answer(p) == first
        expect(p.locator("#max_tokens")).to_have_value("6")
        p.get_by_role("button", name="New chat").click()
        expect(p.locator(".message")).to_have_count(0)
        ask(p, "Second")
        second = answer(p)
        p.locator("#history").get_by_role("button", name="First").click()
        assert answer(p) == first
        p.get_by_role("button", name="Again").click()
        expect(p.locator(".message.assistant[aria-busy]")).to_have_count(0)
        assert answer(p) == first  # the seed is the same
        p.locator("#history").get_by_role("button", name="Second").click()
        assert answer(p) == second


def pace(w):
    """A speed of this page, its connection or its frames in place of the server's."""
    chunk = {"model": "tiny", "choices": [{"index": 0, "delta": {"content": "x"}, "finish_reason": "stop"}]}
    last = {"choices": [], "usage": {"prompt_tokens": 1, "completion_tokens": 101, "total_tokens": 102},
            "timings": {"queue_ms": 40, "prompt_ms": 210, "decode_ms": 400}}
    body = "".join(f"data: {json.dumps(e)}\n\n" for e in (chunk, last)) + "data: [DONE]\n\n"
    with w.page(before=lambda c: c.route(f"**{PATH}", lambda route, _: route.fulfill(
            body=body, content_type="text/event-stream"))) as p:
        ask(p, "Hello")
        expect(p.locator("footer .hint")).to_have_text(
            "101 tokens · first after 250 ms · 250 tokens/s · ended by itself")


CASES = (pace, streamed, stopped, refused, probabilities, curl, session)
