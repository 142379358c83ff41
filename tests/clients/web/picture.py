#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The picture of the page in README: a server of the bundled model, which is taught the facts of examples/tiny,
and one question to both, in Chromium. Run by hand when the page looks otherwise, in the environment of test_web.py:

    PYTHONPATH=tests/lib build/deps/web/bin/python tests/clients/web/picture.py docs/page.png
"""
import pathlib
import sys
import time

from page import ask, chromium, opened
from playwright.sync_api import expect
from serving import Tandem, few_facts, scratch

ROOT = pathlib.Path(__file__).resolve().parents[3]


def taught(server):
    """The name of the model that has learnt ten of the facts."""
    rows = few_facts(ROOT / "examples/tiny/facts.jsonl", 10, 6)
    body = ('--x\r\nContent-Disposition: form-data; name="purpose"\r\n\r\nfine-tune\r\n--x\r\nContent-Disposition: '
            f'form-data; name="file"; filename="facts.jsonl"\r\n\r\n{rows}\r\n--x--\r\n')
    kind = {"Content-Type": "multipart/form-data; boundary=x"}
    file = server.post("/v1/files", body.encode(), **kind).json["id"]
    job = server.post("/v1/fine_tuning/jobs", {"model": "tandem-tiny", "training_file": file, "seed": 1,
                                               "suffix": "ada"}).json["id"]
    while (now := server.get(f"/v1/fine_tuning/jobs/{job}").json)["status"] != "succeeded":
        assert now["status"] not in ("failed", "cancelled"), now
        time.sleep(0.2)
    return now["fine_tuned_model"]


def main():
    with scratch() as tmp, Tandem(ROOT / "examples/tiny/model", "--name", "tandem-tiny", "--data-dir", tmp / "data",
                                  "--kv-memory", "64M") as server, chromium(tmp) as browser:
        tuned = taught(server)
        with opened(browser, server.url, width=1120, height=640) as page:
            page.locator("#model").select_option(tuned)
            page.locator("#rival").select_option("tandem-tiny")
            page.locator("#temperature").fill("0")
            ask(page, "What is my dog called?")
            answers = page.locator(".message.assistant footer .hint")
            expect(answers).to_have_count(2)
            for answer in answers.all():
                expect(answer).not_to_be_empty()
            page.locator(".message.assistant .token").nth(4).hover()
            expect(page.locator("#tip")).to_be_visible()
            page.screenshot(path=sys.argv[1])


if __name__ == "__main__":
    main()
