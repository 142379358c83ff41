#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Learning from rewards with TRL's GRPOTrainer and PyTorch on the CPU, beside a job of a running server.

    tests/peer/grpo_trl.py [--model DIR] [--prompts 1] [--group 8] [--new-tokens 128] [--steps 2] [--rounds 1]
                           [--dtype bf16] [--quantize bf16] [--threads N] [--alone trl|tandem]

A model of random weights (SmolLM2-135M's shape, unless a directory is named) is trained by both in turn, each alone
and in processes of its own: an adapter of rank 16 on all linear layers, nothing compared with, a reward that costs no
time and tells a prompt's samples apart. A step draws --group samples of --new-tokens tokens from each of its prompts
and learns from them. What is counted is from the end of the first step to that of the last, with all that is
between: sampling, rewards, the step, the new values for the next samples. A line for each, and how many times as
many samples a second; beside them samples for each second of a core, which other programs on the machine change less.

--dtype is how PyTorch keeps and multiplies: all in f32, f32 and products in bf16 (autocast), or weights in bf16 too;
the adapter is f32. --quantize is how the server keeps the base.

Needs torch, transformers, peft and trl, and a built program.
"""
import argparse
import contextlib
import http.client
import json
import os
import pathlib
import statistics
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve()
sys.path.insert(0, str(HERE.parents[1] / "lib"))
import serving  # noqa: E402

RANK, LR = 16, 1e-4
# Cut into tokens a row of numbers says little of how near it is to another, and no two samples are as near.
GRADER = {"type": "text_similarity", "name": "alike", "evaluation_metric": "fuzzy_match",
          "input": "{{sample.output_text}}", "reference": "w77 w777 w7777 w1 w12 w123 w1234 w12345"}


def parse():
    p = argparse.ArgumentParser(description="GRPO by TRL beside a job of a server")
    p.add_argument("--model", type=pathlib.Path)
    p.add_argument("--prompts", type=int, default=1, help="of a step")
    p.add_argument("--group", type=int, default=8, help="samples of a prompt")
    p.add_argument("--new-tokens", type=int, default=128)
    p.add_argument("--steps", type=int, default=2, help="that are counted, behind a first one")
    p.add_argument("--rounds", type=int, default=1)
    p.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    p.add_argument("--dtype", choices=["f32", "autocast", "bf16"], default="bf16", help="the fastest of them with AVX-512")
    p.add_argument("--quantize", default="bf16")
    p.add_argument("--alone", choices=["trl", "tandem"], help="that one, once")
    return p.parse_args()


def messages(i):
    return [{"role": "user", "content": f"Say {i:3} in words."}]


def told(a, name, ends, lengths):
    """ends: when each step was over, by the clock and by what the process's threads had run. A line for people; both
    rates."""
    clock, cores = (x - y for x, y in zip(ends[-1], ends[0]))
    n = a.prompts * a.group * (len(ends) - 1)
    print(f"{name}: {n / clock:.3f} samples/s, {n / cores:.3f} by the second of a core, {statistics.mean(lengths):.1f} "
          f"tokens each, steps of {', '.join(f'{x[0] - y[0]:.1f}' for x, y in zip(ends[1:], ends))} s", flush=True)
    return n / clock, n / cores


# ---- TRL


def trl_alone(a):
    import peft
    import torch
    import transformers
    import trl
    from datasets import Dataset

    torch.set_num_threads(a.threads)
    ends, lengths = [], []

    class Clock(transformers.TrainerCallback):
        def on_step_end(self, *_, **__):
            ends.append((time.monotonic(), time.process_time()))

    def reward(completions, completion_ids, **_):
        lengths.extend(map(len, completion_ids))
        return [c[-1]["content"].count("7") / 100 for c in completions]

    words = transformers.PreTrainedTokenizerFast(
        tokenizer_file=str(a.model / "tokenizer.json"), pad_token="<|pad|>", eos_token="<|end|>",
        chat_template=json.loads((a.model / "tokenizer_config.json").read_text())["chat_template"])
    options = trl.GRPOConfig(
        output_dir=str(a.model / "trl"), max_steps=a.steps + 1, learning_rate=LR, per_device_train_batch_size=a.group,
        gradient_accumulation_steps=a.prompts, num_generations=a.group, max_completion_length=a.new_tokens,
        temperature=1.0, beta=0.0, loss_type="grpo", bf16=a.dtype != "f32", use_cpu=True, save_strategy="no",
        activation_checkpointing=False, report_to=[], disable_tqdm=True, logging_strategy="no")
    base = transformers.AutoModelForCausalLM.from_pretrained(
        a.model, dtype=torch.bfloat16 if a.dtype == "bf16" else torch.float32)
    trainer = trl.GRPOTrainer(
        model=base, reward_funcs=reward, args=options, processing_class=words, callbacks=[Clock()],
        train_dataset=Dataset.from_list([{"prompt": messages(i)} for i in range(a.prompts * (a.steps + 1))]),
        peft_config=peft.LoraConfig(r=RANK, lora_alpha=2 * RANK, target_modules="all-linear", task_type="CAUSAL_LM"))
    trainer.train()
    return told(a, f"TRL {trl.__version__}, torch {torch.__version__} {a.dtype}", ends, lengths)


# ---- Tandem


def ask_for_job(server, a, tmp):
    """The job's id. Rows are as many as its steps take, but never fewer than a job wants."""
    rows, grader = tmp / "prompts.jsonl", tmp / "grader.json"
    rows.write_text("".join(json.dumps({"messages": messages(i)}) + "\n" for i in range(a.prompts * (a.steps + 1))))
    grader.write_text(json.dumps(GRADER))
    p = subprocess.run(
        [serving.BIN, "tune", rows, "--url", server.url, "--grader", grader, "--group", str(a.group), "--max-tokens",
         str(a.new_tokens), "--batch", str(a.prompts), "--epochs", "1", "--rank", str(RANK), "--lr", str(LR),
         "--seed", "1"], check=True, capture_output=True, text=True)
    return p.stdout.strip()


def cores(server):
    """Seconds that the server's threads have run."""
    fields = pathlib.Path(f"/proc/{server.pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def steps_of(server, job):
    """When each step was told, and what of it: as the server says it."""
    with contextlib.closing(http.client.HTTPConnection("127.0.0.1", server.port, timeout=600)) as c:
        c.request("GET", f"/v1/fine_tuning/jobs/{job}/events?stream=true")
        for line in c.getresponse():
            if line.startswith(b"data: {"):
                event = json.loads(line[6:])
                assert event["level"] != "error", event
                if event["type"] == "metrics":
                    yield (time.monotonic(), cores(server)), event["data"]


def tandem_alone(a):
    with serving.scratch() as tmp, serving.Tandem(
            a.model, "--data-dir", tmp / "data", "--threads", a.threads, "--quantize", a.quantize, "--ctx", 1024,
            "--min-examples", 1, "--no-access-log") as server:
        seen = list(steps_of(server, ask_for_job(server, a, tmp)))
    assert len(seen) == a.steps + 1, seen
    assert all(m["train_reward_std"] > 0 for _, m in seen), "a step without a difference would have learned nothing"
    return told(a, f"Tandem {a.quantize}", [at for at, _ in seen], [m["completion_tokens_mean"] for _, m in seen])


# ---- both


def in_turn(a):
    """Each in a process of its own, which says its figure last."""
    times = []
    for _ in range(a.rounds):
        rates = []
        for which in ("trl", "tandem"):
            words = [*sys.argv[1:], "--model", str(a.model), "--alone", which]
            p = subprocess.run([sys.executable, HERE, *words], stdout=subprocess.PIPE, text=True, check=True)
            *lines, last = p.stdout.splitlines()
            print(lines[-1], flush=True)
            rates.append(json.loads(last))
        times.append([ours / theirs for theirs, ours in zip(*rates)])
        print("{:.2f} times, {:.2f} by cores".format(*times[-1]), flush=True)
    if a.rounds > 1:
        print("medians {:.2f} times, {:.2f} by cores".format(*map(statistics.median, zip(*times))))


def main():
    a = parse()
    if a.alone:
        print(json.dumps({"trl": trl_alone, "tandem": tandem_alone}[a.alone](a)))
        return
    with serving.scratch() as tmp:
        a.model = a.model or serving.make_model(tmp / "model", "--preset", "smollm-135m")
        in_turn(a)


if __name__ == "__main__":
    main()
