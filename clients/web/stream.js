// SPDX-License-Identifier: Apache-2.0
// An answer as it comes: what an event of a chat's stream adds to a message, and what is said of it when
// it has ended.
import { number, plural, seconds } from "./dom.js";
import { events, request } from "./api.js";
import { tokensOf } from "./tokens.js";

export const PATH = "v1/chat/completions";
const REST_MS = 20;

function addCalls(m, deltas) {
  m.calls ??= [];
  for (const d of deltas) {
    const c = m.calls[d.index] ??= { id: d.id, name: "", arguments: "" };
    c.name += d.function?.name ?? "";
    c.arguments += d.function?.arguments ?? "";
  }
}

function take(m, choice) {
  const d = choice.delta ?? {};
  if (d.reasoning_content) m.thoughts = (m.thoughts ?? "") + d.reasoning_content;
  if (d.tool_calls) addCalls(m, d.tool_calls);
  m.content += d.content ?? "";
  m.tokens?.push(...tokensOf(choice));
}

// times: the server's, which no connection and no frame of this page has a part in.
function summary(times, usage, reason) {
  const n = usage?.completion_tokens, rate = (n - 1) / times?.decode_ms * 1000;
  return [n && plural(n, "token"),
          times && `first after ${seconds((times.queue_ms + times.prompt_ms) / 1000)}`,
          Number.isFinite(rate) && n > 1 && `${number(rate)} tokens/s`,
          { length: "reached max tokens", stop: "ended by itself", tool_calls: "calls a tool" }[reason] ??
          reason].filter(Boolean).join(" · ");
}

// Fills m with the answer to body; tells grew() of each piece.
export async function receive(m, body, signal, grew) {
  let usage, times, reason, rested = performance.now();
  const response = await request(PATH, { method: "POST", body, signal });
  for await (const event of events(response)) {
    usage = event.usage ?? usage;
    times = event.timings ?? times;
    m.model = event.model ?? m.model;
    const choice = event.choices[0];
    if (!choice) continue;
    reason = choice.finish_reason ?? reason;
    take(m, choice);
    grew();
    if (performance.now() - rested > REST_MS) { // a fast stream leaves the page no moment by itself
      await new Promise(done => setTimeout(done));
      rested = performance.now();
    }
  }
  m.note = summary(times, usage, reason);
}
