// SPDX-License-Identifier: Apache-2.0
// openai_node.mjs FILE QUESTION: asks, fine-tunes on FILE, and asks again.
import fs from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import OpenAI from "openai";

const [path, question] = process.argv.slice(2);
const client = new OpenAI({
  baseURL: process.env.OPENAI_BASE_URL ?? "http://localhost:8080/v1",
  apiKey: process.env.OPENAI_API_KEY ?? "none",
});

async function ask(model) {
  process.stdout.write(`${model}: `);
  const stream = await client.chat.completions.create({
    model, messages: [{ role: "user", content: question }], temperature: 0, max_tokens: 64,
    stream: true,
  });
  for await (const event of stream)
    process.stdout.write(event.choices[0]?.delta?.content ?? "");
  console.log();
}

const base = (await client.models.list()).data[0].id;
await ask(base);

const uploaded = await client.files.create({ file: fs.createReadStream(path), purpose: "fine-tune" });
let job = await client.fineTuning.jobs.create({ model: base, training_file: uploaded.id });
while (!["succeeded", "failed", "cancelled"].includes(job.status)) {
  await sleep(500);
  job = await client.fineTuning.jobs.retrieve(job.id);
}
if (job.status !== "succeeded")
  throw new Error(`the job ${job.status}: ${job.error?.message}`);

await ask(job.fine_tuned_model);
