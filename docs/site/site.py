#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The documents as a site of plain HTML: `make site`, or docs/site/site.py OUT.

Pages are README.md and the tops beside it, docs/, and the maps of all folders, at the places that they have
in the tree; other files that they link to are copied. The list at the side is the section "Reading" of
README.md. All addresses are relative, so the site is read from a disk or under any path, and nothing comes
from elsewhere. Standard library only."""
import html
import json
import os
import pathlib
import posixpath
import re
import shutil
import sys

sys.dont_write_bytecode = True
import folders  # noqa: E402
from markdown import Page  # noqa: E402

HERE = pathlib.Path(__file__).resolve().parent
TREE = HERE.parent.parent
ASIDE = {"build", "models", "__pycache__"}
LOOKS = ("site.css", "find.js")
FRAME = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<link rel="icon" href="{root}icon.svg">
<link rel="stylesheet" href="{root}site.css">
</head>
<body>
<header>
<a class="brand" href="{root}index.html">Tandem</a>
<a class="menu" href="#pages">All pages</a>
</header>
<div class="page">
<main>
{body}
</main>
<nav id="pages" aria-label="Pages">
{pages}
</nav>
</div>
<script src="{root}find.js" data-root="{root}"></script>
</body>
</html>
"""


def documents():
    """The tops, what stands in docs/, and each folder's map."""
    found = [*TREE.glob("*.md"), *(TREE / "docs").glob("*.md")]
    for at, below, names in os.walk(TREE):
        below[:] = [b for b in below if b not in ASIDE and b[0] != "."]
        found += [pathlib.Path(at, n) for n in names if n == "README.md"]
    return sorted({p.relative_to(TREE).as_posix() for p in found})


def place(source):
    """Where a file of the tree lies in the site."""
    folder, name = posixpath.split(source)
    if name == "README.md":
        name = "index.html"
    return posixpath.join(folder, re.sub(r"\.md$", ".html", name))


def reading():
    """The groups of the section "Reading": (name, [(text, address)])."""
    text = (TREE / "README.md").read_text().split("\n## Reading\n")[1].split("\n## ")[0]
    return [(m[1], re.findall(r"\[([^\]]+)\]\(([^)]+)\)", m[2]))
            for m in re.finditer(r"^- \*\*(.+?)\*\*:(.*?)(?=^- |^$|\Z)", text, re.M | re.S)]


class Site:
    """out: the folder it is written to. copied: files that pages link to. sections: of all pages, for who
    looks for words: [address, page, heading, text]."""

    def __init__(self, out):
        self.out, self.sources, self.copied, self.sections = out, documents(), set(), []
        self.groups = reading()

    def leads(self, source, address):
        """What an address in a document is in its page."""
        if re.match(r"[a-z]+:|#", address):
            return address
        path, _, fragment = address.partition("#")
        path = posixpath.normpath(posixpath.join(posixpath.dirname(source), path))
        if (TREE / path).is_dir():
            path += "/README.md"
        if not (TREE / path).is_file():
            raise SystemExit(f"{source}: {address} leads nowhere")
        if path not in self.sources:
            self.copied.add(path)
        to = posixpath.relpath(place(path), posixpath.dirname(place(source)) or ".")
        return to + (f"#{fragment}" if fragment else "")

    def from_top(self, source, address):
        """The same of an address in README.md, for another page."""
        return self.leads(source, posixpath.relpath(address, posixpath.dirname(source) or "."))

    def pages(self, source, page):
        """The list at the side, with the parts of the page that is shown."""
        out = []
        for name, links in [("Tandem", [("begin", "README.md")]), *self.groups]:
            out.append(f"<p>{html.escape(name)}</p>\n<ul>")
            for text, to in links:
                here, parts = to == source, ""
                if here:
                    parts = "".join(f'<li><a href="#{at}">{html.escape(t)}</a></li>'
                                    for level, at, t in page.headings if level == 2)
                out.append(f'<li><a href="{html.escape(self.from_top(source, to))}"'
                           f'{" aria-current=page" if here else ""}>'
                           f"{html.escape(text[0].upper() + text[1:])}</a>{parts and f'<ul>{parts}</ul>'}</li>")
            out.append("</ul>")
        return "\n".join(out)

    def picture(self, source, name):
        def link(folder):
            has = f"{folder}/README.md" in self.sources
            return self.from_top(source, f"{folder}/README.md") if has else None

        return {"folders": folders.draw}[name](TREE, link)

    def index(self, source, page):
        """What is found of a page: its sections, without marks."""
        parts = re.split(r'<h[1-6] id="([^"]+)">(.*?)</h[1-6]>', page.html, flags=re.S)
        title = page.headings[0][2]
        for at, heading, body in zip(parts[1::3], parts[2::3], parts[3::3]):
            words = [" ".join(html.unescape(re.sub(r"<[^>]+>", " ", t)).split()) for t in (heading, body)]
            self.sections.append([f"{place(source)}#{at}", title, *words])

    def write_page(self, source):
        page = Page((TREE / source).read_text(), lambda to: self.leads(source, to),
                    lambda name: self.picture(source, name))
        self.index(source, page)
        path = self.out / place(source)
        path.parent.mkdir(parents=True, exist_ok=True)
        root = "../" * place(source).count("/")
        path.write_text(FRAME.format(title=html.escape(page.headings[0][2]), root=root, body=page.html,
                                     pages=self.pages(source, page)))

    def write(self):
        """The order of finding is that of the list; maps of folders come last."""
        listed = ["README.md", *(to for _, links in self.groups for _, to in links)]
        for source in sorted(self.sources, key=lambda s: (listed.index(s) if s in listed else len(listed), s)):
            self.write_page(source)
        for name in LOOKS:
            shutil.copy(HERE / name, self.out / name)
        shutil.copy(TREE / "clients/web/icon.svg", self.out / "icon.svg")
        (self.out / "sections.js").write_text(
            f"var SECTIONS = {json.dumps(self.sections, ensure_ascii=False, separators=(',', ':'))};\n")
        for path in self.copied:
            (self.out / path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(TREE / path, self.out / path)


def main():
    if len(sys.argv) != 2:
        raise SystemExit(f"usage: {sys.argv[0]} OUT")
    out = pathlib.Path(sys.argv[1])
    out.mkdir(parents=True, exist_ok=True)
    site = Site(out)
    site.write()
    print(f"{out}/index.html: {len(site.sources)} pages, {len(site.copied)} files that they link to")


if __name__ == "__main__":
    main()
