// SPDX-License-Identifier: Apache-2.0
// One fine-tuning job, as its events tell it: how far it is, its loss, its checkpoints, and the
// buttons that pause, resume and end it.
import { clock, confirmed, el, fault, number, percent, plural, seconds, when } from "./dom.js";
import { ApiError, drop, events, get, loadModels, models, post, request } from "./api.js";
import { Chart, smoothed } from "./chart.js";
import { useModel } from "./playground.js";

const PATH = "v1/fine_tuning/jobs", AGAIN_MS = 1000;
export const ENDS = ["succeeded", "failed", "cancelled"];
const WORDS = { validating_files: "reading files" };
// Short, and what the model of it will end in.
export const jobName = j => `${j.user_provided_suffix || "job"} ${j.id.slice(-8)}`;
const answers = name => models.some(m => m.id === name);
export const state = s => el("span", { class: `pill ${s}` }, WORDS[s] ?? s);

export class JobView {
  // changed: called when the lists beside it are no longer what the server has.
  constructor(box, id, changed) {
    Object.assign(this, { box, id, changed, path: `${PATH}/${encodeURIComponent(id)}` });
    this.stop = new AbortController();
    this.loss = [];
    this.valid = [];
    this.last = null; // the data of the newest step
    this.head = el("div", { class: "job-head" });
    this.trouble = el("div");
    this.meter = el("progress", { max: 1, value: 0, "aria-label": "Progress" });
    this.figures = el("dl", { class: "figures" });
    this.chart = new Chart("Loss", "step", "No step is done yet.");
    this.what = el("h3", {}, "Loss");
    this.card = el("section", { class: "card" }, this.what, this.chart.box);
    this.checkpoints = el("ul", { class: "list" });
    this.log = el("ol", { class: "events" });
    this.hyper = el("dl", { class: "figures small" });
    box.replaceChildren(this.head, this.trouble, this.meter, this.figures,
      this.card,
      el("section", {}, el("h3", {}, "Checkpoints"), this.checkpoints),
      el("section", {}, el("h3", {}, "Events"),
         el("div", { role: "log", "aria-label": "Events" }, this.log)),
      el("details", {}, el("summary", {}, "Hyperparameters"), this.hyper));
    this.run().catch(e => e.name === "AbortError" || this.trouble.replaceChildren(fault(e)));
  }

  close() {
    this.stop.abort();
  }

  // ---- what is asked

  async run() {
    await this.look();
    for (let after = ""; ;) {
      try {
        const follow = await request(`${this.path}/events?stream=true${after}`,
                                     { signal: this.stop.signal });
        for await (const event of events(follow)) {
          after = `&after=${encodeURIComponent(event.id)}`;
          this.take(event);
        }
        return;
      } catch (e) { // a stream that breaks off is taken up again; a refusal is not
        if (e.name === "AbortError" || e instanceof ApiError && e.status) throw e;
        await new Promise(done => setTimeout(done, AGAIN_MS));
        if (this.stop.signal.aborted) return;
      }
    }
  }

  async look() {
    const signal = this.stop.signal;
    this.job = await get(this.path, { signal });
    await loadModels();
    this.found = (await get(`${this.path}/checkpoints?limit=100`, { signal })).data;
    this.show();
  }

  // One look at a time is enough, and one more for what came meanwhile.
  async lookAgain() {
    this.wanted = true;
    if (this.looking) return;
    this.looking = true;
    try {
      while (this.wanted) {
        this.wanted = false;
        await this.look();
        this.changed();
      }
    } catch (e) {
      if (e.name !== "AbortError") this.trouble.replaceChildren(fault(e));
    } finally {
      this.looking = false;
    }
  }

  async act(what) {
    try {
      this.trouble.replaceChildren();
      this.job = await post(`${this.path}/${what}`);
      this.show();
      this.changed();
    } catch (e) {
      this.trouble.replaceChildren(fault(e));
    }
  }

  async forget() {
    const name = this.job.fine_tuned_model;
    if (!await confirmed(`Delete ${name}?`, "Requests that run with it end on it; no new ones begin."))
      return;
    try {
      await drop(`v1/models/${encodeURIComponent(name)}`);
      await this.lookAgain();
    } catch (e) {
      this.trouble.replaceChildren(fault(e));
    }
  }

  // ---- what comes

  take(event) {
    const d = event.data;
    if (event.type === "metrics" && d) {
      const value = d.train_reward_mean ?? d.train_loss; // a loss of rewards says nothing
      if (Number.isFinite(value)) this.loss.push([d.step, value]);
      const valid = d.full_valid_loss ?? d.valid_loss;
      if (Number.isFinite(valid)) this.valid.push([d.step, valid]);
      this.last = { ...this.last, ...d };
    } else {
      this.log.prepend(el("li", { class: event.level },
                          el("time", { title: when(event.created_at) }, clock(event.created_at)),
                          el("span", {}, event.message)));
      this.lookAgain();
    }
    this.frame ??= requestAnimationFrame(() => { this.frame = null; this.draw(); });
  }

  draw() {
    const d = this.last;
    if (!d) return;
    this.card.hidden = false;
    this.chart.draw([{ kind: "train faint", name: "this step", points: this.loss },
                     { kind: "train", name: "of late", points: smoothed(this.loss) },
                     { kind: "serve", name: "validation", points: this.valid, marks: true }],
                    d.total_steps);
    this.meter.value = d.step / d.total_steps;
    const isOver = ENDS.includes(this.job.status), left = d.estimated_finish - Date.now() / 1000;
    const isReward = Number.isFinite(d.train_reward_mean), what = isReward ? "Reward" : "Loss";
    this.what.textContent = what;
    const rows = [["Step", `${number(d.step)} of ${number(d.total_steps)}`],
                  [what, number(this.loss.at(-1)?.[1])],
                  isReward ? ["Length", `${number(d.completion_tokens_mean)} tokens`]
                           : ["Token accuracy", percent(d.train_mean_token_accuracy)],
                  ["Speed", `${number(d.tokens_per_second)} tokens/s`],
                  isOver ? ["Trained", plural(d.trained_tokens, "token")]
                         : ["Left", this.job.status === "running" && left > 0 ? seconds(left) : "–"]];
    this.figures.replaceChildren(...rows.map(([k, v]) => el("div", {}, el("dt", {}, k), el("dd", {}, v))));
  }

  show() {
    const j = this.job, button = (text, f, kind) =>
      el("button", { type: "button", class: kind, onclick: f }, text);
    const model = j.fine_tuned_model, canPause = ["running", "queued"].includes(j.status);
    const isFull = j.hyperparameters.training_type === "full"; // its result is for another server
    this.head.replaceChildren(
      el("h2", { class: "title" }, model ?? jobName(j)), state(j.status),
      el("p", { class: "hint" }, `${j.id} · of ${j.model} · ${when(j.created_at)}`),
      el("div", { class: "actions" },
         answers(model) && button("Try it", () => useModel(model), "main"),
         canPause && button("Pause", () => this.act("pause")),
         j.status === "paused" && button("Resume", () => this.act("resume"), "main train"),
         !ENDS.includes(j.status) && button("Cancel", () => this.act("cancel"), "stop"),
         (answers(model) || model && isFull) && button("Delete model", () => this.forget(), "stop")));
    if (j.error) this.trouble.replaceChildren(fault(new ApiError(j.error.message, j.error)));
    this.hyper.replaceChildren(...Object.entries(j.hyperparameters).map(([k, v]) =>
      el("div", {}, el("dt", {}, k), el("dd", {}, String(v)))));
    this.checkpoints.replaceChildren(...(this.found.length ? this.found.map(c => this.checkpoint(c))
      : [el("li", { class: "empty" }, "None yet: one is kept behind each epoch.")]));
    this.card.hidden = ENDS.includes(j.status) && !this.last; // no step will come
    this.draw();
  }

  checkpoint(c) {
    const loss = c.metrics.full_valid_loss ?? c.metrics.train_loss, name = c.fine_tuned_model_checkpoint;
    return el("li", { class: "row" },
              el("span", { class: "name" }, `Step ${number(c.step_number)}`,
                 Number.isFinite(loss) && `, loss ${number(loss)}`,
                 el("code", { class: "hint" }, name)),
              answers(name) &&
              el("button", { type: "button", "aria-label": `Try ${name}`, onclick: () => useModel(name) },
                 "Try"));
  }
}
