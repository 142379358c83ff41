// SPDX-License-Identifier: Apache-2.0
// Lines over time or steps, as SVG: a chart with axes that can be read off, and small ones without.
import { el, number, svg } from "./dom.js";

const POINTS_MOST = 600, EDGE = { left: 44, right: 12, top: 10, bottom: 24 };

// Two to six round values that span [low, high].
export function ticks(low, high, wanted = 4) {
  const raw = (high - low || Math.abs(high) || 1) / wanted, power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].find(m => m * power >= raw) * power, out = [];
  for (let v = Math.ceil(low / step - 1e-9) * step; v <= high + step * 1e-9; v += step)
    out.push(Math.abs(v) < step / 1e6 ? 0 : v);
  return out;
}

// Of a logarithmic axis: powers of ten, and where they are few 2 and 5 of each.
export function logTicks(low, high) {
  const from = Math.floor(Math.log10(low)), to = Math.ceil(Math.log10(high)), out = [];
  for (let d = from; d <= to; d++)
    for (const m of to - from > 3 ? [1] : [1, 2, 5])
      if (m * 10 ** d >= low * 0.999 && m * 10 ** d <= high * 1.001) out.push(m * 10 ** d);
  return out;
}

// Of many points the means of as many groups as can be seen apart.
function thinned(points) {
  const n = Math.ceil(points.length / POINTS_MOST);
  if (n < 2) return points;
  const out = [];
  for (let i = 0; i < points.length; i += n) {
    const group = points.slice(i, i + n);
    out.push([group.at(-1)[0], group.reduce((sum, p) => sum + p[1], 0) / group.length]);
  }
  return out;
}

// What noise hides: each point the mean of those before it, the late ones counting most.
export function smoothed(points) {
  const keep = Math.min(0.95, 1 - 4 / (points.length + 4));
  let mean = 0, weight = 0;
  return points.map(([x, y]) => {
    mean = keep * mean + (1 - keep) * y;
    weight = keep * weight + (1 - keep);
    return [x, mean / weight];
  });
}

const path = (points, x, y) =>
  points.map((p, i) => `${i ? "L" : "M"}${x(p[0]).toFixed(1)} ${y(p[1]).toFixed(1)}`).join("");

// What an axis spans: from zero on, so that a height is a share of another; a logarithmic one has no
// zero, and spans what there is.
function bounds(values, isLog) {
  const low = Math.min(...values), high = Math.max(...values);
  if (isLog) return low === high ? [low / 2, high * 2] : [low, high];
  return [Math.min(0, low), high > 0 ? high : low < 0 ? 0 : 1];
}

// A chart in a box; draw(series, xMost) draws [{name, kind, points, marks}]. What lies under the
// pointer, or where the arrow keys went, is read off. empty: what is said where there is nothing yet.
export class Chart {
  constructor(label, xName, empty) {
    this.root = svg("svg", { class: "chart", role: "img", "aria-label": label, tabindex: 0 });
    this.reading = el("p", { class: "reading", role: "status" });
    this.isLog = el("input", { type: "checkbox", onchange: () => this.draw(this.series, this.xMost) });
    this.switch = el("label", { class: "switch" }, this.isLog, "Logarithmic");
    this.empty = el("p", { class: "empty" }, empty);
    this.box = el("figure", {}, this.empty, this.root,
                  el("div", { class: "below" }, this.reading, this.switch));
    this.root.toggleAttribute("hidden", true);
    this.switch.hidden = true;
    this.label = label;
    this.xName = xName;
    this.series = [];
    this.at = null;
    this.root.addEventListener("pointermove", e => this.point(e.offsetX));
    this.root.addEventListener("pointerleave", () => this.read(null));
    this.root.addEventListener("blur", () => this.read(null));
    this.root.addEventListener("keydown", e => this.key(e));
    new ResizeObserver(() => this.draw(this.series, this.xMost)).observe(this.box);
  }

  draw(series, xMost) {
    this.series = series.filter(s => s.points.length);
    this.xMost = xMost;
    const w = this.box.clientWidth, h = 220, all = this.series.flatMap(s => s.points);
    if (!w || !all.length) return;
    for (const [node, hides] of [[this.root, false], [this.switch, false], [this.empty, true]])
      node.toggleAttribute("hidden", hides);
    const values = thinned(all).map(p => p[1]);
    const isLog = this.isLog.checked && values.every(v => v > 0), height = isLog ? Math.log10 : v => v;
    const [low, high] = bounds(values, isLog), [x0] = all[0];
    const x1 = Math.max(xMost ?? 0, ...this.series.map(s => s.points.at(-1)[0]), x0 + 1);
    this.x = v => EDGE.left + (v - x0) / (x1 - x0) * (w - EDGE.left - EDGE.right);
    const share = v => (height(v) - height(low)) / (height(high) - height(low));
    this.y = v => h - EDGE.bottom - share(v) * (h - EDGE.top - EDGE.bottom);
    const across = (isLog ? logTicks : ticks)(low, high).map(v => [
      svg("line", { class: "grid", x1: EDGE.left, x2: w - EDGE.right, y1: this.y(v), y2: this.y(v) }),
      svg("line", { class: "axis", x1: EDGE.left - 4, x2: EDGE.left, y1: this.y(v), y2: this.y(v) }),
      svg("text", { x: EDGE.left - 8, y: this.y(v) + 4, "text-anchor": "end" }, number(v))]);
    const foot = h - EDGE.bottom;
    const along = ticks(x0, x1, w < 500 ? 3 : 6).filter(Number.isInteger).map(v => [
      svg("line", { class: "axis", x1: this.x(v), x2: this.x(v), y1: foot, y2: foot + 4 }),
      svg("text", { x: this.x(v), y: h - 6, "text-anchor": "middle" }, number(v))]);
    const axes = [
      svg("line", { class: "axis", x1: EDGE.left, x2: EDGE.left, y1: EDGE.top, y2: foot }),
      svg("line", { class: "axis", x1: EDGE.left, x2: w - EDGE.right, y1: foot, y2: foot })];
    const lines = this.series.map(s => s.marks
      ? s.points.map(p => svg("circle", { class: s.kind, cx: this.x(p[0]), cy: this.y(p[1]), r: 3.5 }))
      : svg("path", { class: s.kind, d: path(thinned(s.points), this.x, this.y) }));
    this.cursor = svg("line", { class: "cursor", y1: EDGE.top, y2: h - EDGE.bottom });
    this.root.setAttribute("viewBox", `0 0 ${w} ${h}`);
    this.root.replaceChildren(...across.flat(), ...along.flat(), ...axes, ...lines.flat(), this.cursor);
    this.read(this.at);
  }

  point(px) {
    const points = this.series[0]?.points ?? [];
    let best = null;
    for (let i = 0; i < points.length; i++)
      if (best === null || Math.abs(this.x(points[i][0]) - px) < Math.abs(this.x(points[best][0]) - px))
        best = i;
    this.read(best);
  }

  key(event) {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key], n = this.series[0]?.points.length;
    if (!step || !n) return;
    this.read(Math.max(0, Math.min((this.at ?? (step > 0 ? -1 : n)) + step, n - 1)));
    event.preventDefault();
  }

  // The values at point `at` of the first series; null: the last ones.
  read(at) {
    const first = this.series[0]?.points;
    if (!first) return;
    this.at = at;
    const x = (at === null ? first.at(-1) : first[at])[0];
    const here = this.series.map(s => {
      const p = at === null ? s.points.at(-1) : s.points.findLast(q => q[0] <= x);
      return p && el("span", {}, el("i", { class: `dot ${s.kind}` }), `${s.name} ${number(p[1])} `);
    });
    this.reading.replaceChildren(el("span", {}, `${this.xName} ${x.toLocaleString("en")} `),
                                 ...here.filter(Boolean));
    this.root.setAttribute("aria-label", `${this.label}: ${this.reading.textContent}`);
    const px = at === null ? -9 : this.x(x);
    this.cursor.setAttribute("x1", px);
    this.cursor.setAttribute("x2", px);
  }
}

// Lines without axes from 0 up, the newest value at the right edge. layers: [{kind, values}], each
// drawn on top of those before it where `stacked` says so.
export function spark(layers, { most, length, stacked }) {
  const w = 240, h = 44, sums = Array(length).fill(0), out = [];
  const high = most ?? Math.max(1e-9, ...layers.flatMap(l => l.values.filter(Number.isFinite)));
  const x = i => w - (length - 1 - i) * w / (length - 1), y = v => h - 1 - Math.min(1, v / high) * (h - 3);
  for (const { kind, values } of layers) {
    const shift = length - values.length, base = [...sums], points = [];
    values.forEach((v, i) => {
      if (!Number.isFinite(v)) return;
      const at = i + shift;
      if (stacked) sums[at] += v;
      points.push([at, stacked ? sums[at] : v]);
    });
    if (!points.length) continue;
    const floor = points.map(p => [p[0], stacked ? base[p[0]] : 0]).reverse();
    out.unshift(svg("path", { class: `${kind} area`, d: `${path([...points, ...floor], x, y)}Z` }),
                svg("path", { class: kind, d: path(points, x, y) }));
  }
  out.unshift(svg("line", { x1: 0, x2: w, y1: h - 0.5, y2: h - 0.5 }));
  return svg("svg", { class: "spark", viewBox: `0 0 ${w} ${h}`, preserveAspectRatio: "none",
                      "aria-hidden": "true" }, ...out);
}
