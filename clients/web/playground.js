// SPDX-License-Identifier: Apache-2.0
// The playground: conversations with a model, kept as long as the tab. A message is {role, content},
// and of an answer besides its tokens, the model that gave it and a line of what it took.
import { $, copy, el, fault, notice, number, plural, seconds } from "./dom.js";
import { events, hasKey, loadModels, models, request } from "./api.js";
import { hide, span, tokensOf, watch } from "./tokens.js";

const PATH = "v1/chat/completions", KEPT = "tandem.chats", CHATS_MOST = 30, REST_MS = 20;
const FIELDS = ["model", "system", "temperature", "top_p", "max_tokens", "seed", "logprobs"];

let kept = { at: 0, chats: [[]], settings: {} };
let running = null; // the AbortController of the answer that is coming

const chat = () => kept.chats[kept.at];

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

function asked(messages) {
  const body = { model: $("model").value || undefined, messages: messages.map(({ role, content }) =>
    ({ role, content })) };
  if ($("system").value.trim())
    body.messages.unshift({ role: "system", content: $("system").value });
  for (const id of ["temperature", "top_p", "max_tokens", "seed"])
    if ($(id).value !== "") body[id] = Number($(id).value);
  if ($("logprobs").checked) Object.assign(body, { logprobs: true, top_logprobs: 5 });
  return { ...body, stream: true, stream_options: { include_usage: true } };
}

// For a shell: what Send would send, or the last question where nothing is typed.
function curl() {
  const typed = $("prompt").value.trim();
  const upTo = chat().findLastIndex(m => m.role === "user") + 1;
  const messages = typed ? [...chat(), { role: "user", content: typed }] : chat().slice(0, upTo);
  const quoted = text => `'${text.replaceAll("'", `'\\''`)}'`;
  const key = hasKey() ? [`-H "Authorization: Bearer $TANDEM_API_KEY"`] : [];
  return [`curl -N ${quoted(new URL(PATH, location.href.split("#")[0]).href)}`,
          "-H 'Content-Type: application/json'", ...key,
          `-d ${quoted(JSON.stringify(asked(messages)))}`].join(" \\\n  ");
}

// ---- messages

function actions(m) {
  const isLast = m === chat().at(-1);
  return el("footer", {}, el("span", { class: "hint" }, m.note ?? ""),
            el("button", { class: "link", type: "button", onclick: () => copy(m.content, "Answer") },
               "Copy"),
            isLast && el("button", { class: "link", type: "button", onclick: again }, "Again"));
}

function node(m) {
  const isUser = m.role === "user";
  const text = el("div", { class: "text", tabindex: m.tokens?.length ? 0 : null,
                           role: m.tokens?.length ? "group" : null,
                           "aria-label": m.tokens?.length ? "Answer; arrow keys go through its tokens"
                                                          : null });
  if (m.tokens) text.append(...m.tokens.map(span));
  else text.textContent = m.content;
  return el("article", { class: `message ${m.role}`, "aria-busy": m.busy ? "true" : null },
            el("h3", {}, isUser ? "You" : m.model), text, !isUser && !m.busy && actions(m));
}

function show() {
  const empty = el("p", { class: "empty" }, "Ask something.");
  hide();
  $("messages").replaceChildren(...(chat().length ? chat().map(node) : [empty]));
  $("messages").scrollTop = $("messages").scrollHeight;
  showHistory();
}

function showHistory() {
  const entry = (messages, i) => {
    const title = messages[0]?.content ?? "New chat";
    return el("li", {}, el("button", { type: "button", class: "row", disabled: Boolean(running),
                                       "aria-current": i === kept.at ? "true" : null,
                                       onclick: () => { kept.at = i; keep(); show(); } },
                           el("span", { class: "name", title }, title)));
  };
  $("history").replaceChildren(...kept.chats.map(entry).reverse());
}

function newChat() {
  running?.abort();
  if (chat().length) {
    kept.chats.push([]);
    kept.chats = kept.chats.slice(-CHATS_MOST);
  }
  kept.at = kept.chats.length - 1;
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

// What comes goes to the end of the text, once a frame: laid out for each token, a long answer would
// take the time of its square.
class Pen {
  constructor(message, text) {
    Object.assign(this, { message, text, waiting: [], frame: 0 });
  }

  add(choice) {
    const m = this.message, more = m.tokens ? tokensOf(choice) : [{ text: choice.delta?.content ?? "" }];
    m.content += choice.delta?.content ?? "";
    m.tokens?.push(...more);
    this.waiting.push(...more);
    this.frame ||= requestAnimationFrame(() => this.draw());
  }

  draw() {
    const messages = $("messages"), slack = 40;
    const follows = messages.scrollTop + messages.clientHeight + slack > messages.scrollHeight;
    this.text.append(...this.waiting.map(span));
    Object.assign(this, { waiting: [], frame: 0 });
    if (follows) messages.scrollTop = messages.scrollHeight;
  }
}

// times: the server's, which no connection and no frame of this page has a part in.
function summary(times, usage, reason) {
  const n = usage?.completion_tokens, rate = (n - 1) / times?.decode_ms * 1000;
  return [n && plural(n, "token"),
          times && `first after ${seconds((times.queue_ms + times.prompt_ms) / 1000)}`,
          Number.isFinite(rate) && n > 1 && `${number(rate)} tokens/s`,
          { length: "reached max tokens", stop: "ended by itself" }[reason] ?? reason]
    .filter(Boolean).join(" · ");
}

async function receive(m, text, body) {
  const pen = new Pen(m, text);
  let usage, times, reason, rested = performance.now();
  const response = await request(PATH, { method: "POST", body, signal: running.signal });
  for await (const event of events(response)) {
    usage = event.usage ?? usage;
    times = event.timings ?? times;
    m.model = event.model ?? m.model;
    const choice = event.choices[0];
    if (!choice) continue;
    reason = choice.finish_reason ?? reason;
    pen.add(choice);
    if (performance.now() - rested > REST_MS) { // a fast stream leaves the page no moment by itself
      await new Promise(done => setTimeout(done));
      rested = performance.now();
    }
  }
  m.note = summary(times, usage, reason);
}

// The answer to what stands in the chat. What fails before it began is as if it was not asked.
async function answer() {
  const body = asked(chat()), talk = chat();
  const m = { role: "assistant", content: "", model: body.model ?? "", busy: true,
              tokens: body.logprobs ? [] : undefined };
  let error = null;
  talk.push(m);
  setRunning(new AbortController());
  show();
  const article = $("messages").lastElementChild;
  try {
    await receive(m, article.querySelector(".text"), body);
  } catch (e) {
    if (e.name === "AbortError") m.note = "stopped";
    else error = e;
  }
  delete m.busy;
  setRunning(null);
  if (m.content === "" && (error || m.note === "stopped")) {
    talk.pop();
    $("prompt").value ||= talk.pop().content;
    grow();
  }
  keep();
  show();
  if (error) $("messages").append(fault(error));
  $("messages").scrollTop = $("messages").scrollHeight;
}

function send(event) {
  event?.preventDefault();
  const content = $("prompt").value.trim();
  if (running || !content) return;
  chat().push({ role: "user", content });
  $("prompt").value = "";
  grow();
  openSettings(false); // on a phone they would lie where the answer comes
  answer();
}

function again() {
  chat().pop();
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

function showModels() {
  const wanted = $("model").value || kept.settings.model, has = models.some(m => m.id === wanted);
  const option = m => el("option", { value: m.id }, m.id);
  const tuned = models.filter(m => m.parent);
  $("model").replaceChildren(...models.filter(m => !m.parent).map(option),
    ...(tuned.length ? [el("optgroup", { label: "Adapters" }, ...tuned.map(option))] : []));
  $("model").value = has ? wanted : models[0].id;
}

export async function useModel(name) {
  location.hash = "#/playground";
  await loadModels();
  $("model").value = name;
  keep();
  notice(`${name} answers now`);
  $("prompt").focus();
}

export function enter() {
  if (!matchMedia("(pointer: coarse)").matches) $("prompt").focus();
}

export function leave() {
  hide();
}

export function start() {
  kept = { ...kept, ...JSON.parse(sessionStorage.getItem(KEPT) ?? "{}") };
  for (const m of kept.chats.flat()) delete m.busy; // of a page that was left in the middle
  for (const id of FIELDS.slice(1))
    if (id in kept.settings) $(id)[$(id).type === "checkbox" ? "checked" : "value"] = kept.settings[id];
  for (const o of document.querySelectorAll("#settings output")) {
    const range = $(o.htmlFor.value), tell = () => { o.value = Number(range.value).toFixed(2); };
    range.addEventListener("input", tell);
    tell();
  }
  for (const id of FIELDS) $(id).addEventListener("change", keep);
  $("composer").addEventListener("submit", send);
  $("prompt").addEventListener("input", grow);
  $("prompt").addEventListener("keydown", e => {
    if (e.key === "Enter" && !e.shiftKey && !e.isComposing) send(e);
  });
  $("stop").addEventListener("click", () => running?.abort());
  $("chat-new").addEventListener("click", newChat);
  $("curl").addEventListener("click", () => copy(curl(), "Command"));
  $("chat-settings").addEventListener("click", () =>
    openSettings(!$("settings").classList.contains("open")));
  window.addEventListener("models", showModels);
  watch($("messages"));
  show();
}
