#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The documents as a site, made as `make site` makes it.

Faults they can catch: a link to a page, a file or a heading that is not there; a page that nobody comes to; markup
that does not close, or that a text brought along; something fetched from elsewhere; a table, a list or code
that came out as a paragraph; a folder that the picture of the architecture has lost.

Standard library only."""
import html.parser
import pathlib
import subprocess
import sys
import urllib.parse

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests/lib"), str(ROOT / "docs/site")]
sys.dont_write_bytecode = True
import folders  # noqa: E402
from markdown import Page  # noqa: E402
from serving import Cases, scratch  # noqa: E402

VOID = {"meta", "link", "img", "br", "input"}
SAMPLES = {
    "a *b* **c** `d*e*` f_g_h": "<p>a <em>b</em> <strong>c</strong> <code>d*e*</code> f_g_h</p>",
    "1 < 2 & <script>x</script>": "<p>1 &lt; 2 &amp; &lt;script&gt;x&lt;/script&gt;</p>",
    "# One `two`\n## One": '<h1 id="one-two">One <code>two</code></h1>\n<h2 id="one">One</h2>',
    "## a\n## a": '<h2 id="a">a</h2>\n<h2 id="a-1">a</h2>',
    "- a\n  b\n- c\n\nd": "<ul>\n<li>a\nb</li>\n<li>c</li>\n</ul>\n<p>d</p>",
    "- a\n  - b\n- c": "<ul>\n<li>a\n<ul>\n<li>b</li>\n</ul></li>\n<li>c</li>\n</ul>",
    "1. a\n2. b\n\n       code": '<ol>\n<li>a</li>\n<li><p>b</p>\n<pre tabindex="0"><code>code</code></pre></li>\n</ol>',
    "```sh\n<a> # *b*\n```": '<pre tabindex="0"><code>&lt;a&gt; # *b*</code></pre>',
    "    x < y\n\n    z": '<pre tabindex="0"><code>x &lt; y\n\nz</code></pre>',
    "> a\n> b": "<blockquote><p>a\nb</p></blockquote>",
    "| a | b |\n|---|--:|\n| `x|y` | 1\\|2 |":
        '<div class="wide" tabindex="0"><table>\n<thead><tr><th scope="col">a</th>'
        '<th scope="col" class="right">b</th></tr></thead>\n<tbody>\n'
        '<tr><td><code>x|y</code></td><td class="right">1|2</td></tr>\n</tbody></table></div>',
    "<!-- not run: why -->\n[a](b.md) ![c](d.png)": '<p><a href="b.md">a</a> <img src="d.png" alt="c"></p>',
}


class Reader(html.parser.HTMLParser):
    """Addresses, names and headings of a page; markup that is not closed in its order is a fault."""

    def __init__(self, text):
        super().__init__()
        self.open, self.leads, self.ids, self.levels, self.lists = [], [], [], [], 0
        self.feed(text)
        assert not self.open, f"not closed: {self.open}"

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        self.leads += [attrs[n] for n in ("href", "src") if attrs.get(n)]
        self.ids += [attrs["id"]] if "id" in attrs else []
        self.levels += [int(tag[1])] if tag[0] == "h" and tag[1:].isdigit() else []
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag):
        assert self.open and self.open[-1] == tag, f"</{tag}> closes {self.open[-3:]} at {self.getpos()}"
        self.open.pop()


def rendered():
    for text, wanted in SAMPLES.items():
        made = Page(text, lambda to: to).html
        assert made == wanted, f"{text!r}\n{made}\n{wanted}"
    return f"{len(SAMPLES)} pieces"


def read_all(site):
    return {p.relative_to(site).as_posix(): Reader(p.read_text()) for p in sorted(site.rglob("*.html"))}


def linked(site, pages):
    """Each address leads to a file of the site, and to a heading of it."""
    n, outside = 0, set()
    for name, page in pages.items():
        assert len(page.ids) == len(set(page.ids)), f"{name}: a name stands twice"
        for to in page.leads:
            at = urllib.parse.urlsplit(to)
            if at.scheme:
                outside.add(to)
                continue
            path = (site / name).parent.joinpath(at.path).resolve() if at.path else site / name
            assert path.is_file() and path.is_relative_to(site), f"{name}: {to} leads nowhere"
            key = path.relative_to(site).as_posix()
            assert not at.fragment or at.fragment in pages[key].ids, f"{name}: {to} has no such heading"
            n += 1
    return f"{n} links between {len(pages)} pages, {len(outside)} to elsewhere"


def formed(site, pages):
    """Headings go down a level at a time; what is fetched is the site's own."""
    for name, page in pages.items():
        assert page.levels[:1] == [1] and page.levels.count(1) == 1, (name, page.levels)
        assert all(b <= a + 1 for a, b in zip(page.levels, page.levels[1:])), (name, page.levels)
        text = (site / name).read_text()
        assert "src=\"http" not in text and "@import" not in text and "```" not in text, name
    style = (site / "site.css").read_text()
    assert "url(" not in style and "@import" not in style


def listed(pages):
    """Every document of docs/ is in the list at the side, which each page has."""
    for doc in sorted((ROOT / "docs").glob("*.md")):
        assert f"docs/{doc.stem}.html" in pages["index.html"].leads, f"README's Reading lacks {doc.name}"
    away = {to.split("/")[-1] for to in pages["docs/site/index.html"].leads}
    assert {"api.html", "tuning.html", "ARCHITECTURE.html"} <= away, away


def pictured(site):
    """The picture has each folder that includes or is included, and no arrow upwards."""
    found = folders.includes(ROOT)
    depth = folders.depths(found)
    assert all(depth[b] < depth[a] for a, below in found.items() for b in below)
    assert found["server/routes"]["server/answer"] > 0 and not found["kernels"], found
    arrows = folders.needed(found)
    assert ("engine/op", "kernels") not in arrows and ("engine/base", "kernels") not in arrows, arrows
    text = (site / "ARCHITECTURE.html").read_text()
    assert all(f">{name}</text>" in text for name in found)
    return f"{len(found)} folders, {len(arrows)} arrows"


def main():
    cases = Cases()
    cases.run("Markdown", rendered)
    with scratch() as tmp:
        site = (tmp / "site").resolve()
        p = subprocess.run([sys.executable, "-S", ROOT / "docs/site/site.py", site], cwd=tmp, capture_output=True,
                           text=True, check=False)
        if p.returncode != 0:
            cases.check("make site", False, p.stderr)
            return cases.end()
        pages = {}
        cases.run("markup closes", lambda: pages.update(read_all(site)))
        cases.run("links", lambda: linked(site, pages))
        cases.run("form", lambda: formed(site, pages))
        cases.run("the list", lambda: listed(pages))
        cases.run("the picture", lambda: pictured(site))
    return cases.end()


if __name__ == "__main__":
    sys.exit(main())
