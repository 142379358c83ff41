# SPDX-License-Identifier: Apache-2.0
"""The folders of the program and who includes whom, drawn from the #include lines of the tree.

Boxes are the folders of tests/lint/layers.txt. A folder stands above all that it includes. Of the arrows
only those are drawn that do not follow from others: where a includes b and b includes c, none from a to c."""
import html
import re

INCLUDE = re.compile(r'^\s*#\s*include "([^"]+)"', re.M)
WIDTH, HEIGHT, GAP, RISE, EDGE = 132, 30, 14, 62, 8


def layers(tree):
    """The names of layers that are folders, the longest first."""
    rows = [row.split("<")[0].strip() for row in (tree / "tests/lint/layers.txt").read_text().splitlines()
            if row and row[0] != "#"]
    return sorted(rows, key=len, reverse=True)


def includes(tree):
    """folder -> {folder that it includes: by how many lines}."""
    names = layers(tree)

    def owner(path):
        return next((n for n in names if path.startswith(n + "/")), None)

    found = {n: {} for n in names}
    for path in sorted(p for n in {n.split("/")[0] for n in names} for p in (tree / n).rglob("*")):
        if path.suffix not in (".c", ".h", ".def", ".inc"):
            continue
        mine = owner(path.relative_to(tree).as_posix())
        for name in INCLUDE.findall(path.read_text()):
            theirs = owner(name)
            # who has a face in the folder above, as engine/train has engine/tune.h, includes what it fulfils
            if mine and theirs and not f"{mine}/".startswith(f"{theirs}/"):
                found[mine][theirs] = found[mine].get(theirs, 0) + 1
    return found


def depths(found):
    """folder -> the longest way down from it, 0 where it includes none."""
    known = {}

    def depth(name):
        if name not in known:
            known[name] = 0  # a ring, which the lint does not let be, would end here
            known[name] = 1 + max(map(depth, found[name]), default=-1)
        return known[name]

    for name in found:
        depth(name)
    return known


def needed(found):
    """Arrows that do not follow from others."""
    below = {}

    def reach(name):
        if name not in below:
            below[name] = set()
            below[name] = set(found[name]).union(*map(reach, found[name]))
        return below[name]

    return [(a, b) for a in sorted(found) for b in sorted(found[a])
            if not any(b in reach(c) for c in found[a] if c != b)]


def places(found, arrows):
    """folder -> (x, y) of its box: a row for each depth, in a row near what it is tied to."""
    depth = depths(found)
    rows = [sorted(n for n in found if depth[n] == d) for d in range(max(depth.values()) + 1)]
    tied = {n: [b for a, b in arrows if a == n] + [a for a, b in arrows if b == n] for n in found}
    at = {n: i - (len(row) - 1) / 2 for row in rows for i, n in enumerate(row)}
    for _ in range(8):
        for row in rows:
            row.sort(key=lambda n: (sum(at[m] for m in tied[n]) / max(len(tied[n]), 1), n))
            at.update({n: i - (len(row) - 1) / 2 for i, n in enumerate(row)})
    middle = max(len(row) for row in rows) / 2
    return {n: (EDGE + (at[n] + middle - 0.5) * (WIDTH + GAP), EDGE + (len(rows) - 1 - depth[n]) * RISE)
            for n in found}


def draw(tree, link):
    """The picture as SVG. link(folder) is where its box leads, or None."""
    found = includes(tree)
    arrows = needed(found)
    at = places(found, arrows)
    wide = max(x for x, _ in at.values()) + WIDTH + EDGE
    high = max(y for _, y in at.values()) + HEIGHT + EDGE
    out = [f'<svg class="folders" viewBox="0 0 {wide:g} {high:g}" width="{wide:g}" height="{high:g}" role="group" '
           f'aria-label="{len(found)} folders of the program, each above those that it includes">']
    for a, b in arrows:
        (x, y), (u, v) = at[a], at[b]
        x, y, u = x + WIDTH / 2, y + HEIGHT, u + WIDTH / 2
        bend = (v - y) / 2
        out.append(f'<path d="M{x:g} {y:g}C{x:g} {y + bend:g} {u:g} {v - bend:g} {u:g} {v:g}">'
                   f"<title>{a} includes {b}: {found[a][b]} lines</title></path>")
    for name, (x, y) in at.items():
        to = link(name)
        box = (f'<rect class="{name.split("/")[0]}" x="{x:g}" y="{y:g}" width="{WIDTH}" height="{HEIGHT}" rx="6"/>'
               f'<text x="{x + WIDTH / 2:g}" y="{y + HEIGHT / 2 + 4:g}">{name}</text>')
        out.append(f'<a href="{html.escape(to)}">{box}</a>' if to else box)
    return "\n".join(out) + "\n</svg>"
