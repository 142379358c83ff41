// SPDX-License-Identifier: Apache-2.0
// The page: which view is shown, by the address behind #; the theme; whether the server is there.
import { $ } from "./dom.js";
import { askKey, hasKey, loadModels, models } from "./api.js";
import * as playground from "./playground.js";
import * as tuning from "./tuning.js";
import * as modelCards from "./models.js";
import * as overview from "./overview.js";

const views = { playground, tuning, models: modelCards, overview };

// What stands behind #; an address that is none is like no address.
function address() {
  try {
    return decodeURIComponent(location.hash);
  } catch {
    return "";
  }
}

// #/tuning/ID is the view and what is wanted of it.
function route() {
  if (location.hash === "#main") return;
  const [, name, ...rest] = address().split("/");
  const shown = views[name] ? name : "playground";
  for (const [id, view] of Object.entries(views)) {
    $(id).hidden = id !== shown;
    if (id !== shown) view.leave?.();
  }
  for (const a of document.querySelectorAll(".top nav a"))
    if (a.hash === `#/${shown}`) a.setAttribute("aria-current", "page");
    else a.removeAttribute("aria-current");
  document.title = `Tandem · ${$(shown).querySelector("h1").textContent}`;
  views[shown].enter?.(rest.join("/"));
}

// ---- theme

const themes = ["", "light", "dark"];

function showTheme() {
  const theme = document.documentElement.dataset.theme;
  for (const name of ["aria-label", "title"])
    $("theme").setAttribute(name, `Theme: ${theme || "as the system"}`);
}

function nextTheme() {
  const root = document.documentElement;
  root.dataset.theme = themes[(themes.indexOf(root.dataset.theme) + 1) % themes.length];
  localStorage.setItem("tandem.theme", root.dataset.theme);
  showTheme();
}

// ---- the server

function say(text, kind) {
  $("state").textContent = text;
  $("state").className = `state ${kind}`;
}

let isLooking = false; // for a server that loads, or went away

async function connect() {
  isLooking = true;
  try {
    await loadModels();
    isLooking = false;
    return true;
  } catch (e) {
    say(e.code === "loading" ? "Loading the model" : e.message, "bad");
    $("key-button").hidden = e.status !== 401 && !hasKey();
    if (e.status !== 401) setTimeout(connect, 1000);
    else isLooking = false;
    return false;
  }
}

window.addEventListener("models", () => {
  $("key-button").hidden = !hasKey();
  say(models[0].id, "good");
});
window.addEventListener("hashchange", route);
window.addEventListener("lost", () => isLooking || connect());
$("theme").addEventListener("click", nextTheme);
$("key-button").addEventListener("click", async () => {
  if (await askKey("Requests of this page carry it.", "Your key for this server")) {
    await connect();
    route();
  }
});

for (const b of document.querySelectorAll("dialog [type=button]"))
  b.addEventListener("click", () => b.closest("dialog").close(""));

showTheme();
playground.start();
tuning.start();
overview.start();
route();
connect();
