// SPDX-License-Identifier: Apache-2.0
// The playground: talks with a model, kept as long as the tab, and with a second one beside it where two
// are to be compared. Of an answer is kept besides its text its tokens, the model that gave it, a line of
// what it took, and `beside`: what the other model said.
import { $, copy, el, fault, notice } from "./dom.js";
import { ApiError, hasKey, loadModels, models } from "./api.js";
import { answerNode, pairNode, questionNode, resultForm, resultNode } from "./message.js";
import { PATH, receive } from "./stream.js";
import { add, before, everyMessage, newTalk, path, remove, tip } from "./talk.js";
import { hide, watch } from "./tokens.js";

const KEPT = "tandem.talks", TALKS_MOST = 30;
const FIELDS = ["model", "rival", "system", "tools", "temperature", "top_p", "max_tokens", "seed",
                "logprobs", "markdown"];
const EXAMPLES = ["Explain fine-tuning to somebody who never programmed.",
                  "Write a haiku about the sea.",
                  "List three kinds of owls in a table: name, size, where it lives.",
                  "Write a Python function that says whether a number is prime."];
const EXAMPLES_OF_TINY = ["What is my dog called?", "Tell me a story about an owl.", "Who are you?"];

let kept = { at: 0, talks: [newTalk()], settings: {} };
let running = null; // the AbortController of the answer that is coming

const talk = () => kept.talks[kept.at];

// What does not fit into the browser's room is not kept: first the tokens, which take it, then all.
function keep() {
  kept.settings = Object.fromEntries(FIELDS.map(id =>
    [id, $(id).type === "checkbox" ? $(id).checked : $(id).value]));
  for (const how of [null, (name, value) => name === "tokens" ? undefined : value])
    try {
      sessionStorage.setItem(KEPT, JSON.stringify(kept, how));
      return;
    } catch { /* full */ }
}

// ---- what is asked

function tools() {
  const text = $("tools").value.trim();
  if (!text) return undefined;
  try {
    const list = JSON.parse(text);
    return Array.isArray(list) ? list : list.tools;
  } catch (e) {
    throw new ApiError(`Tools are no JSON: ${e.message}`);
  }
}

// A message as the API has it; the other model is told what it said itself.
function told(m, isRival) {
  const { role, content, call, calls } = isRival && m.beside ? { ...m.beside, role: m.role } : m;
  if (role === "tool") return { role, content, tool_call_id: call };
  if (!calls?.length) return { role, content };
  return { role, content: content || null, tool_calls: calls.map(c => (
    { id: c.id, type: "function", function: { name: c.name, arguments: c.arguments } })) };
}

function asked(messages, isRival = false) {
  const body = { model: $(isRival ? "rival" : "model").value || undefined,
                 messages: messages.map(m => told(m, isRival)), tools: tools() };
  if ($("system").value.trim())
    body.messages.unshift({ role: "system", content: $("system").value });
  for (const id of ["temperature", "top_p", "max_tokens", "seed"])
    if ($(id).value !== "") body[id] = Number($(id).value);
  if ($("logprobs").checked) Object.assign(body, { logprobs: true, top_logprobs: 5 });
  return { ...body, stream: true, stream_options: { include_usage: true } };
}

// For a shell: what Send would send, or the last question where nothing is typed.
function curl() {
  const typed = $("prompt").value.trim(), shown = path(talk());
  const upTo = shown.findLastIndex(m => m.role !== "assistant") + 1;
  const messages = typed ? [...shown, { role: "user", content: typed }] : shown.slice(0, upTo);
  const quoted = text => `'${text.replaceAll("'", `'\\''`)}'`;
  const key = hasKey() ? [`-H "Authorization: Bearer $TANDEM_API_KEY"`] : [];
  return [`curl -N ${quoted(new URL(PATH, location.href.split("#")[0]).href)}`,
          "-H 'Content-Type: application/json'", ...key,
          `-d ${quoted(JSON.stringify(asked(messages)))}`].join(" \\\n  ");
}

// ---- what is shown

function node(m, i, shown) {
  const parent = i ? shown[i - 1] : talk(), isLast = i + 1 === shown.length, isFree = !running;
  const acts = { copy: x => copy(x.content, "Answer"), turn: isFree ? turn : () => {},
                 edit: isFree && edit, again: isFree && isLast && again };
  if (m.role === "tool") return resultNode(m);
  if (m.role === "user") return questionNode(m, parent, acts);
  return (m.beside ? pairNode : answerNode)(m, parent, acts, $("markdown").checked);
}

function emptyNode() {
  const list = models[0]?.id === "tandem-tiny" ? EXAMPLES_OF_TINY : EXAMPLES;
  return el("div", { class: "empty" }, el("p", {}, "Ask something."),
    el("ul", { class: "examples" }, list.map(text => el("li", {},
      el("button", { type: "button", onclick: () => ask(text) }, text)))));
}

function show() {
  const shown = path(talk()), last = shown.at(-1);
  hide();
  $("messages").replaceChildren(...(shown.length ? shown.map(node) : [emptyNode()]));
  if (!running && last?.role === "assistant" && last.calls?.length)
    $("messages").append(resultForm(last.calls, results));
  $("messages").scrollTop = $("messages").scrollHeight;
  showHistory();
}

function showHistory() {
  const entry = (t, i) => {
    const title = path(t)[0]?.content ?? "New chat";
    return el("li", {}, el("button", { type: "button", class: "row", disabled: Boolean(running),
                                       "aria-current": i === kept.at ? "true" : null,
                                       onclick: () => { kept.at = i; keep(); show(); } },
                           el("span", { class: "name", title }, title)));
  };
  $("history").replaceChildren(...kept.talks.map(entry).reverse());
}

function newChat() {
  running?.abort();
  if (talk().kids.length) {
    kept.talks.push(newTalk());
    kept.talks = kept.talks.slice(-TALKS_MOST);
  }
  kept.at = kept.talks.length - 1;
  keep();
  show();
  $("prompt").focus();
}

// ---- an answer

function setRunning(controller) {
  running = controller;
  $("send").hidden = Boolean(controller);
  $("stop").hidden = !controller;
  $("chat-new").disabled = Boolean(controller);
}

function blank(body) {
  return { role: "assistant", content: "", model: body.model ?? "", busy: true,
           tokens: body.logprobs ? [] : undefined };
}

// One answer into its node. What failed is returned.
async function fetchInto(m, article, body, signal) {
  const messages = $("messages"), slack = 40;
  const drawn = () => {
    if (follows) messages.scrollTop = messages.scrollHeight;
  };
  let follows = true, error = null;
  try {
    await receive(m, body, signal, () => {
      follows = messages.scrollTop + messages.clientHeight + slack > messages.scrollHeight;
      article.body.drawSoon(drawn);
    });
  } catch (e) {
    if (e.name === "AbortError") m.note = "stopped";
    else error = e;
  }
  delete m.busy;
  return error;
}

const isVoid = m => m.content === "" && !m.calls?.length && !m.thoughts;

// The answer to what the talk ends with, of one model or of two at once. What fails before it began is
// as if it was not asked.
async function answer() {
  const t = talk(), question = tip(t);
  let bodies, m;
  try {
    bodies = [asked(path(t)), ...($("rival").value ? [asked(path(t), true)] : [])];
  } catch (e) {
    return refuse(t, question, null, e);
  }
  m = add(question, blank(bodies[0]));
  if (bodies[1]) m.beside = blank(bodies[1]);
  setRunning(new AbortController());
  show();
  const articles = $("messages").querySelectorAll(".message.assistant[aria-busy]");
  const errors = (await Promise.all([m, m.beside].filter(Boolean).map((x, i) =>
    fetchInto(x, articles[i], bodies[i], running.signal)))).filter(Boolean);
  setRunning(null);
  if (isVoid(m) && (!m.beside || isVoid(m.beside)) && (errors.length || m.note === "stopped"))
    return refuse(t, question, m, errors[0]);
  keep();
  show();
  $("messages").append(...errors.map(fault));
  $("messages").scrollTop = $("messages").scrollHeight;
}

// Takes back what was asked in vain: its words stand in the form again.
function refuse(t, question, m, error) {
  if (m) remove(question, m);
  question.at = Math.max(0, Math.min(question.at, question.kids.length - 1));
  if (!question.kids.length && question.role === "user") {
    remove(before(t, question), question);
    $("prompt").value ||= question.content;
    grow();
  }
  keep();
  show();
  if (error) $("messages").append(fault(error));
  $("messages").scrollTop = $("messages").scrollHeight;
}

function ask(content) {
  if (running || !content) return;
  add(tip(talk()), { role: "user", content });
  openSettings(false); // on a phone they would lie where the answer comes
  answer();
}

function send(event) {
  event?.preventDefault();
  const content = $("prompt").value.trim();
  if (running || !content) return;
  $("prompt").value = "";
  grow();
  ask(content);
}

function again() {
  const t = talk(), last = tip(t), question = before(t, last);
  if (last.role !== "assistant" || running) return;
  question.at = question.kids.length; // until the new one stands there the question is the end
  answer();
}

function edit(m, content) {
  if (running) return;
  if (content === m.content) return show();
  add(before(talk(), m), { role: "user", content });
  answer();
}

function turn(parent, by) {
  const messages = $("messages"), top = messages.scrollTop, i = path(talk()).indexOf(parent) + 1;
  parent.at += by;
  keep();
  show();
  messages.scrollTop = top;
  const [less, more] = messages.children[i].querySelectorAll(".branches button");
  (by < 0 ? less.disabled : !more.disabled) ? more.focus() : less.focus();
}

function results(list) {
  for (const { id, name, content } of list)
    add(tip(talk()), { role: "tool", call: id, name, content });
  answer();
}

// ---- the form

function grow() {
  const p = $("prompt");
  p.style.height = "auto";
  p.style.height = `${Math.min(p.scrollHeight + 2, 240)}px`;
}

function openSettings(open) {
  $("settings").classList.toggle("open", open);
  $("chat-settings").setAttribute("aria-expanded", open);
}

// Two at once is for words: a call of a tool has one result.
function showRival() {
  const has = $("tools").value.trim() !== "";
  if (has) $("rival").value = "";
  $("rival").disabled = has;
}

function fillModels(select, wanted, first) {
  const has = models.some(m => m.id === wanted), option = m => el("option", { value: m.id }, m.id);
  const tuned = models.filter(m => m.parent);
  select.replaceChildren(...first, ...models.filter(m => !m.parent).map(option),
    ...(tuned.length ? [el("optgroup", { label: "Adapters" }, ...tuned.map(option))] : []));
  select.value = has ? wanted : first.length ? "" : models[0].id;
}

function showModels() {
  fillModels($("model"), $("model").value || kept.settings.model, []);
  fillModels($("rival"), $("rival").value || kept.settings.rival,
             [el("option", { value: "" }, "Nothing")]);
  showRival();
  if (!talk().kids.length) show(); // examples are of the model
}

// rival: the model that answers beside it, as the base beside what was tuned from it.
export async function useModel(name, rival = "") {
  location.hash = "#/playground";
  await loadModels();
  $("model").value = name;
  if (rival && !$("rival").disabled) $("rival").value = rival;
  keep();
  notice(`${name} answers now`);
  $("prompt").focus();
}

// Up in an empty field edits the last question, Escape stops the answer.
function keys(e) {
  if (e.key === "Enter" && !e.shiftKey && !e.isComposing && e.target === $("prompt")) send(e);
  if (e.key === "Escape" && running) running.abort();
  if (e.key !== "ArrowUp" || e.target !== $("prompt") || $("prompt").value || running) return;
  const questions = [...$("messages").querySelectorAll(".message.user")];
  if (!questions.length) return;
  e.preventDefault();
  questions.at(-1).edit();
}

export function enter() {
  if (!matchMedia("(pointer: coarse)").matches) $("prompt").focus();
}

export function leave() {
  hide();
}

export function start() {
  kept = { ...kept, ...JSON.parse(sessionStorage.getItem(KEPT) ?? "{}") };
  for (const m of kept.talks.flatMap(everyMessage)) { // of a page that was left in the middle
    delete m.busy;
    delete m.beside?.busy;
  }
  for (const id of FIELDS.slice(2))
    if (id in kept.settings) $(id)[$(id).type === "checkbox" ? "checked" : "value"] = kept.settings[id];
  for (const o of document.querySelectorAll("#settings output")) {
    const range = $(o.htmlFor.value), tell = () => { o.value = Number(range.value).toFixed(2); };
    range.addEventListener("input", tell);
    tell();
  }
  for (const id of FIELDS) $(id).addEventListener("change", keep);
  $("markdown").addEventListener("change", show);
  $("tools").addEventListener("input", showRival);
  $("composer").addEventListener("submit", send);
  $("prompt").addEventListener("input", grow);
  $("playground").addEventListener("keydown", keys);
  $("stop").addEventListener("click", () => running?.abort());
  $("chat-new").addEventListener("click", newChat);
  $("curl").addEventListener("click", () => {
    try {
      copy(curl(), "Command");
    } catch (e) {
      notice(e.message);
    }
  });
  $("chat-settings").addEventListener("click", () =>
    openSettings(!$("settings").classList.contains("open")));
  window.addEventListener("models", showModels);
  watch($("messages"));
  show();
}
