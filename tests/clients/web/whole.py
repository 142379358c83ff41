# SPDX-License-Identifier: Apache-2.0
"""What holds of the page as a whole: figures that are live, keys, the keyboard alone, narrow screens,
what others wrote shown as text, colours that can be read, and pictures of it all."""
import json
import pathlib
import threading

import axe_playwright_python
from page import REFUSED, answer, ask, choose, drop, endless, sse, wide_token
from playwright.sync_api import expect
from tuning import lines, start

HOSTILE = "<img/src=x/onerror=\"window.hacked=1\"><script>window.hacked=1</script>&amp;<b>x</b>"
VIEWS = ("#/playground", "#/tuning", "#/tuning/new", "#/models", "#/overview")


class Streams:
    """A stream that goes on until nobody wants it."""

    def __init__(self, server):
        self.server, self.ends = server, threading.Event()
        self.thread = threading.Thread(target=self.run)

    def run(self):
        while not self.ends.is_set():
            self.server.post("/v1/completions", {"model": "tiny", "prompt": "a", "max_tokens": 300,
                                                 "ignore_eos": True})

    def __enter__(self):
        self.thread.start()

    def __exit__(self, *_):
        self.ends.set()
        self.thread.join()


def overview(w):
    """Figures that stand still, or that are another's."""
    with w.page("#/overview", before=endless) as p:
        def tile(name):
            return p.locator(".tile", has=p.get_by_role("heading", name=name, exact=True))

        expect(tile("Streams").locator(".big")).to_have_text("0")
        with Streams(w.server):
            expect(tile("Streams").locator(".big")).to_have_text("1")
            expect(tile("Generated").locator(".big")).not_to_have_text("0")
            expect(tile("Between tokens").locator(".big")).to_contain_text("s")
            expect(tile("First token").locator(".hint")).to_contain_text("95% below")
            expect(tile("Keys and values").locator(".big")).not_to_have_text("0%")
            expect(tile("Compute threads").locator(".big")).not_to_have_text("0%")
            expect(tile("Compute threads").locator(".hint")).to_contain_text("training 0%")
        expect(tile("Streams").locator(".big")).to_have_text("0")
        for path in p.locator(".spark path").all():
            assert "NaN" not in path.get_attribute("d")
        p.get_by_role("link", name="Playground").click()
        with p.expect_request("**/v1/chat/completions"):  # and asks /metrics no more
            ask(p, "Hello")
        p.get_by_role("button", name="Stop").click()


def addresses(w):
    """An address that is none, or no view's: a page that shows nothing, or goes on to nowhere."""
    for at in ("#/%", "#/nowhere", "#/tuning/%E0%A4%A"):
        with w.page(at) as p:
            expect(p.locator("#playground")).to_be_visible()
            p.get_by_role("link", name="Fine-tuning").first.click()
            expect(p.locator("#tuning")).to_be_visible()
            p.evaluate("location.hash = '#/%'")
            expect(p.locator("#playground")).to_be_visible()


def keyboard(w):
    """A control that the Tab key does not come to, or that only a mouse can use."""
    with w.page() as p:
        def tab_to(wanted):
            for _ in range(80):
                p.keyboard.press("Tab")
                if p.evaluate("s => document.activeElement.matches(s)", wanted):
                    ring = p.evaluate("getComputedStyle(document.activeElement).outlineStyle")
                    assert ring != "none" or wanted == "#prompt", wanted
                    return
            raise AssertionError(f"Tab does not come to {wanted}")

        # from here on, so that the browser has heard of it long before a key opens one
        p.on("filechooser", lambda _: None)
        tab_to("#max_tokens")
        p.keyboard.type("8")
        tab_to(".skip")
        tab_to("#prompt")
        p.keyboard.type("Hello")
        p.keyboard.press("Shift+Enter")
        p.keyboard.type("you")
        p.keyboard.press("Enter")
        assert answer(p)
        expect(p.locator(".message.user .text")).to_have_text("Hello\nyou")
        tab_to('nav a[href="#/tuning"]')
        p.keyboard.press("Enter")
        tab_to('a[href="#/tuning/new"]')
        p.keyboard.press("Enter")
        tab_to("#file")
        with p.expect_file_chooser() as chooser:
            p.keyboard.press("Space")
        chooser.value.set_files({"name": "k.jsonl", "mimeType": "text/plain",
                                 "buffer": lines(10).encode()})
        expect(p.locator(".mask")).to_be_visible()
        tab_to("[name=n_epochs]")
        p.keyboard.type("1")
        tab_to("#start")
        p.keyboard.press("Enter")
        expect(p.locator(".job-head .pill")).to_have_text("succeeded")
        tab_to(".chart")
        tab_to("#job .list button")
        p.keyboard.press("Enter")
        expect(p.locator("#playground")).to_be_visible()
        tab_to("#theme")
        p.keyboard.press("Enter")
        expect(p.locator("html")).to_have_attribute("data-theme", "light")


def keys(w):
    """A page that cannot be used with keys; a key that outlives its tab, or is shown; a refusal that
    is asked about again and again."""
    with w.page(server=w.locked, allow=REFUSED) as p:
        dialog, said = p.locator("#key-dialog"), p.locator("#key-why")
        expect(said).to_have_text("an API key is wanted; send Authorization: Bearer KEY, or x-api-key: KEY")
        p.locator("#key").fill("wrong-wrong-wrong-wrong")
        p.keyboard.press("Enter")
        expect(said).to_contain_text("not known")
        assert p.locator("#key").get_attribute("type") == "password"
        p.locator("#key").fill("low-key-low-key-low-key")
        p.get_by_role("button", name="Use it").click()
        expect(dialog).to_be_hidden()
        expect(p.locator("#state")).to_have_text("tiny")
        choose(p, max_tokens=3)
        ask(p, "Hello")
        assert answer(p)
        p.get_by_role("button", name="Copy as curl").click()
        command = p.evaluate("navigator.clipboard.readText()")
        assert "$TANDEM_API_KEY" in command and "low-key" not in command, command
        p.get_by_role("link", name="Overview").click()
        expect(p.locator("#overview-fault .fault")).to_contain_text("scopes")
        p.get_by_role("link", name="Fine-tuning").click()
        expect(p.locator("#tuning-fault .fault")).to_contain_text("scopes")
        assert p.evaluate("JSON.stringify(localStorage)").find("low-key") < 0
        p.get_by_role("button", name="Key", exact=True).click()
        expect(p.locator("#key-title")).to_have_text("Your key for this server")
        p.locator("#key").fill("root-key-root-key-root-key")
        p.get_by_role("button", name="Use it").click()
        expect(p.locator("#tuning-fault .fault")).to_contain_text("--data-dir")
        p.reload()
        expect(p.locator("#state")).to_have_text("tiny")
        expect(dialog).to_be_hidden()
    with w.page(server=w.locked, allow=REFUSED) as p:
        p.get_by_role("button", name="Cancel").click()
        expect(p.locator("#state")).to_contain_text("API key")
        expect(p.get_by_role("button", name="Key", exact=True)).to_be_visible()


def lost(w):
    """A page that goes on as if its server were there, or does not see that it is there again."""
    with w.page("#/overview", allow="ERR_") as p:
        expect(p.locator(".spark").first).to_be_visible()
        p.context.route("**/*", lambda route: route.abort())
        expect(p.locator("#state")).to_have_text("The server does not answer.")
        expect(p.locator("#overview-fault .fault")).to_be_visible()
        p.context.unroute_all()
        expect(p.locator("#state")).to_have_text("tiny")
        expect(p.locator("#overview-fault .fault")).to_have_count(0)


def hostile(w):
    """What a model, a file or a job says, read as markup."""
    token = {"token": HOSTILE, "logprob": -0.5, "bytes": None, "top_logprobs":
             [{"token": HOSTILE, "logprob": -0.5, "bytes": None}]}
    chunk = {"choices": [{"index": 0, "delta": {"content": HOSTILE}, "finish_reason": "stop",
                          "logprobs": {"content": [token]}}]}
    job = {"id": "ftjob-" + HOSTILE, "object": "fine_tuning.job", "model": HOSTILE, "created_at": 1,
           "status": "failed", "fine_tuned_model": HOSTILE, "user_provided_suffix": HOSTILE,
           "error": {"code": HOSTILE, "message": HOSTILE, "param": HOSTILE},
           "hyperparameters": {HOSTILE: HOSTILE}}
    event = {"id": "e", "type": "message", "level": "info", "created_at": 1, "message": HOSTILE}
    file = {"id": "file-1", "filename": HOSTILE, "bytes": 1, "created_at": 1, "purpose": "fine-tune"}
    checkpoint = {"fine_tuned_model_checkpoint": HOSTILE, "step_number": 1, "metrics": {}}
    preview = {"texts": [HOSTILE], "weights": [1], "trained_tokens": 1, "total_tokens": 1,
               "cut_tokens": 0, "notes": [HOSTILE]}

    def page_of(thing):
        return json.dumps({"data": [thing], "has_more": False})

    answers = (("**/v1/models", page_of({"id": HOSTILE, "parent": None})),
               ("**/v1/files?*", page_of(file)), ("**/v1/fine_tuning/jobs?*", page_of(job)),
               ("**/v1/fine_tuning/jobs/ftjob-*", json.dumps(job)),
               ("**/events?*", sse(event)), ("**/checkpoints?*", page_of(checkpoint)),
               ("**/v1/fine_tuning/preview", json.dumps(preview)),
               ("**/api/show", json.dumps({"template": HOSTILE, "details": {"family": HOSTILE}})),
               ("**/v1/chat/completions", sse(chunk)))

    def pretend(context):
        for pattern, body in answers:
            context.route(pattern, lambda route, _, body=body: route.fulfill(
                body=body, content_type="text/plain"))

    with w.page(before=pretend) as p:
        def harmless(*places):
            for place in places:
                expect(p.locator(place).first).to_contain_text(HOSTILE)
            assert p.evaluate("window.hacked") is None
            assert p.locator("img:not(.brand img), main script, main b").count() == 0

        expect(p.locator("#state")).to_have_text(HOSTILE)
        ask(p, HOSTILE)
        assert answer(p) == HOSTILE
        p.locator(".token").hover()
        harmless(".message.user .text", ".message.assistant .text", ".message h3:has-text('img')",
                 "#history", "#tip", "#model")
        p.locator('nav a[href="#/tuning"]').click()
        drop(p, HOSTILE, "{}\n")
        harmless("#jobs", "#files", "#rows .mask", "#rows .note", "#start-state")
        p.locator("#jobs a").click()
        harmless("#job .title", "#job .events", "#job .fault", "#job .checkpoints", "#job > details")
        p.locator('nav a[href="#/models"]').click()
        harmless("#model-list", "#card .title", "#card details pre")


def narrow(w):
    """Something that is wider than a phone, runs into another there, or that a phone cannot come to."""
    for width in (390, 320):
        with w.page("#/tuning/new", width=width, height=844, has_touch=True, is_mobile=True) as p:
            def fits(where):
                # not innerWidth: a phone zooms out until all that is too wide can be seen
                wide = p.evaluate("""most => [...document.querySelectorAll("body *")].filter(e => {
                    const r = e.getBoundingClientRect();
                    return r.width && r.right > most + 1 && !e.closest(".hidden, svg");
                  }).map(e => `${e.tagName}.${e.className}#${e.id}`)""", width)
                assert not wide, (width, where, wide)
                assert p.evaluate("document.documentElement.scrollWidth") <= width, (width, where)
                near = p.evaluate("""() => [...document.querySelectorAll(".bar h1 + .hint")].filter(e => e.checkVisibility() &&
                    e.getBoundingClientRect().left < e.previousElementSibling.getBoundingClientRect().right + 8).length""")
                assert near == 0, (width, where, "a title and what is beside it run together")

            start(p, 12, name="a-file-with-a-name-that-is-much-longer-than-a-phone-is-wide.jsonl",
                  n_epochs=1, suffix="a-suffix-that-is-rather-long")
            expect(p.locator(".job-head .pill")).to_have_text("succeeded")
            fits("job")
            p.get_by_role("link", name="Jobs and files").click()
            expect(p.locator("#jobs a").first).to_be_visible()
            fits("lists")
            p.get_by_role("link", name="New job").click()
            drop(p, "rows.jsonl", lines(3))
            expect(p.locator(".mask")).to_be_visible()
            fits("form")
            p.get_by_role("link", name="Models", exact=True).click()
            p.locator("#model-list a").last.click()
            expect(p.locator(".facts").first).to_be_visible()
            fits("models")
            p.get_by_role("link", name="Overview").click()
            expect(p.locator(".spark").first).to_be_visible()
            fits("overview")
            p.get_by_role("link", name="Playground").click()
            p.get_by_role("button", name="Settings").click()
            choose(p, max_tokens=40)
            fits("settings")
            ask(p, "x" * 300)
            expect(p.locator("#settings")).to_be_hidden()  # they lay where the answer comes
            expect(p.get_by_role("button", name="Settings")).to_have_attribute("aria-expanded", "false")
            answer(p)
            p.locator(".token").nth(wide_token(p)).tap()
            expect(p.locator("#tip")).to_be_visible()
            fits("chat")


# Headings that skip a level, and lists that a reader of screens would not call lists.
OUTLINE = """() => {
  const faults = [];
  let level = 0;
  for (const h of document.querySelectorAll("h1, h2, h3, h4")) {
    if (!h.checkVisibility()) continue;
    const now = Number(h.tagName[1]);
    if (now > level + 1) faults.push(`${h.tagName} ${h.textContent} behind H${level}`);
    level = now;
  }
  for (const l of document.querySelectorAll("ul, ol"))
    if (l.getAttribute("role") !== "list") faults.push(`${l.tagName}#${l.id}.${l.className} has no role`);
  return faults;
}"""


def outline(w):
    """An order of headings with holes, a list without its role, a name that is cut off."""
    name = "a-file-whose-name-goes-on-" * 4 + ".jsonl"
    with w.page("#/tuning/new") as p:
        start(p, 12, name=name, n_epochs=1)
        expect(p.locator(".job-head .pill")).to_have_text("succeeded")
        assert not p.evaluate(OUTLINE), p.evaluate(OUTLINE)
        shown = p.locator("#files .name", has_text=name).first
        assert shown.evaluate("e => e.scrollWidth <= e.clientWidth && getComputedStyle(e).whiteSpace === 'normal'")
        for view in VIEWS:
            p.goto(f"{w.server.url}/{view}")
            if view == "#/playground":
                choose(p, max_tokens=4)
                ask(p, "Hello")
                answer(p)
            assert not p.evaluate(OUTLINE), (view, p.evaluate(OUTLINE))


# Of each visible text its colour against what lies behind it; of each control its name.
READABLE = """() => {
  const brush = new OffscreenCanvas(1, 1).getContext("2d", { willReadFrequently: true });
  const rgba = color => {
    brush.clearRect(0, 0, 1, 1);
    brush.fillStyle = color;
    brush.fillRect(0, 0, 1, 1);
    return [...brush.getImageData(0, 0, 1, 1).data].map(v => v / 255);
  };
  const behind = e => {
    const layers = [];
    for (let at = e; at; at = at.parentElement) layers.push(rgba(getComputedStyle(at).backgroundColor));
    return layers.reverse().reduce((under, [r, g, b, a]) =>
      [r, g, b].map((v, i) => v * a + under[i] * (1 - a)), [1, 1, 1]);
  };
  const light = c => c.map(v => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
    .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  const faults = [];
  for (const e of document.querySelectorAll("body *")) {
    const own = [...e.childNodes].some(n => n.nodeType === 3 && n.textContent.trim());
    const style = getComputedStyle(e);
    if (!e.checkVisibility() || e.closest(":disabled, svg, .skip, #notice")) continue;
    if (own) {
      const pair = [light(rgba(style.color).slice(0, 3)), light(behind(e))].sort();
      const ratio = (Math.max(...pair) + 0.05) / (Math.min(...pair) + 0.05);
      if (ratio < 4.5) faults.push(`${e.tagName}.${e.className} ${e.textContent}: ${ratio}`);
    }
    if (e.matches("input, select, textarea, button, a, progress") && !e.labels?.length &&
        !e.ariaLabel && !e.textContent.trim()) faults.push(`${e.tagName}#${e.id} has no name`);
  }
  return faults;
}"""


# axe's rules, and of each that is broken where.
AXE = (pathlib.Path(axe_playwright_python.__file__).parent / "axe.min.js").read_text()
RULES = """axe.run().then(r => r.violations.map(v =>
    `${v.id}: ${v.nodes.map(n => `${n.target} ${n.failureSummary}`).join("; ")}`))"""


def readable(w):
    """Text that fades into its ground in one of the themes; a control that has no name; a rule of axe
    that is broken in any view; a theme that is forgotten."""
    pictures = w.build / "web"
    pictures.mkdir(exist_ok=True)
    with w.page("#/tuning/new") as p:
        job = start(p, 12, n_epochs=3, suffix="mine")
        expect(p.locator(".job-head .pill")).to_have_text("succeeded")
    ground = "getComputedStyle(document.body).backgroundColor"
    grounds = {}
    for scheme in ("light", "dark"):
        for width in (1280, 390):
            with w.page(width=width, scheme=scheme) as p:
                def look(name):
                    broken = p.evaluate(f"{AXE}\n;{RULES}")
                    assert not broken, (scheme, width, name, broken)
                    faults = p.evaluate(READABLE)
                    assert not faults, (scheme, width, name, faults)
                    p.screenshot(path=pictures / f"{name}-{width}-{scheme}.png")

                p.evaluate("([seed, most]) => { document.getElementById('seed').value = seed;"
                           "document.getElementById('max_tokens').value = most; }", ["7", "90"])
                ask(p, "Tell me something.")
                answer(p)
                p.locator(".token").nth(12).focus()
                look("playground")
                p.goto(f"{w.server.url}/#/tuning/new")
                drop(p, "rows.jsonl", lines(12))
                expect(p.locator(".mask")).to_be_visible()
                look("new-job")
                p.goto(f"{w.server.url}/#/tuning/{job}")
                expect(p.locator("#job path.train").last).to_be_attached()
                look("job")
                p.goto(f"{w.server.url}/#/tuning")
                expect(p.locator("#jobs a").first).to_be_visible()
                look("tuning")
                p.goto(f"{w.server.url}/#/models/tiny")
                expect(p.locator(".facts").first).to_be_visible()
                look("models")
                p.goto(f"{w.server.url}/#/overview")
                with Streams(w.server):
                    expect(p.locator(".tile .big").first).to_have_text("1")
                    expect(p.locator(".tile").nth(3)).to_contain_text("95% below")
                    look("overview")
                grounds.setdefault(scheme, set()).add(p.evaluate(ground))
                for chosen in ("light", "dark"):
                    p.locator("#theme").click()
                    p.reload()
                    grounds.setdefault(chosen, set()).add(p.evaluate(ground))
    assert [len(g) for g in grounds.values()] == [1, 1] and grounds["light"] != grounds["dark"], grounds


CASES = (overview, lost, addresses, outline, keyboard, keys, hostile, narrow, readable)
