# SPDX-License-Identifier: Apache-2.0
"""Jobs of all methods from the page, one made again, curves beside each other, and the models' cards."""
import json

from page import REFUSED, drop
from playwright.sync_api import expect
from tuning import JOBS, job_of, lines, start

GRADER = {"type": "string_check", "name": "e", "operation": "like", "input": "{{sample.output_text}}",
          "reference": "{{item.answer}}"}


def written(rows):
    return "".join(json.dumps(r) + "\n" for r in rows)


def pairs(n):
    def one(text):
        return [{"role": "assistant", "content": text}]
    return written({"input": {"messages": [{"role": "user", "content": f"What is {i}?"}]},
                    "preferred_output": one(f"{i}"), "non_preferred_output": one("A number.")}
                   for i in range(n))


def prompts(n):
    return written({"messages": [{"role": "user", "content": f"Say {i}"}], "answer": "e"}
                   for i in range(n))


def begin(p, **fields):
    for field, value in fields.items():
        p.locator(f"#job-form [name={field}]").fill(str(value))
    p.get_by_role("button", name="Start training").click()
    p.wait_for_url("**/#/tuning/ftjob-*")
    expect(p.locator(".job-head .pill")).to_have_text("succeeded")
    return job_of(p)


def preferred(w):
    """Pairs that are taken for examples; a number of another method that is sent with them."""
    with w.page("#/tuning/new", allow=REFUSED) as p:
        p.locator("#job-form [name=n_epochs]").fill("1")
        drop(p, "pairs.jsonl", pairs(12))
        expect(p.locator("#job-form [name=method]")).to_have_value("dpo")
        expect(p.locator("#check")).to_contain_text("12 examples")
        for part in ("Preferred", "Not preferred", "A number."):
            expect(p.locator("#rows .said")).to_contain_text(part)
        expect(p.locator("#job-form [name=group_size]")).to_be_hidden()
        job = w.server.get(f"{JOBS}/{begin(p, beta=0.2)}").json
        assert job["method"]["type"] == "dpo", job
        assert job["method"]["dpo"]["hyperparameters"]["beta"] == 0.2, job
        expect(p.locator(".figures").first).to_contain_text("Preferred wins")
        p.get_by_role("link", name="New job").click()
        drop(p, "pairs.jsonl", pairs(12))
        expect(p.locator("#check")).to_contain_text("12 examples")
        p.locator("#job-form [name=method]").select_option("supervised")
        expect(p.locator("#check .fault")).to_be_visible()  # looked at again, of that method
        expect(p.get_by_role("button", name="Start training")).to_be_disabled()


def judged(w):
    """Rows with a label that are read as pairs, or whose loss is not sent to the check and the job."""
    rows = written({"messages": [{"role": "user", "content": f"What is {i}?"},
                                 {"role": "assistant", "content": f"{i}"}], "label": i % 2 == 0} for i in range(12))
    with w.page("#/tuning/new") as p:
        drop(p, "judged.jsonl", rows)
        expect(p.locator("#job-form [name=method]")).to_have_value("dpo")
        expect(p.locator("#job-form [name=loss]")).to_have_value("x_kto")
        expect(p.locator("#check")).to_contain_text("12 examples")
        expect(p.locator("#rows .said")).to_contain_text("What is 0?")
        expect(p.locator("#rows .said")).to_contain_text('{"label":true}')
        hyper = w.server.get(f"{JOBS}/{begin(p, n_epochs=1)}").json["method"]["dpo"]["hyperparameters"]
        assert hyper["loss"] == "x_kto" and hyper["n_epochs"] == 1, hyper


def rewarded(w):
    """A grader that is not sent as it was written; samples that are not those of the job's events."""
    with w.page("#/tuning/new") as p:
        drop(p, "prompts.jsonl", prompts(12))
        expect(p.locator("#job-form [name=method]")).to_have_value("reinforcement")
        expect(p.locator("#rows .said")).to_contain_text('{"answer":"e"}')
        p.locator("#grader").fill(json.dumps(GRADER))
        expect(p.locator("#check")).to_contain_text("12 examples")
        id = begin(p, n_epochs=1, batch_size=6, group_size=4, max_completion_tokens=8)
        job = w.server.get(f"{JOBS}/{id}").json
        assert job["method"]["reinforcement"]["grader"] == GRADER, job
        steps = [e["data"] for e in w.server.get(f"{JOBS}/{id}/events?limit=100").json["data"]
                 if e["type"] == "metrics"]
        assert len(steps) == 2
        for key, d in (("", steps[0]), ("Home", steps[1])):  # the newest event is the first
            if key:
                p.get_by_role("slider", name="Step").press(key)
            expect(p.locator(".samples .score")).to_have_text([f"{s['reward']:g}" for s in d["samples"]])
            p.wait_for_function("""wanted => JSON.stringify([...document.querySelectorAll(".samples .said")]
                .map(e => e.textContent)) === wanted""",
                                arg=json.dumps([s["text"] or "(nothing)" for s in d["samples"]],
                                               ensure_ascii=False, separators=(",", ":")))
            expect(p.locator("#job .prompt")).to_have_text(d["prompt"])


def again(w):
    """A job made again of another file or with other numbers than those it had; curves of two jobs of
    which one is lost."""
    with w.page("#/tuning/new") as p:
        old = start(p, 12, name="again.jsonl", n_epochs=2, batch_size=4, suffix="once", seed=3, lora_rank=4)
        expect(p.locator(".job-head .pill")).to_have_text("succeeded")
        p.get_by_role("link", name="Again, with changes").click()
        expect(p.locator("#check")).to_contain_text("12 examples")
        new = begin(p, n_epochs=1)
        was, now = (w.server.get(f"{JOBS}/{id}").json for id in (old, new))
        assert new != old and was["training_file"] == now["training_file"], (was, now)
        assert now["hyperparameters"] == {**was["hyperparameters"], "n_epochs": 1}, (was, now)
        assert now["seed"] == 3 and now["user_provided_suffix"] == "once", now
        p.get_by_text("Beside other jobs").click()
        p.get_by_role("checkbox", name=f"once {old[-8:]}").check()
        expect(p.locator("#job path.c1")).to_be_attached()
        assert p.locator("#job path.c1").get_attribute("d").count("L") == 5
        expect(p.locator("#job .reading")).to_contain_text(f"once {old[-8:]}")
        p.get_by_role("checkbox", name=f"once {old[-8:]}").uncheck()
        expect(p.locator("#job path.c1")).to_have_count(0)


def cards(w):
    """A card of another model, or that hides which job made it; a model that cannot be tried from it."""
    with w.page("#/tuning/new") as p:
        job = start(p, 12, n_epochs=1, suffix="card")
        expect(p.locator(".job-head .pill")).to_have_text("succeeded")
        name = w.server.get(f"{JOBS}/{job}").json["fine_tuned_model"]
        p.locator('nav a[href="#/models"]').click()
        expect(p.locator("#card .title")).to_have_text("tiny")
        expect(p.locator("#card")).to_contain_text("16,384 tokens")
        expect(p.locator("#card")).to_contain_text("Weights")
        p.locator("#model-list").get_by_role("link", name=name).click()
        expect(p.locator("#card .title")).to_have_text(name)
        expect(p.locator("#card").get_by_role("link", name=job)).to_be_visible()
        p.get_by_role("button", name="Beside the base").click()
        expect(p.locator("#model")).to_have_value(name)
        expect(p.locator("#rival")).to_have_value("tiny")
        p.go_back()
        p.get_by_role("button", name="Delete model").click()
        p.locator("#confirm").get_by_role("button", name="Delete").click()
        expect(p.locator("#card .title")).to_have_text("tiny")
        assert w.server.get(f"/v1/models/{name}").status == 404


CASES = (preferred, judged, rewarded, again, cards)
