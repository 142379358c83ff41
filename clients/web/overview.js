// SPDX-License-Identifier: Apache-2.0
// What the server does now, drawn from /metrics once a second while it is looked at.
import { $, bytes, el, fault, number, percent, plural, seconds } from "./dom.js";
import { request } from "./api.js";
import { parse, quantile, rise } from "./metrics.js";
import { spark } from "./chart.js";

const EVERY_MS = 1000, LENGTH = 90, WINDOW = 30; // samples drawn; samples that latencies are of

let samples = []; // [{at, m}], the newest last
let history = {}; // name -> values, the newest last
let timer = null;

const last = () => samples.at(-1), before = n => samples[Math.max(0, samples.length - 1 - n)];

const value = name => last().m.get(name) ?? NaN;

function rate(name) {
  const a = before(1), b = last();
  return b.at > a.at ? rise(b.m, a.m, name) / (b.at - a.at) : 0;
}

const latency = (name, q) => quantile(last().m, before(WINDOW).m, name, q);

const held = who => Math.min(1, rate(`tandem_gate_held_seconds_total{class="${who}"}`));

function late(name) {
  const most = latency(name, 0.95);
  return Number.isFinite(most) ? `95% below ${seconds(most)}` : "no answers of late";
}

function hits() {
  const share = rise(last().m, before(WINDOW).m, "tandem_prefix_cache_hits_total") /
                rise(last().m, before(WINDOW).m, "tandem_prefix_cache_queries_total");
  return Number.isFinite(share) ? `${percent(share)} of prompts found` : "no prompts of late";
}

// Each tile: what it is called, how its number is written, what stands below it, and its lines.
// A line's value is taken with each sample.
const TILES = [
  { name: "Streams", text: v => number(v[0]), lines: [["serve", () => value("tandem_requests_running")]],
    note: () => `${number(value("tandem_requests_waiting"))} waiting` },
  { name: "Generated", unit: "tokens/s", text: v => number(v[0]),
    lines: [["serve", () => rate("tandem_generation_tokens_total")]],
    note: () => `${number(rate("tandem_prompt_tokens_total"))} tokens/s of prompts` },
  { name: "First token", text: v => seconds(v[0]),
    lines: [["serve", () => latency("tandem_time_to_first_token_seconds", 0.5)]],
    note: () => late("tandem_time_to_first_token_seconds") },
  { name: "Between tokens", text: v => seconds(v[0]),
    lines: [["serve", () => latency("tandem_inter_token_latency_seconds", 0.5)]],
    note: () => late("tandem_inter_token_latency_seconds") },
  { name: "Compute threads", most: 1, stacked: true, wide: true, text: v => percent(v[0] + v[1]),
    lines: [["serve", () => held("serve")], ["train", () => held("train")]],
    note: v => [el("span", { class: "dot serve" }), `serving ${percent(v[0])}`,
                el("span", { class: "dot train" }), `training ${percent(v[1])}`,
                el("span", { class: "dot" }), `idle ${percent(Math.max(0, 1 - v[0] - v[1]))}`] },
  { name: "Keys and values", most: 1, stacked: true, text: v => percent(v[0]),
    lines: [["serve", () => value("tandem_kv_cache_usage_ratio")],
            ["faint", () => value("tandem_kv_cache_kept_ratio")]],
    note: v => `${percent(v[1])} kept · ${hits()}` },
  { name: "Trained", unit: "tokens/s", text: v => number(v[0]),
    lines: [["train", () => rate("tandem_training_tokens_total")]],
    note: () => `${number(rate("tandem_training_steps_total"))} steps/s` },
];

function build() {
  for (const t of TILES) {
    t.number = el("span", { class: "big" }, "–");
    t.below = el("p", { class: "hint" });
    t.plot = el("div", { class: "plot" });
    t.box = el("section", { class: `card tile ${t.wide ? "wide" : ""}`, "aria-label": t.name },
               el("h2", {}, t.name),
               el("p", { class: "figure" }, t.number, t.unit && ` ${t.unit}`), t.plot, t.below);
    history[t.name] = t.lines.map(() => []);
  }
  $("tiles").replaceChildren(...TILES.map(t => t.box));
}

function draw() {
  for (const t of TILES) {
    const now = t.lines.map(([, take]) => take()), kept = history[t.name];
    now.forEach((v, i) => { kept[i] = [...kept[i], v].slice(-LENGTH); });
    t.number.textContent = t.text(now);
    t.below.replaceChildren(...[t.note(now)].flat());
    t.plot.replaceChildren(spark(t.lines.map(([kind], i) => ({ kind, values: kept[i] })),
                                 { most: t.most, length: LENGTH, stacked: t.stacked }));
  }
  $("overview-state").textContent = [
    plural(value("tandem_http_connections"), "connection"),
    `${rate("process_cpu_seconds_total").toFixed(1)} cores`,
    bytes(value("process_resident_memory_bytes")),
    `up ${seconds(Math.floor(Date.now() / 1000 - value("process_start_time_seconds")))}`].join(" · ");
}

async function look() {
  clearTimeout(timer);
  try {
    const m = parse(await (await request("metrics")).text());
    if (timer === null) return; // left meanwhile
    samples = [...samples, { at: performance.now() / 1000, m }].slice(-WINDOW - 1);
    draw();
    $("overview-fault").replaceChildren();
  } catch (e) {
    $("overview-fault").replaceChildren(fault(e));
    if (e.status === 401 || e.status === 403) return;
  }
  if (timer !== null) timer = setTimeout(look, EVERY_MS);
}

export function enter() {
  if (timer === null) {
    timer = 0;
    look();
  }
}

export function leave() {
  clearTimeout(timer);
  timer = null;
}

export function start() {
  build();
}
