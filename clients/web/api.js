// SPDX-License-Identifier: Apache-2.0
// The server's API: requests with the tab's key, its errors as they are said, event streams.
// Addresses are relative to the page, so that it works behind a proxy's prefix.
import { $ } from "./dom.js";

const KEY = "tandem.key";

export class ApiError extends Error {
  constructor(message, more = {}) {
    super(message);
    Object.assign(this, more);
  }
}

async function failure(response) {
  const text = await response.text(), request = response.headers.get("x-request-id");
  try {
    const { message, type, param, code } = JSON.parse(text).error;
    return new ApiError(message, { status: response.status, type, param, code, request });
  } catch {
    return new ApiError(text || response.statusText, { status: response.status, request });
  }
}

// ---- keys

let asking = null; // however many requests are refused, one dialog asks

export function askKey(why, title = "This server asks for a key") {
  asking ??= new Promise(done => {
    const d = $("key-dialog");
    $("key-title").textContent = title;
    $("key-why").textContent = why;
    $("key").value = sessionStorage.getItem(KEY) ?? "";
    d.returnValue = "";
    d.showModal();
    $("key").focus();
    d.addEventListener("close", () => {
      const key = $("key").value.trim(), used = d.returnValue === "use" && key !== "";
      if (used) sessionStorage.setItem(KEY, key);
      asking = null;
      done(used);
    }, { once: true });
  });
  return asking;
}

export const hasKey = () => sessionStorage.getItem(KEY) !== null;

function authorization() {
  const key = sessionStorage.getItem(KEY);
  return key ? { Authorization: `Bearer ${key}` } : {};
}

// ---- requests

// The response, good; else what the server said is thrown. Without a key that does, one is asked for.
export async function request(path, { method = "GET", body, signal } = {}) {
  for (;;) {
    const headers = authorization(), isForm = body instanceof FormData;
    if (body && !isForm) headers["Content-Type"] = "application/json";
    let response;
    try {
      response = await fetch(path, { method, headers, signal,
                                     body: body && !isForm ? JSON.stringify(body) : body });
    } catch (e) {
      if (e.name === "AbortError") throw e;
      window.dispatchEvent(new Event("lost"));
      throw new ApiError("The server does not answer.");
    }
    if (response.ok) return response;
    const e = await failure(response);
    const stale = headers.Authorization !== authorization().Authorization;
    if (e.status !== 401 || !(stale || await askKey(e.message))) throw e;
  }
}

export const get = async (path, more) => (await request(path, more)).json();
export const post = async (path, body, more) =>
  (await request(path, { method: "POST", body, ...more })).json();
export const drop = async path => (await request(path, { method: "DELETE" })).json();

// Every thing of a list that comes in pages, up to a number that a page can show.
export async function list(path, most = 500) {
  const all = [];
  for (let after = ""; ;) {
    const page = await get(`${path}?limit=100${after}`);
    all.push(...page.data);
    if (!page.has_more || !page.data.length || all.length >= most) return all;
    after = `&after=${encodeURIComponent(page.data.at(-1).id)}`;
  }
}

// The data of each event of a stream; returns at [DONE]. An error event is thrown.
export async function* events(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) throw new ApiError("The connection ended before the answer did.");
    text += value;
    for (let end; (end = text.indexOf("\n\n")) >= 0; text = text.slice(end + 2)) {
      const data = text.slice(0, end).split("\n").filter(l => l.startsWith("data:"))
        .map(l => l.slice(5).trimStart()).join("\n");
      if (data === "[DONE]") return;
      if (!data) continue;
      const event = JSON.parse(data);
      if (event.error) throw new ApiError(event.error.message, event.error);
      yield event;
    }
  }
}

// ---- models

export let models = [];

// The names that requests may give, the base first.
export async function loadModels() {
  models = (await get("v1/models")).data;
  window.dispatchEvent(new Event("models"));
  return models;
}
