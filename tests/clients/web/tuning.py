# SPDX-License-Identifier: Apache-2.0
"""Fine-tuning from a file that is dropped to a model that answers; jobs and files as lists."""
import json

from chat import said, user
from page import REFUSED, answer, ask, choose, drop
from playwright.sync_api import expect

JOBS = "/v1/fine_tuning/jobs"


def rows(n):
    return [{"messages": [user(f"What is {i}?"), {"role": "assistant", "content": f"It is {i}."}]}
            for i in range(n)]


def lines(n):
    return "".join(json.dumps(r) + "\n" for r in rows(n))


def job_of(p):
    return p.url.rsplit("/", 1)[1]


def start(p, n, name="rows.jsonl", **fields):
    """Starts a job on n rows, and says which it is."""
    drop(p, name, lines(n))
    expect(p.locator(".mask")).to_be_visible()
    for field, value in fields.items():
        p.locator(f"#job-form [name={field}]").fill(str(value))
    p.get_by_role("button", name="Start training").click()
    p.wait_for_url("**/#/tuning/ftjob-*")
    return job_of(p)


def sent(server, name, text):
    """The id of a file, sent as a form."""
    edge = "edge-of-a-part"
    head = (f'--{edge}\r\nContent-Disposition: form-data; name="purpose"\r\n\r\nfine-tune\r\n'
            f'--{edge}\r\nContent-Disposition: form-data; name="file"; filename="{name}"\r\n\r\n')
    r = server.post("/v1/files", f"{head}{text}\r\n--{edge}--\r\n".encode(),
                    **{"Content-Type": f"multipart/form-data; boundary={edge}"})
    assert r.status == 200, r
    return r.json["id"]


def checked(w):
    """A job that must fail and can be started: with a bad line behind many good ones, or with few rows;
    a file of which nothing comes, and which stays with the server; a choice that outlives its job."""
    def names():
        return [f["filename"] for f in w.server.get("/v1/files").json["data"]]

    with w.page("#/tuning/new") as p:
        start_button, report = p.get_by_role("button", name="Start training"), p.locator("#check")
        bad = lines(30) + "\n{bad\n" + lines(5) + '{"messages": 7}\n'
        for text, said in ((bad, ("2 of 37 examples", "Line 32:", "Line 38:")),
                           (lines(3), ("has 3 examples; a job wants at least 10",))):
            drop(p, "check-me.jsonl", text)
            for part in said:
                expect(report).to_contain_text(part)
            expect(start_button).to_be_disabled()
            expect(p.locator("#files .row", has_text="check-me.jsonl")).to_have_count(0)
            p.wait_for_function("""async () => !(await (await fetch("v1/files")).text())
                                     .includes("check-me.jsonl")""")
        for name in ("check-first.jsonl", "check-me.jsonl"):  # the first one is not wanted any more
            drop(p, name, lines(12))
            expect(report).to_contain_text("12 examples")
            expect(start_button).to_be_enabled()
        p.wait_for_function("""async () => !(await (await fetch("v1/files")).text())
                                 .includes("check-first.jsonl")""")
        p.locator("[name=n_epochs]").fill("1")
        start_button.click()
        expect(p.locator(".job-head .pill")).to_have_text("succeeded")
        assert names().count("check-me.jsonl") == 1
        p.get_by_role("link", name="New job").click()
        expect(start_button).to_be_disabled()
        expect(report).to_be_hidden()
        option = p.locator("#training-file option", has_text="check-me.jsonl")
        p.locator("#training-file").select_option(option.get_attribute("value"))
        expect(report).to_contain_text("12 examples")
        expect(start_button).to_be_enabled()


def axes(w):
    """A loss without a scale, a scale that hides where zero is, or one that cannot be made logarithmic."""
    job = next(j["id"] for j in w.server.get(JOBS).json["data"] if j["status"] == "succeeded")
    with w.page(f"#/tuning/{job}") as p:
        expect(p.locator("#job path.train").last).to_be_attached()
        texts = p.locator('.chart text[text-anchor="end"]')
        assert "0" in texts.all_text_contents() and p.locator(".chart line.axis").count() >= 5
        whole = p.locator("#job path.train").last.get_attribute("d")
        p.get_by_label("Logarithmic").check()
        expect(texts.first).not_to_have_text("0")
        log = p.locator("#job path.train").last.get_attribute("d")
        assert log != whole and "NaN" not in log and texts.count() >= 1, log


def masked(w):
    """A mask that is not the server's; a row that is another's; a bad line that is shown as good."""
    with w.page("#/tuning/new", allow=REFUSED) as p:
        drop(p, "rows.jsonl", lines(3) + "{bad\n" + '{"messages": 7}\n')
        for i, row in enumerate(rows(3)):
            if i:
                p.get_by_role("button", name="Next example").click()
            wanted = w.server.post("/v1/fine_tuning/preview", {"row": row}).json
            learned = [t for t, one in zip(wanted["texts"], wanted["weights"]) if one]
            expect(p.locator(".legend")).to_contain_text(f"{wanted['trained_tokens']} tokens")
            # to_have_text folds white space
            p.wait_for_function("""([all, learned]) => {
                const text = s => [...document.querySelectorAll(s)].map(e => e.textContent).join("");
                return text(".mask") === all && text(".mask > .learned") === learned;
              }""", arg=["".join(wanted["texts"]), "".join(learned)])
        expect(p.locator(".rows-bar")).to_contain_text("of 5")
        p.get_by_label("Example", exact=True).fill("4")
        p.get_by_label("Example", exact=True).press("Enter")
        expect(p.locator("#rows .fault")).to_contain_text("Example 4 is no JSON")
        p.get_by_role("button", name="Next example").click()
        error = w.server.post("/v1/fine_tuning/preview", {"row": {"messages": 7}}).error
        expect(p.locator("#rows .fault")).to_contain_text(error["message"])


def tuned(w):
    """A job that is not what the form says; a curve without its points; a state that stays behind;
    a checkpoint that is tried and is not what answers."""
    with w.page("#/tuning/new") as p:
        job = start(p, 12, n_epochs=3, batch_size=4, suffix="mine", seed=3, lora_rank=4)
        expect(p.locator(".job-head .pill")).to_have_text("succeeded")
        made = w.server.get(f"{JOBS}/{job}").json
        hyper = made["hyperparameters"]
        assert (hyper["n_epochs"], hyper["batch_size"], hyper["lora_rank"]) == (3, 4, 4), hyper
        assert made["seed"] == 3 and ":mine:" in made["fine_tuned_model"], made
        expect(p.locator(".figures").first).to_contain_text("9 of 9")
        steps = [e["data"] for e in w.server.get(f"{JOBS}/{job}/events?limit=100").json["data"]
                 if e["type"] == "metrics"]
        assert len(steps) == 9
        expect(p.locator("#job .reading")).to_contain_text("step 9")
        d = p.locator("#job path.train").last.get_attribute("d")
        assert d.count("L") == 8 and "NaN" not in d, d
        expect(p.locator(".events li").first).to_contain_text("successfully completed")
        found = w.server.get(f"{JOBS}/{job}/checkpoints").json["data"]
        expect(p.locator("#job .list .row")).to_have_count(len(found))
        name = found[-1]["fine_tuned_model_checkpoint"]
        assert ":ckpt-step-" in name
        p.get_by_role("button", name=f"Try {name}", exact=True).click()
        expect(p.locator("#model")).to_have_value(name)
        choose(p, seed=9, max_tokens=12)
        ask(p, "What is 3?")
        got = answer(p)
        expect(p.locator(".message.assistant h3")).to_have_text(name)
        wanted = said(w.server, [user("What is 3?")], model=name, seed=9, max_tokens=12)
        assert got == wanted["message"]["content"], (got, wanted)


def followed_again(w):
    """A page that is loaded behind the end, and lacks what came before."""
    job = next(j["id"] for j in w.server.get(JOBS).json["data"] if j["status"] == "succeeded")
    with w.page(f"#/tuning/{job}") as p:
        expect(p.locator(".events li").first).to_contain_text("successfully completed")
        expect(p.locator(".events li").last).to_contain_text("Created")
        expect(p.locator("#job .reading")).to_contain_text("step 9")
        chart = p.locator(".chart")
        chart.focus()
        for key, step in (("ArrowRight", 1), ("ArrowRight", 2), ("ArrowLeft", 1)):
            p.keyboard.press(key)
            expect(p.locator("#job .reading")).to_contain_text(f"step {step}")
        box = chart.bounding_box()
        p.mouse.move(box["x"] + box["width"] / 2, box["y"] + 90)
        expect(p.locator("#job .reading")).to_contain_text("step 5")
        expect(p.locator(f'#jobs a[aria-current][href="#/tuning/{job}"]')).to_be_visible()


def halted(w):
    """Buttons that do nothing, or stay when they no longer apply."""
    with w.page("#/tuning/new") as p:
        job = start(p, 100, n_epochs=50, batch_size=1)
        pill = p.locator(".job-head .pill")
        expect(p.locator("#job path.train").last).to_be_attached()
        p.get_by_role("button", name="Pause").click()
        expect(pill).to_have_text("paused")
        assert w.server.get(f"{JOBS}/{job}").json["status"] == "paused"
        p.get_by_role("button", name="Resume").click()
        expect(pill).to_have_text("running")
        p.get_by_role("button", name="Cancel").click()
        expect(pill).to_have_text("cancelled")
        assert w.server.get(f"{JOBS}/{job}").json["status"] == "cancelled"
        for gone in ("Pause", "Resume", "Cancel"):
            expect(p.locator("#job").get_by_role("button", name=gone, exact=True)).to_have_count(0)
        expect(p.locator("#jobs a[aria-current] .pill")).to_have_text("cancelled")


def failed(w):
    """A job that failed without its reason; a form that takes what the server refuses."""
    with w.page("#/tuning/new", allow=REFUSED) as p:
        file = sent(w.server, "few.jsonl", lines(2))
        job = w.server.post(JOBS, {"model": "tiny", "training_file": file}).json["id"]
        p.goto(f"{w.server.url}/#/tuning/{job}")
        expect(p.locator(".job-head .pill")).to_have_text("failed")
        expect(p.get_by_role("heading", name="Loss")).to_be_hidden()  # of no step there is no curve
        error = w.server.get(f"{JOBS}/{job}").json["error"]
        expect(p.locator("#job .fault")).to_contain_text(error["message"])
        p.get_by_role("link", name="New job").click()
        drop(p, "rows.jsonl", lines(12))
        expect(p.locator(".mask")).to_be_visible()
        p.locator("[name=suffix]").fill("not/good/at/all")
        p.get_by_role("button", name="Start training").click()
        expect(p.locator("#start-fault .fault")).to_contain_text("suffix")
        expect(p.get_by_role("button", name="Start training")).to_be_enabled()


def listed(w):
    """A file that is deleted without a word, or is not; a model that stays in the choice."""
    with w.page("#/tuning/new") as p:
        drop(p, "only.jsonl", lines(12))
        p.locator("[name=n_epochs]").fill("1")
        p.get_by_role("button", name="Start training").click()
        expect(p.locator(".job-head .pill")).to_have_text("succeeded")
        file = next(f for f in w.server.get("/v1/files").json["data"]
                    if f["filename"] == "only.jsonl")
        entry = p.locator("#files .row", has_text="only.jsonl")
        for verdict, left in (("Keep", 1), ("Delete", 0)):
            p.get_by_role("button", name="Delete only.jsonl").click()
            p.locator("#confirm").get_by_role("button", name=verdict).click()
            expect(entry).to_have_count(left)
            assert (w.server.get(f"/v1/files/{file['id']}").status == 200) == bool(left)
        model = p.locator(".job-head .title").text_content()
        p.get_by_role("button", name="Delete model").click()
        p.locator("#confirm").get_by_role("button", name="Delete").click()
        expect(p.get_by_role("button", name="Delete model")).to_have_count(0)
        expect(p.locator(f'#model option[value="{model}"]')).to_have_count(0)
        assert w.server.get(f"/v1/models/{model}").status == 404


CASES = (masked, checked, tuned, axes, followed_again, halted, failed, listed)
