// SPDX-License-Identifier: Apache-2.0
// One fine-tuning job, as its events tell it: how far it is, its loss beside that of others, what it said
// and was rewarded for, its checkpoints, and the buttons that pause, resume, end and repeat it.
import { clock, confirmed, el, fault, number, percent, plural, seconds, when } from "./dom.js";
import { ApiError, drop, events, get, loadModels, models, post, request } from "./api.js";
import { Chart, smoothed } from "./chart.js";
import { useModel } from "./playground.js";

const PATH = "v1/fine_tuning/jobs", AGAIN_MS = 1000, OTHERS_MOST = 4, STEPS_SHOWN = 20;
export const ENDS = ["succeeded", "failed", "cancelled"];
const METHODS = { supervised: "examples", dpo: "preferences", reinforcement: "rewards" };
const WORDS = { validating_files: "reading files" };
// Short, and what the model of it will end in.
export const jobName = j => `${j.user_provided_suffix || "job"} ${j.id.slice(-8)}`;
const answers = name => models.some(m => m.id === name);
export const state = s => el("span", { class: `pill ${s}` }, WORDS[s] ?? s);

// What a job is watched by: a loss of rewards says nothing.
const measure = d => d.train_reward_mean ?? d.train_loss;

// The events of a job, from the first one on, until it has ended. A stream that breaks off is taken up
// again; a refusal is not.
async function follow(path, signal, take) {
  for (let after = ""; ;) {
    try {
      const stream = await request(`${path}/events?stream=true${after}`, { signal });
      for await (const event of events(stream)) {
        after = `&after=${encodeURIComponent(event.id)}`;
        take(event);
      }
      return;
    } catch (e) {
      if (e.name === "AbortError" || e instanceof ApiError && e.status) throw e;
      await new Promise(done => setTimeout(done, AGAIN_MS));
      if (signal.aborted) return;
    }
  }
}

export class JobView {
  // changed: called when the lists beside it are no longer what the server has; others: says which jobs
  // there are.
  constructor(box, id, changed, others) {
    Object.assign(this, { box, id, changed, jobs: others, path: `${PATH}/${encodeURIComponent(id)}` });
    this.stop = new AbortController();
    this.others = new Map(); // of jobs that are drawn beside it: {stop, points, kind}
    this.samples = [];       // of the last steps: {step, prompt, samples}
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
    this.beside = el("ul", { class: "list choices" });
    this.besideBox = el("details", { hidden: true }, el("summary", {}, "Beside other jobs"), this.beside);
    this.card.append(this.besideBox);
    this.sampleAt = el("input", { type: "range", min: 0, max: 0, value: 0, "aria-label": "Step",
                                  oninput: () => this.showSamples() });
    this.sampleBody = el("div");
    this.sampleCard = el("section", { class: "card", hidden: true }, el("h3", {}, "Samples"),
                         this.sampleAt, this.sampleBody);
    this.checkpoints = el("ul", { class: "list checkpoints" });
    this.log = el("ol", { class: "events" });
    this.hyper = el("dl", { class: "figures small" });
    box.replaceChildren(this.head, this.trouble, this.meter, this.figures,
      this.card, this.sampleCard,
      el("section", {}, el("h3", {}, "Checkpoints"), this.checkpoints),
      el("section", {}, el("h3", {}, "Events"),
         el("div", { role: "log", "aria-label": "Events" }, this.log)),
      el("details", {}, el("summary", {}, "Hyperparameters"), this.hyper));
    this.run().catch(e => e.name === "AbortError" || this.trouble.replaceChildren(fault(e)));
  }

  close() {
    this.stop.abort();
    for (const o of this.others.values()) o.stop.abort();
  }

  // ---- what is asked

  async run() {
    await this.look();
    await follow(this.path, this.stop.signal, event => this.take(event));
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
      const value = measure(d);
      if (Number.isFinite(value)) this.loss.push([d.step, value]);
      const valid = d.full_valid_loss ?? d.valid_loss;
      if (Number.isFinite(valid)) this.valid.push([d.step, valid]);
      this.last = { ...this.last, ...d };
      if (d.samples?.length) this.takeSamples(d);
    } else {
      this.log.prepend(el("li", { class: event.level },
                          el("time", { title: when(event.created_at) }, clock(event.created_at)),
                          el("span", {}, event.message)));
      this.lookAgain();
    }
    this.drawSoon();
  }

  drawSoon() {
    this.frame ??= requestAnimationFrame(() => { this.frame = null; this.draw(); });
  }

  // ---- other jobs' curves

  // Those that are watched by the same number; which are drawn is chosen here.
  showBeside() {
    if (!this.job) return;
    const type = this.job.method?.type, isFull = this.others.size >= OTHERS_MOST;
    const list = this.jobs().filter(j => j.id !== this.id && j.method?.type === type);
    this.besideBox.hidden = !list.length;
    this.beside.replaceChildren(...list.slice(0, 50).map(j => {
      const other = this.others.get(j.id);
      return el("li", {}, el("label", { class: "switch" },
        el("input", { type: "checkbox", checked: Boolean(other), disabled: !other && isFull,
                      onchange: e => this.choose(j, e.target) }),
        el("span", {}, other && el("i", { class: `dot ${other.kind}` }),
           `${jobName(j)}, ${when(j.created_at)}`)));
    }));
  }

  choose(j, box) {
    const old = this.others.get(j.id);
    if (old) {
      old.stop.abort();
      this.others.delete(j.id);
    } else {
      const used = [...this.others.values()].map(o => o.kind);
      const kind = ["c1", "c2", "c3", "c4"].find(k => !used.includes(k));
      const other = { kind, name: jobName(j), points: [], stop: new AbortController() };
      this.others.set(j.id, other);
      follow(`${PATH}/${encodeURIComponent(j.id)}`, other.stop.signal, event => {
        const d = event.type === "metrics" && event.data, value = d ? measure(d) : NaN;
        if (Number.isFinite(value)) other.points.push([d.step, value]);
        this.drawSoon();
      }).catch(e => e.name === "AbortError" || this.trouble.replaceChildren(fault(e)));
    }
    const i = [...this.beside.querySelectorAll("input")].indexOf(box);
    this.showBeside();
    this.beside.querySelectorAll("input")[i]?.focus();
    this.draw();
  }

  // ---- what was said for rewards

  takeSamples(d) {
    const isLast = Number(this.sampleAt.value) === Number(this.sampleAt.max);
    this.samples = [...this.samples, d].slice(-STEPS_SHOWN);
    this.sampleAt.max = this.samples.length - 1;
    if (isLast) this.sampleAt.value = this.sampleAt.max;
    this.sampleCard.hidden = false;
    this.showSamples();
  }

  showSamples() {
    const d = this.samples[Number(this.sampleAt.value)];
    const most = Math.max(...d.samples.map(s => Math.abs(s.reward)), 1e-9);
    const sample = s => {
      const bar = el("i");
      bar.style.width = `${100 * Math.max(0, s.reward) / most}%`;
      return el("li", {}, el("span", { class: "score" }, number(s.reward)),
                el("span", { class: "meter" }, bar),
                el("span", { class: "said" }, s.text || "(nothing)",
                   s.is_cut && el("span", { class: "hint" }, " …")));
    };
    this.sampleAt.setAttribute("aria-valuetext", `step ${d.step}`);
    this.sampleBody.replaceChildren(
      el("p", { class: "hint" }, `Step ${number(d.step)}: answers to a prompt, and what they were worth`),
      d.prompt ? el("p", { class: "prompt" }, d.prompt) : "",
      el("ol", { class: "samples" }, d.samples.map(sample)));
  }

  draw() {
    const d = this.last;
    if (!d) return;
    this.card.hidden = false;
    this.chart.draw([{ kind: "train faint", name: "this step", points: this.loss },
                     { kind: "train", name: "of late", points: smoothed(this.loss) },
                     { kind: "serve", name: "validation", points: this.valid, marks: true },
                     ...[...this.others.values()].map(o => ({ ...o, points: smoothed(o.points) }))],
                    d.total_steps);
    this.meter.value = d.step / d.total_steps;
    const isOver = ENDS.includes(this.job.status), left = d.estimated_finish - Date.now() / 1000;
    const isPair = Number.isFinite(d.train_reward_accuracy);
    const isReward = Number.isFinite(d.train_reward_mean), what = isReward ? "Reward" : "Loss";
    this.what.textContent = what;
    const rows = [["Step", `${number(d.step)} of ${number(d.total_steps)}`],
                  [what, number(this.loss.at(-1)?.[1])],
                  isReward ? ["Length", `${number(d.completion_tokens_mean)} tokens`]
                  : isPair ? ["Preferred wins", percent(d.train_reward_accuracy)]
                  : Number.isFinite(d.train_accuracy) ? ["Accuracy", percent(d.train_accuracy)]
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
      el("p", { class: "hint" }, [j.id, `of ${j.model}`, METHODS[j.method?.type], when(j.created_at)]
        .filter(Boolean).join(" · ")),
      el("div", { class: "actions" },
         answers(model) && button("Try it", () => useModel(model), "main"),
         answers(model) && button("Beside the base", () => useModel(model, models[0].id)),
         canPause && button("Pause", () => this.act("pause")),
         j.status === "paused" && button("Resume", () => this.act("resume"), "main train"),
         el("a", { class: "button", href: `#/tuning/new/${encodeURIComponent(j.id)}` },
            "Again, with changes"),
         !ENDS.includes(j.status) && button("Cancel", () => this.act("cancel"), "stop"),
         (answers(model) || model && isFull) && button("Delete model", () => this.forget(), "stop")));
    if (j.error) this.trouble.replaceChildren(fault(new ApiError(j.error.message, j.error)));
    this.hyper.replaceChildren(...Object.entries(j.hyperparameters).map(([k, v]) =>
      el("div", {}, el("dt", {}, k), el("dd", {}, String(v)))));
    this.checkpoints.replaceChildren(...(this.found.length ? this.found.map(c => this.checkpoint(c))
      : [el("li", { class: "empty" }, "None yet: one is kept behind each epoch.")]));
    this.card.hidden = ENDS.includes(j.status) && !this.last; // no step will come
    this.showBeside();
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
