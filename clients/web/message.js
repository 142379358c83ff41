// SPDX-License-Identifier: Apache-2.0
// A message as it is shown: a question; an answer with its thoughts and calls of tools folded, its text
// as Markdown or as its tokens; what a tool answered. What can be done with it is given as functions.
import { el } from "./dom.js";
import { markdown } from "./markdown.js";
import { painter, span } from "./tokens.js";

const DRAWS_OF_TIME = 10; // a text that grows is laid out anew for at most a tenth of the time

const link = (text, f, label) =>
  el("button", { type: "button", class: "link", onclick: f, "aria-label": label }, text);

function pretty(text) {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text; // half of it, as yet, or none
  }
}

// ---- an answer

function callNode(c) {
  return el("details", { class: "fold" },
            el("summary", {}, "Calls ", el("code", {}, c.name)),
            el("pre", { tabindex: 0, role: "region", "aria-label": `Arguments of ${c.name}` },
               pretty(c.arguments)));
}

// The body of an answer, which grows: draw() shows what m has by now.
export class Body {
  constructor(m, isMarkdown) {
    const has = Boolean(m.tokens?.length || m.tokens && m.busy);
    Object.assign(this, { m, isMarkdown, drawn: 0, timer: null, cost: 0, shown: -1 });
    this.thoughts = el("pre", { tabindex: 0, role: "region", "aria-label": "Thoughts" });
    this.fold = el("details", { class: "fold", hidden: true }, el("summary", {}, "Thoughts"), this.thoughts);
    this.text = el("div", { class: isMarkdown ? "text md" : "text", tabindex: has ? 0 : null,
                            role: has ? "group" : null,
                            "aria-label": has ? "Answer; arrow keys go through its tokens" : null });
    this.calls = el("div", { class: "calls" });
    this.nodes = [this.fold, this.text, this.calls];
    this.draw();
  }

  // Soon, and not so often that a long text would take the time of its square.
  drawSoon(then) {
    this.timer ??= setTimeout(() => requestAnimationFrame(() => {
      this.timer = null;
      this.draw();
      then?.();
    }), this.isMarkdown ? this.cost * DRAWS_OF_TIME : 0);
  }

  draw() {
    const m = this.m, began = performance.now();
    this.fold.hidden = !m.thoughts;
    if (m.thoughts) {
      this.fold.firstChild.textContent = m.busy && !m.content ? "Thinking" : "Thoughts";
      this.thoughts.textContent = m.thoughts;
    }
    if (this.isMarkdown) {
      if (this.shown !== m.content.length)
        this.text.replaceChildren(...markdown(m.content, painter(m.content, m.tokens)));
      this.shown = m.content.length;
    } else if (m.tokens) {
      this.text.append(...m.tokens.slice(this.drawn).map(t => span(t)));
      this.drawn = m.tokens.length;
    } else {
      this.text.append(m.content.slice(this.drawn));
      this.drawn = m.content.length;
    }
    if (m.calls?.length) this.calls.replaceChildren(...m.calls.map(callNode));
    this.cost = performance.now() - began;
  }
}

// ---- around it

// Which of the branches is shown, where there are several.
function branches(parent, turn) {
  const n = parent.kids.length;
  const to = (text, by, label, disabled) =>
    el("button", { type: "button", class: "link", disabled, "aria-label": label,
                   onclick: () => turn(parent, by) }, text);
  return n > 1 && el("span", { class: "branches" }, to("‹", -1, "Branch before", parent.at === 0),
                     el("span", { class: "count" }, `${parent.at + 1} of ${n}`),
                     to("›", 1, "Next branch", parent.at === n - 1));
}

// acts: {copy(m), again(m), turn(parent, by)}; again and turn only where they make sense.
export function answerNode(m, parent, acts, isMarkdown) {
  const body = new Body(m, isMarkdown);
  const node = el("article", { class: "message assistant", "aria-busy": m.busy ? "true" : null },
    el("h3", {}, m.model), ...body.nodes,
    !m.busy && el("footer", {}, el("span", { class: "hint" }, m.note ?? ""),
      parent && branches(parent, acts.turn), link("Copy", () => acts.copy(m)),
      acts.again && link("Again", acts.again)));
  node.body = body;
  return node;
}

// Two answers beside each other are one thing.
export function pairNode(m, parent, acts, isMarkdown) {
  const left = answerNode(m, parent, acts, isMarkdown);
  const right = answerNode(m.beside, null, { copy: acts.copy }, isMarkdown);
  return el("div", { class: "two" }, left, right);
}

function editor(text, save, leave) {
  const rows = Math.min(12, text.split("\n").length + 1);
  const area = el("textarea", { rows, "aria-label": "Message" });
  const done = () => area.value.trim() && save(area.value.trim());
  area.value = text;
  area.addEventListener("keydown", e => {
    if (e.key === "Escape") leave();
    if (e.key !== "Enter" || e.shiftKey || e.isComposing) return;
    e.preventDefault();
    done();
  });
  return el("div", { class: "editor" }, area,
    el("div", { class: "actions" },
       el("button", { type: "button", class: "main", onclick: done }, "Ask this"),
       el("button", { type: "button", onclick: leave }, "Keep it")));
}

// acts: {copy(m), edit(m, text), turn(parent, by)}; without edit nothing may be edited now.
export function questionNode(m, parent, acts) {
  const text = el("div", { class: "text" }, m.content);
  const button = link("Edit", () => begin());
  const footer = el("footer", {}, branches(parent, acts.turn), acts.edit && button);
  const node = el("article", { class: "message user" }, el("h3", {}, "You"), text, footer);
  const end = () => {
    node.replaceChildren(node.firstChild, text, footer);
    button.focus();
  };
  const begin = () => {
    node.replaceChildren(node.firstChild, editor(m.content, t => acts.edit(m, t), end));
    node.querySelector("textarea").focus();
    node.scrollIntoView({ block: "nearest" });
  };
  node.edit = acts.edit && begin;
  return node;
}

export function resultNode(m) {
  return el("article", { class: "message tool" },
            el("h3", {}, `Result of ${m.name}`), el("div", { class: "text" }, m.content));
}

// What an answer's calls come to, to be typed by who plays the tool. send({id, name, content}[]).
export function resultForm(calls, send) {
  const areas = calls.map(() => el("textarea", { rows: 2, required: true, placeholder: "What the tool says" }));
  return el("form", { class: "results card", onsubmit: e => {
      e.preventDefault();
      send(calls.map((c, i) => ({ id: c.id, name: c.name, content: areas[i].value })));
    } },
    calls.map((c, i) => el("label", {}, `Result of ${c.name}`, areas[i])),
    el("div", { class: "actions" }, el("button", { class: "main" }, "Give to the model")));
}
