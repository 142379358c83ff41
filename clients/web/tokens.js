// SPDX-License-Identifier: Apache-2.0
// Tokens of an answer and how likely each was: a tint of their text, and a card that the mouse, a
// finger or the arrow keys call up.
import { $, el, percent } from "./dom.js";

const UNLIKELY = [0.7, 0.4, 0.2, 0.05]; // bounds of the tints

// The tokens that an event of a stream tells of, with the text that each adds. The event's text is
// cut among them, so together they are that text, whatever a token says of itself.
export function tokensOf(choice) {
  let text = choice.delta?.content ?? ""; // tokens of thoughts and calls add nothing to it
  const from = choice.logprobs?.content ?? [], out = [];
  from.forEach((t, i) => {
    const isLast = i + 1 === from.length;
    const own = isLast ? text : text.startsWith(t.token) ? t.token : "";
    text = text.slice(own.length);
    out.push({ text: own, name: t.token, p: Math.exp(t.logprob),
               top: t.top_logprobs.map(o => [o.token, Math.exp(o.logprob)]) });
  });
  if (text) out.push({ text });
  return out;
}

// text: the part of the token's that is shown.
export function span(token, text = token.text) {
  if (token.p === undefined) return document.createTextNode(text);
  const tint = UNLIKELY.filter(p => token.p < p).length;
  const node = el("span", { class: `token q${tint}`, tabindex: -1 }, text);
  node.token = token;
  return node;
}

// For a text that is shown in pieces: the nodes of [from, to) of it, cut where its tokens are.
export function painter(text, tokens) {
  if (!tokens) return (from, to) => [document.createTextNode(text.slice(from, to))];
  const ends = [];
  for (const t of tokens) ends.push((ends.at(-1) ?? 0) + t.text.length);
  return (from, to) => {
    let i = 0, n = ends.length; // the first token that ends behind `from`
    while (i < n) {
      const half = (i + n) >> 1;
      if (ends[half] > from) n = half;
      else i = half + 1;
    }
    const out = [];
    for (; from < to && i < ends.length; i++) {
      const end = Math.min(to, ends[i]);
      if (end > from) out.push(span(tokens[i], text.slice(from, end)));
      from = Math.max(from, end);
    }
    return out;
  };
}

// What is white is shown, and what is nothing is named. A token that adds no text, as one of a character's
// first bytes or of the end, goes by its own name.
function shown(text) {
  return text === "" ? "nothing" : text.replaceAll(" ", "␣").replaceAll("\n", "↵").replaceAll("\t", "⇥");
}

function show(node) {
  const tip = $("tip"), { text, name, p, top } = node.token;
  const row = ([other, q]) => {
    const bar = el("i");
    bar.style.width = `${100 * q}%`;
    return el("li", {}, el("code", {}, shown(other)), el("span", { class: "meter" }, bar),
              el("span", { class: "number" }, percent(q)));
  };
  tip.replaceChildren(el("p", {}, el("code", {}, shown(text || name)), ` was ${percent(p)} likely`),
                      el("ul", {}, ...top.map(row)));
  tip.hidden = false;
  const at = node.getClientRects()[0] ?? node.getBoundingClientRect(), box = tip.getBoundingClientRect();
  const below = at.bottom + 6 + box.height < innerHeight;
  tip.style.left = `${Math.max(8, Math.min(at.left, innerWidth - box.width - 8))}px`;
  tip.style.top = `${Math.max(8, below ? at.bottom + 6 : at.top - 6 - box.height)}px`;
}

export function hide() {
  $("tip").hidden = true;
}

// Left and right walk through the tokens of the answer that has the focus, from either end.
function walk(event) {
  const here = event.target, box = here.token || here.matches(".text") ? here.closest(".text") : null;
  const all = box?.querySelectorAll(".token");
  const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
  if (event.key === "Escape" && !$("tip").hidden) hide();
  if (!step || !all?.length) return;
  const at = [...all].indexOf(here), to = at < 0 ? (step > 0 ? 0 : all.length - 1) : at + step;
  all[Math.max(0, Math.min(to, all.length - 1))].focus();
  event.preventDefault();
}

export function watch(messages) {
  for (const kind of ["mouseover", "focusin"])
    messages.addEventListener(kind, e => e.target.token ? show(e.target) : hide());
  for (const kind of ["focusout", "scroll"]) messages.addEventListener(kind, hide);
  messages.addEventListener("mouseleave", () => { // is also sent behind a tap, which gave the focus
    if (!document.activeElement.token) hide();
  });
  messages.addEventListener("keydown", walk);
}
