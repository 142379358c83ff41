// SPDX-License-Identifier: Apache-2.0
// Elements made by hand, so that no text is ever read as markup; and how numbers and times are shown.

export const $ = id => document.getElementById(id);

// el("p", { class: "hint", onclick: f }, "text", child): what is null or false is left out.
// A list without marks is none to some readers of screens, unless it says so.
export function el(tag, props = {}, ...children) {
  const role = tag === "ul" || tag === "ol" ? { role: "list" } : {};
  return fill(document.createElement(tag), { ...role, ...props }, children);
}

export function svg(tag, props = {}, ...children) {
  return fill(document.createElementNS("http://www.w3.org/2000/svg", tag), props, children);
}

function fill(node, props, children) {
  for (const [name, value] of Object.entries(props)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.flat().filter(c => c !== null && c !== undefined && c !== false));
  return node;
}

// Words that pass by, and are read aloud.
export function notice(text) {
  const n = $("notice");
  n.textContent = text;
  n.classList.add("shown");
  clearTimeout(notice.timer);
  notice.timer = setTimeout(() => n.classList.remove("shown"), 2500);
}

// Pages that came by plain HTTP from elsewhere have no clipboard, but may copy what is selected.
export async function copy(text, what) {
  const area = el("textarea", { class: "hidden", readonly: true });
  area.value = text;
  document.body.append(area);
  try {
    if (navigator.clipboard) await navigator.clipboard.writeText(text);
    else area.select(), document.execCommand("copy");
    notice(`${what} copied`);
  } catch {
    notice("The browser does not let this page copy");
  }
  area.remove();
}

// The server's own words, whole, and what a bug report would want of them.
export function fault(error) {
  const more = [error.status, error.type, error.code, error.param && `field ${error.param}`,
                error.request].filter(Boolean).join(" · ");
  return el("div", { class: "fault", role: "alert" }, el("p", {}, error.message),
            more && el("p", { class: "hint" }, more));
}

export function confirmed(title, why) {
  const d = $("confirm");
  $("confirm-title").textContent = title;
  $("confirm-why").textContent = why;
  d.returnValue = "";
  d.showModal();
  return new Promise(done =>
    d.addEventListener("close", () => done(d.returnValue === "yes"), { once: true }));
}

// ---- numbers

export function number(x, digits = 3) {
  if (!Number.isFinite(x)) return "–";
  const large = Math.abs(x) >= 10 ** digits;
  return x.toLocaleString("en", large ? { maximumFractionDigits: 0 }
                                      : { maximumSignificantDigits: digits });
}

export function seconds(s) {
  if (!Number.isFinite(s)) return "–";
  if (s < 1e-3) return `${number(s * 1e6)} µs`;
  if (s < 1) return `${number(s * 1e3)} ms`;
  if (s < 60) return `${number(s)} s`;
  const m = Math.floor(s / 60), h = Math.floor(m / 60), d = Math.floor(h / 24);
  if (d) return `${d} d ${h % 24} h`;
  return h ? `${h} h ${m % 60} min` : `${m} min ${Math.floor(s % 60)} s`;
}

export function bytes(n) {
  const units = ["B", "kB", "MB", "GB", "TB"];
  let i = 0;
  while (n >= 1000 && i + 1 < units.length) n /= 1000, i++;
  return `${number(n)} ${units[i]}`;
}

export function percent(x) {
  if (!Number.isFinite(x)) return "–";
  if (x > 0 && x < 0.0005) return "<0.1%";
  return `${(100 * x).toFixed(x && x < 0.0995 ? 1 : 0)}%`;
}

export const plural = (n, word) => `${n.toLocaleString("en")} ${word}${n === 1 ? "" : "s"}`;

export const clock = t => new Date(t * 1000).toLocaleTimeString("en-GB");

// Of an epoch in seconds; today by the hour, else with its day.
export function when(t) {
  const d = new Date(t * 1000), today = d.toDateString() === new Date().toDateString();
  return d.toLocaleString("en-GB", today ? { timeStyle: "short" }
                                         : { dateStyle: "medium", timeStyle: "short" });
}
