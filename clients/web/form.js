// SPDX-License-Identifier: Apache-2.0
// The form that makes a job: its fields by the method, what stands in them as the API takes it, and
// filled in again from a job that there was. Which method a file is for its first rows say.
import { $, el } from "./dom.js";
import { models } from "./api.js";

const int = (min, max) => ({ type: "number", min, max });
const real = max => ({ type: "number", min: 0, max, step: "any" });

const TEXTS = ["x_embedding", "x_classification"];

// name, label, the input's attributes or a list of words, methods (none: all). Rows behind `more` are folded.
const FIELDS = [
  ["n_epochs", "Epochs", int(1, 50)],
  ["batch_size", "Batch size", int(1, 256)],
  ["learning_rate_multiplier", "Learning rate, ×", real()],
  ["lora_rank", "Rank", int(1, 256)],
  ["lora_alpha", "Alpha", real()],
  ["beta", "Beta", real(2), ["dpo"]],
  ["loss", "Loss", ["dpo", "x_ipo", "x_orpo", "x_simpo", "x_kto"], ["dpo"]],
  ["scale", "Scale of cosines", real(1000), ["x_embedding"]],
  ["group_size", "Samples of a prompt", int(2, 64), ["reinforcement"]],
  ["max_completion_tokens", "Tokens of a sample", int(1, 65536), ["reinforcement"]],
  ["kl_weight", "KL weight", real(10), ["reinforcement"]],
];
const MORE = [
  ["learning_rate", "Learning rate itself", real(10)],
  ["schedule", "Schedule", ["linear", "cosine", "constant"]],
  ["warmup_ratio", "Warm-up, share", real(1)],
  ["weight_decay", "Weight decay", real(10)],
  ["max_grad_norm", "Largest gradient", real()],
  ["lora_dropout", "Dropout", real(0.95)],
  ["max_length", "Longest row, tokens", int(8)],
  ["training_type", "What is trained", ["lora", "full"], ["supervised", ...TEXTS]],
  ["result", "Result", ["last", "best"]],
  ["early_stopping", "Early stopping", int(0)],
  ["desirable_weight", "Weight of true labels", real(1000), ["dpo"]],
  ["undesirable_weight", "Weight of false labels", real(1000), ["dpo"]],
  ["eval_interval", "Steps between validations", int(1), ["reinforcement"]],
  ["eval_samples", "Samples of a validation prompt", int(1, 64), ["reinforcement"]],
  ["advantage", "Advantage", ["grpo", "dr_grpo", "rloo"], ["reinforcement"]],
  ["clip_range", "Clip range", real(1), ["reinforcement"]],
];

// What a grader may look like, to begin with.
const GRADERS = {
  "the answer has the right words": { type: "string_check", name: "right", operation: "like",
    input: "{{sample.output_text}}", reference: "{{item.answer}}" },
  "how alike it is": { type: "text_similarity", name: "alike", evaluation_metric: "fuzzy_match",
    input: "{{sample.output_text}}", reference: "{{item.answer}}" },
  "what a program says": { type: "python", name: "short",
    source: "def grade(sample, item):\n    return 1 / (1 + len(sample['output_text']))" },
  "what a model says": { type: "score_model", name: "good", model: "", range: [0, 1],
    input: [{ role: "user", content: "How good is this answer, from 0 to 1? {{sample.output_text}}" }] },
};

const form = () => $("job-form").elements;

function field([name, label, kind, methods]) {
  const input = Array.isArray(kind)
    ? el("select", { name }, el("option", { value: "" }, "auto"), kind.map(w => el("option", {}, w)))
    : el("input", { name, placeholder: "auto", ...kind });
  return el("label", { "data-of": methods?.join(" ") }, label, input);
}

// Fields of another method are off, so that they are no part of what is sent.
export function showMethod() {
  const method = form().method.value, isRewards = method === "reinforcement";
  for (const label of $("job-form").querySelectorAll("label[data-of]")) {
    const has = label.dataset.of.split(" ").includes(method);
    label.hidden = !has;
    label.querySelector("input, select").disabled = !has;
  }
  $("grader-box").hidden = !isRewards;
}

// What decides how rows are read: the method, and of preferences the loss.
export function reading() {
  const type = form().method.value, loss = form().loss.value;
  return type === "dpo" && loss ? { type, dpo: { hyperparameters: { loss } } } : { type };
}

function showGrader() {
  const grader = structuredClone(GRADERS[$("grader-kind").value]);
  if (grader.model === "") grader.model = models[0]?.id ?? "";
  $("grader").value = JSON.stringify(grader, null, 2);
}

const isVerdict = label => [true, false, "desirable", "undesirable"].includes(label);

// By what the first row has, as far as it can be told.
function methodOf(line) {
  let row;
  try {
    row = JSON.parse(line);
  } catch {
    return null;
  }
  if (row?.preferred_output || row?.chosen) return "dpo";
  if ((row?.messages || row?.completion) && isVerdict(row.label)) return "dpo";
  if (row?.positive) return "x_embedding";
  if (row?.text && row.label !== undefined) return "x_classification";
  const last = Array.isArray(row?.messages) ? row.messages.at(-1)?.role : null;
  return last && last !== "assistant" ? "reinforcement" : "supervised";
}

function setMethod(method) {
  form().method.value = method;
  showMethod();
}

// The method of a first row, and where its rows are judged one by one their loss.
export function suit(line) {
  const method = methodOf(line), loss = form().loss;
  if (!method) return;
  setMethod(method);
  if (method === "dpo" && isVerdict(JSON.parse(line).label)) loss.value = "x_kto";
  else if (loss.value === "x_kto") loss.value = "";
}

export const method = () => form().method.value;

// The body of a job, but for its file. Throws where the grader is no JSON.
export function wanted() {
  const fields = [...new FormData($("job-form"))].filter(([, value]) => value !== "");
  const { model, method, seed, suffix, validation_file, ...said } = Object.fromEntries(fields);
  const isNumber = name => $("job-form").elements[name].type === "number";
  const hyper = Object.entries(said).map(([k, v]) => [k, isNumber(k) ? Number(v) : v]);
  const of = { hyperparameters: Object.fromEntries(hyper) };
  if (method === "reinforcement") of.grader = JSON.parse($("grader").value);
  return { model, suffix, validation_file, seed: seed === undefined ? undefined : Number(seed),
           method: { type: method, [method]: of } };
}

// Puts a job's choices into the fields. A multiplier and the rate itself are two words for one thing.
export function fill(job) {
  const { type } = job.method, { hyperparameters: hyper, grader } = job.method[type];
  setMethod(type);
  for (const [name] of [...FIELDS, ...MORE]) {
    const value = hyper[name];
    form()[name].value = value === undefined || value === null || value === "auto" ? "" : value;
  }
  if (hyper.learning_rate && hyper.learning_rate !== "auto") form().learning_rate_multiplier.value = "";
  form().seed.value = job.seed ?? "";
  form().suffix.value = job.user_provided_suffix ?? "";
  form().validation_file.value = job.validation_file ?? "";
  if (models.some(m => m.id === job.model)) form().model.value = job.model;
  if (grader) $("grader").value = JSON.stringify(grader, null, 2);
}

export function showModels() {
  const old = form().model.value;
  form().model.replaceChildren(...models.map(m => el("option", {}, m.id)));
  form().model.value = models.some(m => m.id === old) ? old : models[0].id;
}

export function start() {
  $("hyper").replaceChildren(...FIELDS.map(field), field(["seed", "Seed", int(0)]));
  $("hyper-more").replaceChildren(...MORE.map(field));
  $("grader-kind").replaceChildren(...Object.keys(GRADERS).map(k => el("option", {}, k)));
  $("grader-kind").addEventListener("change", showGrader);
  window.addEventListener("models", () => { showModels(); $("grader").value || showGrader(); });
  showMethod();
}
