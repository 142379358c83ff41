// SPDX-License-Identifier: Apache-2.0
// What GET /metrics says: values, and what can be known from two of its answers.

const LINE = /^([a-zA-Z_:][\w:]*)(?:\{(.*)\})? (\S+)$/;

// A Map from a name, or a name with one label as name{label="value"}, to the sum of its samples.
export function parse(text) {
  const out = new Map(), add = (name, v) => out.set(name, (out.get(name) ?? 0) + v);
  for (const line of text.split("\n")) {
    const m = LINE.exec(line);
    if (!m || !/^(tandem_|process_)/.test(m[1])) continue;
    add(m[1], Number(m[3]));
    for (const [label] of (m[2] ?? "").matchAll(/\w+="(?:[^"\\]|\\.)*"/g))
      add(`${m[1]}{${label}}`, Number(m[3]));
  }
  return out;
}

export const rise = (now, before, name) => (now.get(name) ?? 0) - (before.get(name) ?? 0);

// A quantile of what a histogram counted between two answers; NaN when that was nothing.
export function quantile(now, before, name, q) {
  const buckets = [];
  for (const key of now.keys()) {
    const m = key.startsWith(`${name}_bucket{le="`) && /le="(.*)"/.exec(key);
    if (m) buckets.push([m[1] === "+Inf" ? Infinity : Number(m[1]), rise(now, before, key)]);
  }
  buckets.sort((a, b) => a[0] - b[0]);
  const total = buckets.at(-1)?.[1];
  if (!total) return NaN;
  let low = 0, below = 0;
  for (const [high, n] of buckets) {
    if (n >= q * total)
      return high === Infinity ? low : low + (high - low) * (q * total - below) / (n - below);
    [low, below] = [high, n];
  }
  return low;
}
