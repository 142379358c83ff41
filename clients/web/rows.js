// SPDX-License-Identifier: Apache-2.0
// The rows of a training file as a job would take them, one at a time: of examples the tokens, and which of
// them are trained; of pairs and prompts what they say. The first ones of a file are read here; an example
// of one that the server has is asked for by number.
import { el, fault, plural } from "./dom.js";
import { ApiError, post, request } from "./api.js";

const READ_BYTES = 8 << 20; // of a file; rows behind it are sent, and not shown

// The lines of a text that hold something, and whether they are all of the file.
function linesOf(text, isAll) {
  const lines = text.replace(/^\ufeff/, "").split("\n");
  if (!isAll) lines.pop();
  return { lines: lines.filter(l => l.trim()), isAll };
}

export async function readRows(file) {
  return linesOf(await file.slice(0, READ_BYTES).text(), file.size <= READ_BYTES);
}

// The same of a file that the server has.
export async function readKept(id) {
  const stop = new AbortController();
  const response = await request(`v1/files/${encodeURIComponent(id)}/content`, { signal: stop.signal });
  const reader = response.body.getReader(), parts = [];
  for (let n = 0; n <= READ_BYTES;) {
    const { value, done } = await reader.read();
    if (done) return linesOf(await new Blob(parts).text(), true);
    parts.push(value);
    n += value.length;
  }
  stop.abort();
  return linesOf(await new Blob(parts).slice(0, READ_BYTES).text(), false);
}

// What to ask the preview for: row i of lines that are here.
function local(lines, i) {
  try {
    return { row: JSON.parse(lines[i]) };
  } catch (e) {
    throw new ApiError(`Example ${i + 1} is no JSON: ${e.message}`);
  }
}

function legend(p) {
  const more = p.cut_tokens ? ` · ${plural(p.cut_tokens, "token")} cut off` : "";
  return el("p", { class: "legend" },
            el("span", {}, el("mark", { class: "learned" }, "trained"),
               ` ${plural(p.trained_tokens, "token")}`),
            el("span", {}, el("mark", {}, "only read"), ` ${p.total_tokens - p.trained_tokens}${more}`));
}

function mask(p) {
  const parts = [];
  for (let i = 0, from = 0; i < p.texts.length; i++)
    if (i + 1 === p.texts.length || p.weights[i + 1] !== p.weights[from]) {
      parts.push(el("span", { class: p.weights[from] ? "learned" : null },
                    ...p.texts.slice(from, i + 1).filter(Boolean).map(t => el("span", {}, t))));
      from = i + 1;
    }
  return el("div", { class: "mask", tabindex: 0, role: "group", "aria-label": "The row" }, ...parts);
}

const PARTS = { dpo: [["input", ""], ["preferred_output", "Preferred"],
                      ["non_preferred_output", "Not preferred"]],
                reinforcement: [["messages", ""]] };
const JUDGED = [["messages", ""]]; // of preferences without pairs

// A row that is no example: the conversation, what stands behind it, and what is left for a grader.
function shownRow(row, method) {
  const turns = v => Array.isArray(v) ? v : Array.isArray(v?.messages) ? v.messages : [];
  const isPair = row.preferred_output || row.non_preferred_output;
  const left = { ...row }, parts = [];
  for (const [name, title] of method === "dpo" && !isPair ? JUDGED : PARTS[method]) {
    for (const t of turns(row[name]))
      parts.push(el("div", {}, el("dt", {}, title || String(t?.role ?? "")),
                    el("dd", { class: title === "Preferred" ? "learned" : null },
                       typeof t?.content === "string" ? t.content : JSON.stringify(t))));
    delete left[name];
  }
  if (Object.keys(left).length)
    parts.push(el("div", {}, el("dt", {}, method === "dpo" ? "Besides" : "For the grader"), el("dd", {}, JSON.stringify(left))));
  return el("dl", { class: "mask said", tabindex: 0, role: "group", "aria-label": "The row" }, ...parts);
}

// Fills a box with a viewer. source: {lines, isAll} of a file, and its id where the server has it.
export function showRows(box, source, method) {
  const { lines, isAll, id } = source, isEndless = id && !isAll && !PARTS[method];
  const n = isEndless ? Infinity : lines.length;
  const at = el("input", { type: "number", min: 1, max: isAll ? n : null, value: 1,
                           "aria-label": "Example" });
  const step = by => { at.value = Math.max(1, Math.min(Number(at.value) + by, n)); load(); };
  const body = el("div", { "aria-live": "polite" });
  let turn = 0; // only the newest question's answer is shown

  async function load() {
    const mine = ++turn, i = Math.max(1, Math.min(Math.floor(Number(at.value)) || 1, n));
    let shown;
    try {
      if (n === 0) throw new ApiError("The file has no rows.");
      if (PARTS[method]) shown = [shownRow(local(lines, i - 1).row ?? {}, method)];
      else {
        const p = await post("v1/fine_tuning/preview",
                             id ? { training_file: id, example: i } : local(lines, i - 1));
        shown = [legend(p), mask(p), ...p.notes.map(t => el("p", { class: "note" }, t))];
      }
    } catch (e) {
      shown = [fault(e)];
    }
    if (mine === turn) body.replaceChildren(...shown);
  }

  at.addEventListener("change", load);
  const count = `of ${lines.length.toLocaleString("en")}${isAll ? "" : " and more"}`;
  box.replaceChildren(
    el("div", { class: "rows-bar" }, "Example", at, el("span", {}, count),
       el("button", { type: "button", onclick: () => step(-1), "aria-label": "Previous example" }, "‹"),
       el("button", { type: "button", onclick: () => step(1), "aria-label": "Next example" }, "›")),
    body);
  box.hidden = false;
  return load();
}
