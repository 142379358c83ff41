# SPDX-License-Identifier: Apache-2.0
"""Markdown as our pages are written, made HTML: headings, paragraphs, lists, tables, code, quotations; in
a line code, links, pictures, strong and slanted words. Markup of a page's own is shown as text, but for
comments, which are dropped. An address of a heading is the one that GitHub gives it."""
import html
import re

FENCE = re.compile(r"```(\w*)$")
HEADING = re.compile(r"(#{1,6}) +(.+?)#*$")
ITEM = re.compile(r"( {0,3})([-*]|\d+\.) +")
RULE = re.compile(r"\|?[ :|-]*-[ :|-]*$")
PICTURE = re.compile(r"<!-- picture: (\w+) -->$")
INLINE = re.compile(r"(?P<escape>\\[!-/:-@\[-`{-~])"
                    r"|(?P<code>(?P<ticks>`+)(?P<inside>.+?)(?P=ticks)(?!`))"
                    r"|(?P<link>(?P<image>!)?\[(?P<text>(?:[^\[\]`]|`[^`]*`|\[[^\]]*\])*)\]\((?P<to>[^\s)]+)\))"
                    r"|(?P<bare><(?P<url>https?://[^>\s]+)>)"
                    r"|(?P<strong>\*\*(?P<loud>.+?)\*\*)"
                    r"|(?P<slanted>(?<![\w*])\*(?P<soft>[^*\s](?:[^*]*[^*\s])?)\*(?![\w*]))", re.S)


def plain(text):
    """A line without its marks."""
    text = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", text)
    return re.sub(r"[`*]", "", text)


def slug(text, taken):
    name = re.sub(r"[^\w\- ]", "", plain(text).lower()).replace(" ", "-")
    n = taken.get(name, 0)
    taken[name] = n + 1
    return f"{name}-{n}" if n else name


class Page:
    """A text: its HTML, its headings as (level, address, text), and where its links lead.

    leads(address) says what an address is in the site; picture(name) draws what stands in place of the
    comment `picture: NAME`."""

    def __init__(self, text, leads, picture=None):
        self.leads, self.picture, self.taken, self.headings = leads, picture, {}, []
        text = re.sub(r"<!--(?! picture: ).*?-->\n?", "", text, flags=re.S)
        self.html = self.blocks(text.expandtabs(4).splitlines())

    def inline(self, text):
        out, end = [], 0
        for m in INLINE.finditer(text):
            out.append(html.escape(text[end:m.start()], quote=False))
            end = m.end()
            if m["escape"]:
                out.append(html.escape(m["escape"][1]))
            elif m["code"]:
                out.append(f"<code>{html.escape(m['inside'].strip(), quote=False)}</code>")
            elif m["image"]:
                out.append(f'<img src="{html.escape(self.leads(m["to"]))}" alt="{html.escape(m["text"])}">')
            elif m["link"]:
                out.append(f'<a href="{html.escape(self.leads(m["to"]))}">{self.inline(m["text"])}</a>')
            elif m["bare"]:
                out.append(f'<a href="{html.escape(m["url"])}">{html.escape(m["url"])}</a>')
            elif m["strong"]:
                out.append(f"<strong>{self.inline(m['loud'])}</strong>")
            else:
                out.append(f"<em>{self.inline(m['soft'])}</em>")
        return "".join(out) + html.escape(text[end:], quote=False)

    def blocks(self, lines):
        out, at = [], 0
        while at < len(lines):
            taken, made = self.block(lines[at:])
            at += taken
            out.append(made)
        return "\n".join(filter(None, out))

    def block(self, lines):
        """(How many lines the first block has, its HTML)."""
        first = lines[0]
        if not first.strip():
            return 1, ""
        if m := HEADING.match(first):
            return 1, self.heading(len(m[1]), m[2].strip())
        if m := PICTURE.match(first):
            return 1, f'<div class="wide" tabindex="0">{self.picture(m[1])}</div>'
        for begins, make in ((FENCE.match(first), self.fenced), (first.startswith("    "), self.indented),
                             (first.startswith(">"), self.quoted), (ITEM.match(first), self.listed),
                             (len(lines) > 1 and "|" in first and RULE.match(lines[1]), self.table)):
            if begins:
                return make(lines)
        n = self.count(lines, lambda s: s.strip() and not (HEADING.match(s) or FENCE.match(s) or s.startswith(">")
                                                           or ITEM.match(s)))
        return n, f"<p>{self.inline(chr(10).join(s.strip() for s in lines[:n]))}</p>"

    @staticmethod
    def count(lines, goes_on):
        """Of what a first line begins, how many lines go on with it."""
        return next((i for i, s in enumerate(lines) if i and not goes_on(s)), len(lines))

    def heading(self, level, text):
        address = slug(text, self.taken)
        self.headings.append((level, address, plain(text)))
        return f'<h{level} id="{address}">{self.inline(text)}</h{level}>'

    @staticmethod
    def code(lines):
        return f'<pre tabindex="0"><code>{html.escape(chr(10).join(lines), quote=False)}</code></pre>'

    def fenced(self, lines):
        end = next((i for i, s in enumerate(lines) if i and s.strip() == "```"), len(lines))
        return end + 1, self.code(lines[1:end])

    def indented(self, lines):
        n = self.count(lines, lambda s: s.startswith("    ") or not s.strip())
        while not lines[n - 1].strip():
            n -= 1
        return n, self.code([s[4:] for s in lines[:n]])

    def quoted(self, lines):
        n = self.count(lines, lambda s: s.startswith(">"))
        return n, f"<blockquote>{self.blocks([re.sub('^> ?', '', s) for s in lines[:n]])}</blockquote>"

    def listed(self, lines):
        """Items up to what is neither an item nor indented below one."""
        kind = "ol" if ITEM.match(lines[0])[2][0].isdigit() else "ul"
        at, items = 0, []
        while at < len(lines) and (m := ITEM.match(lines[at])):
            width, began = m.end(), at
            at += 1
            while at < len(lines) and (self.below(lines[at], width) or self.lazy(lines, at)):
                at += 1
            own = [lines[began][width:], *(s[min(width, len(s) - len(s.lstrip())):] for s in lines[began + 1:at])]
            inside = self.blocks(own)
            alone = re.fullmatch(r"<p>((?:(?!<p>).)*)</p>(\n<[uo]l>.*)?", inside, re.S)
            items.append(f"<li>{alone[1] + (alone[2] or '') if alone else inside}</li>")
            following = self.count(["", *lines[at:]], lambda s: not s.strip()) - 1
            if at + following < len(lines) and following and ITEM.match(lines[at + following]):
                at += following
        return at, f"<{kind}>\n" + "\n".join(items) + f"\n</{kind}>"

    @staticmethod
    def below(line, width):
        return line.startswith(" " * width) and line.strip()

    @staticmethod
    def lazy(lines, at):
        """A line that goes on with the paragraph before it; or an empty one, behind which the item does."""
        here = lines[at]
        if not here.strip():
            return at + 1 < len(lines) and lines[at + 1].startswith("  ") and lines[at + 1].strip() \
                and not ITEM.match(lines[at + 1])
        return lines[at - 1].strip() and not (ITEM.match(here) or HEADING.match(here) or FENCE.match(here))

    def table(self, lines):
        n = self.count(lines, lambda s: "|" in s)
        rows = [self.cells(s) for s in lines[:n]]
        right = [c.endswith(":") for c in rows[1]]

        def row(kind, cells):
            side = [' class="right"' if r else "" for r in right] + [""] * len(cells)
            kinds = ["td" if kind == "td" or not c else 'th scope="col"' for c in cells]
            return "<tr>" + "".join(f"<{k}{s}>{self.inline(c)}</{k[:2]}>"
                                    for k, s, c in zip(kinds, side, cells)) + "</tr>"

        body = "\n".join(row("td", cells) for cells in rows[2:])
        return n, (f'<div class="wide" tabindex="0"><table>\n<thead>{row("th", rows[0])}</thead>\n'
                   f"<tbody>\n{body}\n</tbody></table></div>")

    @staticmethod
    def cells(line):
        """A bar behind a backslash, or in code, parts nothing."""
        parts = re.findall(r"(?:`[^`]*`|\\\||[^|])+|\|", line.strip().strip("|"))
        cells, last = [], "|"
        for part in parts:
            if part != "|":
                cells.append(part.replace(r"\|", "|").strip())
            elif last == "|":
                cells.append("")
            last = part
        return cells + ([""] if last == "|" else [])
