# SPDX-License-Identifier: Apache-2.0
"""A page of the server in Chromium, and what must be true of every one: nothing is said on the console,
nothing is refused by the policy, nothing is fetched from elsewhere. What is waited for is what a
person would wait for, with a bound that only a page that hangs comes to."""
import contextlib
import json
import re
import shutil

from playwright.sync_api import expect, sync_playwright
from serving import SLOW

WAIT_MS = 60_000 * SLOW
expect.set_options(timeout=WAIT_MS)
REFUSED = r"Failed to load resource: the server responded with a status of 4\d\d"


@contextlib.contextmanager
def chromium(home):
    """Runs as root too, and in containers whose shared memory is small."""
    with sync_playwright() as p:
        browser = p.chromium.launch(
            executable_path=shutil.which("chromium"), timeout=WAIT_MS, env={"HOME": str(home)},
            args=["--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu"])
        try:
            yield browser
        finally:
            browser.close()


@contextlib.contextmanager
def opened(browser, url, at="", width=1280, height=860, scheme="light", allow=None, before=None,
           plain=True, **options):
    """A page of its own session. allow: a pattern of what the console may say; before: what is done to
    the context before the page is loaded; plain: answers are shown as they are, not as Markdown."""
    context = browser.new_context(viewport={"width": width, "height": height}, color_scheme=scheme,
                                  permissions=["clipboard-read", "clipboard-write"], **options)
    context.set_default_timeout(WAIT_MS)
    faults = []

    def said(message):
        if message.type in ("error", "warning") and not (allow and re.search(allow, message.text)):
            faults.append(f"{message.type}: {message.text}")

    def asked(request):
        if not request.url.startswith((url + "/", "data:", "blob:")):
            faults.append(f"fetched: {request.url}")

    context.on("request", asked)
    if plain:
        context.add_init_script("""sessionStorage.getItem("tandem.talks") ||
            sessionStorage.setItem("tandem.talks", '{"settings": {"markdown": false}}')""")
    if before:
        before(context)
    page = context.new_page()
    page.on("console", said)
    page.on("pageerror", lambda e: faults.append(f"thrown: {e}"))
    try:
        page.goto(f"{url}/{at}")
        yield page
    finally:
        context.close()
    assert not faults, faults


def endless(context):
    """Answers go on until somebody stops them, or the context is full."""
    context.route("**/v1/chat/completions", lambda route, request: route.continue_(
        post_data=json.dumps({**request.post_data_json, "ignore_eos": True})))


def ask(page, text):
    page.locator("#prompt").fill(text)
    page.locator("#prompt").press("Enter")


def answer(page, n=-1):
    """The text of an answer that has come to its end."""
    article = page.locator(".message.assistant").nth(n)
    expect(article.locator("footer .hint")).not_to_be_empty()
    return article.locator(".text").evaluate("e => e.textContent")


def wide_token(page):
    """The number of one that can be pointed at: of a random model's tokens some, as a carriage
    return, take no room."""
    tokens = page.locator(".token")
    return next(i for i in range(tokens.count()) if tokens.nth(i).bounding_box()["width"] > 4)


def choose(page, **settings):
    for name, value in settings.items():
        page.locator(f"#{name}").fill(str(value))


def sse(*events):
    return "".join(f"data: {json.dumps(e)}\n\n" for e in events) + "data: [DONE]\n\n"


def says(*answers):
    """For `before`: the model gives these answers, a list of deltas each, and asked is what it was sent."""
    left, asked = list(answers), []

    def reply(route, request):
        asked.append(request.post_data_json)
        deltas = left.pop(0)
        reason = "tool_calls" if "tool_calls" in deltas[-1] else "stop"
        route.fulfill(content_type="text/event-stream", body=sse(
            *({"model": "tiny", "choices": [{"index": 0, "delta": d}]} for d in deltas),
            {"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]}))

    return lambda context: context.route("**/v1/chat/completions", reply), asked


def drop(page, name, text):
    page.locator("#drop").evaluate("""(box, [name, text]) => {
        const carried = new DataTransfer();
        carried.items.add(new File([text], name));
        for (const type of ["dragover", "drop"])
          box.dispatchEvent(new DragEvent(type, { dataTransfer: carried, bubbles: true,
                                                  cancelable: true }));
      }""", [name, text])
