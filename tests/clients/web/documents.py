# SPDX-License-Identifier: Apache-2.0
"""The documents as a site (docs/site), opened from the disk: no word on the console, axe's rules, light and dark,
phones, and the field that finds sections."""
import pathlib
import subprocess
import sys

from page import opened
from playwright.sync_api import expect
from whole import AXE, READABLE, RULES

ROOT = pathlib.Path(__file__).resolve().parents[3]
LOOKED_AT = ("index.html", "ARCHITECTURE.html", "docs/tutorial-application.html", "docs/tuning.html",
             "docs/cluster.html", "docs/performance.html", "GLOSSARY.html", "CHANGELOG.html")
LOCAL_RULES = RULES.replace("axe.run()", "axe.run({ preload: false })")  # files may not fetch files


def made(w):
    site = (w.build / "web/site").resolve()
    subprocess.run([sys.executable, ROOT / "docs/site/site.py", site], check=True, stdout=subprocess.DEVNULL)
    return site


def documents(w):
    """A document that cannot be read: in one of the themes, on a phone, or by who does not see."""
    site = made(w)
    pages = sorted(p.relative_to(site).as_posix() for p in site.rglob("*.html"))
    assert set(LOOKED_AT) <= set(pages), pages
    for scheme in ("light", "dark"):
        for width in (1280, 390):
            with opened(w.browser, site.as_uri(), "index.html", width=width, scheme=scheme, plain=False) as p:
                for name in LOOKED_AT:
                    p.goto(f"{site.as_uri()}/{name}")
                    assert p.evaluate("document.documentElement.scrollWidth") <= width, (width, name)
                    broken = p.evaluate(f"{AXE}\n;{LOCAL_RULES}")
                    assert not broken, (scheme, width, name, broken)
                    faults = p.evaluate(READABLE)
                    assert not faults, (scheme, width, name, faults)
                    p.screenshot(path=w.build / f"web/site-{pathlib.Path(name).stem}-{width}-{scheme}.png")
    with opened(w.browser, site.as_uri(), "index.html", width=390, plain=False) as p:
        for name in pages:
            p.goto(f"{site.as_uri()}/{name}")
            assert p.evaluate("document.documentElement.scrollWidth") <= 390, name


def finding(w):
    """A field that finds nothing, or leads nowhere from a page in a folder."""
    site = made(w)
    with opened(w.browser, site.as_uri(), "docs/api.html", plain=False) as p:
        p.get_by_role("searchbox").fill("short convolutions")
        found = p.locator("header .find a").first
        expect(found).to_contain_text("Short convolutions")
        found.click()
        expect(p).to_have_url(f"{site.as_uri()}/docs/models.html#short-convolutions")
        expect(p.locator("nav [aria-current]")).to_have_text("Models")


CASES = (documents, finding)
