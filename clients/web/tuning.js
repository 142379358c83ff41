// SPDX-License-Identifier: Apache-2.0
// Fine-tuning: the lists of jobs and files, a file that is looked over and becomes a job, and the job that
// is looked at. What is shown follows the address: #/tuning/new, #/tuning/new/ID to make one like a job
// that there was, or #/tuning/ID of a job.
import { $, bytes, confirmed, el, fault, notice, number, plural, when } from "./dom.js";
import { ApiError, drop, get, list, post } from "./api.js";
import * as form from "./form.js";
import { readKept, readRows, showRows } from "./rows.js";
import { JobView, jobName, state } from "./job.js";

let jobs = [], files = [];
let sent = null;   // the id of a file that was dropped here, until a job has it
let turn = 0;      // only the newest file's check is shown
let again = null;  // asks for the check once more, of another method
let view = null;   // the JobView that is shown

// ---- lists

const isResult = f => f.purpose === "fine-tune-results";

function jobEntry(j) {
  return el("li", {}, el("a", { class: "row", href: `#/tuning/${j.id}`,
                                "aria-current": view?.id === j.id ? "true" : null },
    el("span", { class: "name" }, jobName(j)), state(j.status),
    el("span", { class: "hint" }, when(j.created_at))));
}

function fileEntry(f) {
  return el("li", { class: "row" }, el("span", { class: "name" }, f.filename),
    el("span", { class: "hint" }, `${bytes(f.bytes)} · ${when(f.created_at)}`),
    el("button", { type: "button", class: "link", "aria-label": `Delete ${f.filename}`,
                   onclick: () => dropFile(f) }, "Delete"));
}

function fillSelect(select, none) {
  const old = select.value, usable = files.filter(f => f.purpose === "fine-tune");
  select.replaceChildren(el("option", { value: "" }, none), ...usable.map(f =>
    el("option", { value: f.id }, `${f.filename}, ${when(f.created_at)}`)));
  select.value = usable.some(f => f.id === old) ? old : "";
}

async function showLists() {
  try {
    [jobs, files] = await Promise.all([list("v1/fine_tuning/jobs"), list("v1/files")]);
    $("tuning-fault").replaceChildren();
    view?.showBeside();
  } catch (e) {
    $("tuning-fault").replaceChildren(fault(e));
  }
  const none = text => [el("li", { class: "empty" }, text)];
  $("jobs").replaceChildren(...(jobs.length ? jobs.map(jobEntry) : none("No jobs yet.")));
  const results = files.filter(isResult), own = files.filter(f => !isResult(f));
  $("results").replaceChildren(...results.map(fileEntry));
  $("results-box").hidden = !results.length;
  $("files").replaceChildren(...(own.length ? own.map(fileEntry) : none("No files yet.")));
  $("or").hidden = !own.length;
  fillSelect($("training-file"), "–");
  fillSelect($("job-form").elements.validation_file, "None");
}

async function dropFile(f) {
  if (!await confirmed(`Delete ${f.filename}?`, "Jobs that read it already go on.")) return;
  try {
    await drop(`v1/files/${encodeURIComponent(f.id)}`);
    await showLists();
  } catch (e) {
    $("tuning-fault").replaceChildren(fault(e));
  }
}

// ---- a new job

// A file that no job came to need: another was taken, or it cannot be used.
function forgetSent() {
  const id = sent;
  sent = null;
  if (id) drop(`v1/files/${encodeURIComponent(id)}`).then(showLists, () => {});
}

async function upload(file) {
  const body = new FormData();
  body.append("purpose", "fine-tune");
  body.append("file", file, file.name);
  return (await post("v1/files", body)).id;
}

function showCheck(c) {
  const more = c.faulty_examples - c.faults.length;
  const what = c.usable ? [el("p", { class: "hint" }, `${plural(c.examples, "example")}, ` +
                              `${plural(c.trained_tokens, "token")} to learn. A job can be made of it.`)]
                        : [fault(new ApiError(c.reason))];
  const lines = c.faults.map(f => el("li", {}, el("strong", {}, `Line ${f.line}: `), f.message));
  if (more > 0) lines.push(el("li", { class: "hint" }, `and ${number(more)} more`));
  $("check").replaceChildren(...what, lines.length ? el("ul", {}, ...lines) : "",
                             ...c.notes.map(t => el("p", { class: "note" }, t)));
  $("check").hidden = false;
}

// The server looks over the whole file before Start can be pressed. give: says which file it is, when
// it is there; mine: whose turn it is.
async function check(give, mine) {
  const say = text => { $("check").replaceChildren(el("p", { class: "hint" }, text)); };
  $("start").disabled = true;
  $("start-fault").replaceChildren();
  $("check").hidden = false;
  say("Looking over the file");
  try {
    const c = await post("v1/fine_tuning/check",
                         { training_file: await give(), method: form.reading() });
    if (mine !== turn) return;
    showCheck(c);
    $("start").disabled = !c.usable;
    if (!c.usable) forgetSent();
  } catch (e) {
    if (mine === turn) $("check").replaceChildren(fault(e));
  }
}

// Its method is that of its first row, unless another was chosen for it.
async function choose(file, isChosen = false) {
  if (!file) return;
  const mine = ++turn;
  again = () => choose(file, true);
  forgetSent();
  $("file").value = ""; // so that the same file, mended, can be chosen again
  $("training-file").value = "";
  $("drop").classList.add("done");
  $("start-state").textContent = `${file.name}, ${bytes(file.size)}`;
  const rows = await readRows(file);
  if (mine !== turn) return;
  if (!isChosen) form.suit(rows.lines[0] ?? "");
  const looked = check(async () => {
    const id = await upload(file);
    if (mine === turn) sent = id;
    else drop(`v1/files/${encodeURIComponent(id)}`).catch(() => {});
    return id;
  }, mine);
  await showRows($("rows"), rows, form.method());
  await looked;
}

async function chooseKept(isChosen = false) {
  const id = $("training-file").value, mine = ++turn;
  again = () => chooseKept(true);
  forgetSent();
  $("drop").classList.remove("done");
  $("start-state").textContent = "";
  if (!id) {
    clearChoice();
    return;
  }
  try {
    const { lines, isAll } = await readKept(id);
    if (mine !== turn) return;
    if (!isChosen) form.suit(lines[0] ?? "");
    check(async () => id, mine);
    showRows($("rows"), { lines, isAll, id }, form.method());
  } catch (e) {
    $("start-fault").replaceChildren(fault(e));
  }
}

// As if no file had been chosen yet.
function clearChoice() {
  turn++;
  sent = null;
  $("training-file").value = "";
  $("drop").classList.remove("done");
  $("start-state").textContent = "";
  $("start").disabled = true;
  $("rows").hidden = $("check").hidden = true;
}

async function begin(event) {
  event.preventDefault();
  $("start").disabled = true;
  $("start-fault").replaceChildren();
  try {
    const job = await post("v1/fine_tuning/jobs",
                           { ...form.wanted(), training_file: sent ?? $("training-file").value });
    clearChoice();
    location.hash = `#/tuning/${job.id}`;
  } catch (e) {
    $("start-fault").replaceChildren(fault(e));
    $("start").disabled = false;
  }
  showLists();
}

function watchDrop() {
  const page = $("tuning"), box = $("drop");
  const over = is => e => { e.preventDefault(); box.classList.toggle("over", is); };
  page.addEventListener("dragover", over(true));
  page.addEventListener("dragleave", over(false));
  page.addEventListener("drop", e => {
    over(false)(e);
    if ($("new-job").hidden) location.hash = "#/tuning/new";
    choose(e.dataTransfer.files[0]);
  });
}

// ---- the view

// The choices of a job that there was, and its file where that is still here.
async function like(id) {
  $("start-fault").replaceChildren();
  try {
    const [job] = await Promise.all([get(`v1/fine_tuning/jobs/${encodeURIComponent(id)}`), showLists()]);
    form.fill(job);
    $("training-file").value = files.some(f => f.id === job.training_file) ? job.training_file : "";
    if ($("training-file").value) chooseKept(true);
    else notice("The file of that job is gone: choose another one");
  } catch (e) {
    $("start-fault").replaceChildren(fault(e));
  }
}

export function enter(what) {
  const isJob = what.startsWith("ftjob-");
  if (view?.id !== what) {
    view?.close();
    view = isJob ? new JobView($("job"), what, showLists, () => jobs) : null;
  }
  $("job").hidden = !isJob;
  $("new-job").hidden = isJob;
  $("tuning").classList.toggle("deep", what !== "");
  if (what.startsWith("new/")) like(what.slice(4));
  else showLists();
}

export function leave() {
  view?.close();
  view = null;
}

export function start() {
  $("file").addEventListener("change", e => choose(e.target.files[0]));
  $("training-file").addEventListener("change", () => chooseKept());
  $("job-form").addEventListener("submit", begin);
  form.start();
  for (const name of ["method", "loss"])
    $("job-form").elements[name].addEventListener("change", () => {
      form.showMethod();
      if (!$("check").hidden) again?.();
    });
  watchDrop();
}
