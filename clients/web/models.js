// SPDX-License-Identifier: Apache-2.0
// The models that answer here, and one of them: what it is, what it was made of and what it takes. What
// is shown follows the address: #/models/NAME; of none it is the base.
import { $, bytes, confirmed, el, fault, number, percent, when } from "./dom.js";
import { drop, get, list, loadModels, models, post, request } from "./api.js";
import { parse } from "./metrics.js";
import { useModel } from "./playground.js";
import { state } from "./job.js";

let shown = null; // the name that is wanted, while the view is

const path = name => `#/models/${encodeURIComponent(name)}`;

function showList() {
  const entry = m => el("li", {}, el("a", { class: "row", href: path(m.id),
                                           "aria-current": m.id === shown ? "true" : null },
    el("span", { class: "name" }, m.id), el("span", { class: "hint" }, m.parent ? "adapter" : "base")));
  $("model-list").replaceChildren(...models.map(entry));
}

// What may not be seen by this key, or is not there, is left out.
const maybe = promise => promise.catch(() => null);

// Large counts as people say them.
const count = n =>
  n >= 1e9 ? `${number(n / 1e9)} billion` : n >= 1e6 ? `${number(n / 1e6)} million` : number(n);

function facts(title, rows) {
  const there = rows.filter(([, v]) => v !== null && v !== undefined && v !== "");
  return there.length > 0 && el("section", { class: "card" }, el("h3", {}, title),
    el("dl", { class: "facts" }, there.map(([k, v]) => el("div", {}, el("dt", {}, k), el("dd", {}, v)))));
}

function madeBy(job, m) {
  if (!job) return false;
  const of = job.hyperparameters, checkpoint = /:ckpt-step-(\d+)$/.exec(m.id);
  return facts("Made by", [
    ["Job", el("a", { href: `#/tuning/${job.id}` }, job.id)], ["State", state(job.status)],
    ["Began with", job.model], ["Method", job.method?.type], ["Step", checkpoint?.[1]],
    ["Rank", of.training_type === "full" ? null : of.lora_rank && String(of.lora_rank)],
    ["Epochs", String(of.n_epochs)],
    ["Trained", job.trained_tokens && `${number(job.trained_tokens)} tokens`]]);
}

function memory(ps, metrics) {
  const value = name => metrics?.get(name) ?? null, kv = value("tandem_kv_cache_usage_ratio");
  const resident = value("process_resident_memory_bytes"), held = value("tandem_kv_cache_kept_ratio");
  return facts("Memory of this server", [
    ["Weights", ps && bytes(ps.size)], ["Whole process", resident && bytes(resident)],
    ["Keys and values in use", kv !== null && percent(kv)],
    ["Kept for prompts that come again", held !== null && percent(held)]]
    .map(([k, v]) => [k, v || null]));
}

async function forget(name) {
  if (!await confirmed(`Delete ${name}?`, "Requests that run with it end on it; no new ones begin.")) return;
  try {
    await drop(`v1/models/${encodeURIComponent(name)}`);
    location.hash = "#/models";
  } catch (e) {
    $("models-fault").replaceChildren(fault(e));
  }
}

function card(m, { about, ps, jobs, metrics }) {
  const info = about?.model_info ?? {}, kin = about?.details ?? {};
  const base = models.find(x => !x.parent).id, template = about?.template;
  const width = info[`${info["general.architecture"]}.embedding_length`];
  const n = info["general.parameter_count"], words = info[`${info["general.architecture"]}.vocab_size`];
  const job = jobs?.find(j => j.fine_tuned_model === m.id || m.id.startsWith(`${j.fine_tuned_model}:ckpt-`)) ??
              jobs?.find(j => m.id.includes(j.id.slice(-8)));
  return [
    el("div", { class: "job-head" }, el("h2", { class: "title" }, m.id),
      el("p", { class: "hint" }, m.parent ? `An adapter of ${m.parent}` : "The base that is served",
         m.shared && m.parent ? " · for every key" : ""),
      el("div", { class: "actions" },
         el("button", { type: "button", class: "main", onclick: () => useModel(m.id) }, "Try it"),
         m.parent && el("button", { type: "button", onclick: () => useModel(m.id, base) },
                        "Beside the base"),
         m.parent && job && el("button", { type: "button", class: "stop", onclick: () => forget(m.id) },
                               "Delete model"))),
    facts("What it is", [
      ["Family", kin.family], ["Parameters", n && count(n)],
      ["Numbers", kin.quantization_level], ["Context", `${number(m.max_model_len, 6)} tokens`],
      ["Width", width && number(width, 6)], ["Vocabulary", words && number(words, 7)],
      ["Can", about?.capabilities?.join(", ")], [m.parent ? "Made" : "Loaded", when(m.created)],
      ["Fingerprint", el("code", {}, m.fingerprint)]]),
    madeBy(job, m),
    memory(ps, metrics),
    !m.parent && el("section", { class: "card" }, el("h3", {}, "Adapters"),
      models.length > 1 ? el("ul", { class: "list" }, models.filter(x => x.parent).map(x =>
        el("li", {}, el("a", { class: "row", href: path(x.id) }, el("span", { class: "name" }, x.id)))))
      : el("p", { class: "empty" }, "None yet: a fine-tuning job makes one.")),
    template && el("details", {}, el("summary", {}, "Chat template"),
      el("pre", { class: "mask", tabindex: 0, role: "region", "aria-label": "Chat template" }, template))];
}

async function look(name) {
  try {
    await loadModels();
    const m = models.find(x => x.id === name) ?? models[0];
    shown = m.id;
    showList();
    const [about, ps, jobs, metrics] = await Promise.all([
      maybe(post("api/show", { model: m.parent ?? m.id })), maybe(get("api/ps").then(x => x.models[0])),
      maybe(m.parent ? list("v1/fine_tuning/jobs") : Promise.resolve([])),
      maybe(request("metrics").then(r => r.text()).then(parse))]);
    if (shown !== m.id) return; // another is wanted by now, or the view was left
    $("card").replaceChildren(...card(m, { about, ps, jobs, metrics }).filter(Boolean));
    const isOther = name && m.id !== name;
    $("models-fault").replaceChildren(
      ...isOther ? [fault({ message: `${name} does not answer here.` })] : []);
  } catch (e) {
    $("models-fault").replaceChildren(fault(e));
  }
}

export function enter(name) {
  $("models").classList.toggle("deep", name !== "");
  look(name);
}

export function leave() {
  shown = null;
}
