# SPDX-License-Identifier: Apache-2.0
"""Bars beside a limit, as SVG that takes its colours from the page around it."""
import html
import math

LABEL, PLOT, RIGHT, BAR, GAP = 210, 470, 90, 22, 10


def ticks(most):
    """Round numbers from 0 up to `most`, four or five of them."""
    step = 10 ** math.floor(math.log10(most))
    step = next(s for s in (step / 5, step / 2, step, 2 * step, 5 * step) if most / s <= 5)
    return [i * step for i in range(int(most / step) + 1)]


def number(v):
    return f"{v:,.0f}" if v >= 100 else f"{v:.1f}" if v >= 10 else f"{v:.2g}"


def bars(title, unit, rows, limit=None):
    """rows: (label, value, whose); whose is "tandem" or a peer. limit: (value, what it is), a line across."""
    top = max([v for _, v, _ in rows] + ([limit[0]] if limit else [])) or 1
    most = top * 1.04
    high = 34 + len(rows) * (BAR + GAP) + 34
    wide = LABEL + PLOT + RIGHT

    def x(v):
        return LABEL + PLOT * v / most

    out = [f'<svg viewBox="0 0 {wide} {high}" width="{wide}" height="{high}" role="img" '
           f'aria-label="{html.escape(title)}, {html.escape(unit)}">']
    for t in ticks(most):
        out.append(f'<path class="grid" d="M{x(t):.1f} 26V{high - 30}"/>'
                   f'<text class="tick" x="{x(t):.1f}" y="{high - 14}" text-anchor="middle">{number(t)}</text>')
    for i, (label, value, whose) in enumerate(rows):
        y = 34 + i * (BAR + GAP)
        share = f" ({100 * value / limit[0]:.0f}%)" if limit and unit != "%" else ""
        out.append(f'<text x="{LABEL - 8}" y="{y + 16}" text-anchor="end">{html.escape(label)}</text>'
                   f'<rect class="{whose}" x="{LABEL}" y="{y}" width="{max(x(value) - LABEL, 1):.1f}" height="{BAR}" rx="3"/>'
                   f'<text class="value" x="{x(value) + 6:.1f}" y="{y + 16}">{number(value)}{share}</text>')
    if limit:
        out.append(f'<path class="limit" d="M{x(limit[0]):.1f} 22V{high - 30}"/>'
                   f'<text class="limit" x="{x(limit[0]):.1f}" y="16" text-anchor="end">'
                   f"{html.escape(limit[1])}: {number(limit[0])}</text>")
    return "\n".join(out) + "\n</svg>"
