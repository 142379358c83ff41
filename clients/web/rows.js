// SPDX-License-Identifier: Apache-2.0
// The rows of a training file as a job would take them, one at a time: its tokens, and which of them
// are trained. A file is read here before it is sent; one that the server has is asked for by number.
import { el, fault, plural } from "./dom.js";
import { ApiError, post } from "./api.js";

const READ_BYTES = 8 << 20; // of a file; rows behind it are sent, and not shown

// The lines of a file that hold something, and whether they are all.
export async function readRows(file) {
  const text = await file.slice(0, READ_BYTES).text(), isAll = file.size <= READ_BYTES;
  const lines = text.replace(/^\ufeff/, "").split("\n");
  if (!isAll) lines.pop();
  return { lines: lines.filter(l => l.trim()), isAll };
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

// Fills a box with a viewer. source: {lines, isAll} of a file here, or {id} of one at the server.
export function showRows(box, source) {
  const { lines, isAll, id } = source, n = lines?.length ?? Infinity;
  const at = el("input", { type: "number", min: 1, max: lines ? n : null, value: 1,
                           "aria-label": "Example" });
  const step = by => { at.value = Math.max(1, Math.min(Number(at.value) + by, n)); load(); };
  const body = el("div", { "aria-live": "polite" });
  let turn = 0; // only the newest question's answer is shown

  async function load() {
    const mine = ++turn, i = Math.max(1, Math.min(Math.floor(Number(at.value)) || 1, n));
    let shown;
    try {
      if (n === 0) throw new ApiError("The file has no rows.");
      const p = await post("v1/fine_tuning/preview",
                           lines ? local(lines, i - 1) : { training_file: id, example: i });
      shown = [legend(p), mask(p), ...p.notes.map(t => el("p", { class: "note" }, t))];
    } catch (e) {
      shown = [fault(e)];
    }
    if (mine === turn) body.replaceChildren(...shown);
  }

  at.addEventListener("change", load);
  const count = !lines ? "" : `of ${n.toLocaleString("en")}${isAll ? "" : " and more"}`;
  box.replaceChildren(
    el("div", { class: "rows-bar" }, "Example", at, el("span", {}, count),
       el("button", { type: "button", onclick: () => step(-1), "aria-label": "Previous example" }, "‹"),
       el("button", { type: "button", onclick: () => step(1), "aria-label": "Next example" }, "›")),
    body);
  box.hidden = false;
  return load();
}
