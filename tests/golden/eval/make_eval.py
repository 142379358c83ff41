#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What lm-evaluation-harness says of the bundled model on three local tasks, which `tandem eval` is held
to (tests/clients/eval/test_eval.py). Run in a virtual environment with lm-eval 0.4.9, transformers 4.57.3
and PyTorch 2.6, from the root of the tree:

    tests/golden/eval/make_eval.py

Writes the rows of the tasks beside it, which it draws itself, and golden.json: for each task the
harness's metrics, for each question the log-probability of each choice. The texts are measured twice: in
windows of 1,023 tokens and of 64."""
import json
import os
import pathlib
import random
import tempfile

os.environ.update(HF_HUB_OFFLINE="1", HF_DATASETS_OFFLINE="1", TOKENIZERS_PARALLELISM="false", TQDM_DISABLE="1")
HERE = pathlib.Path(__file__).resolve().parent
MODEL = HERE.parents[2] / "examples/tiny/model"
WINDOWS = (1023, 64)
rng = random.Random(20261123)

WHO = ["owl", "fox", "bear", "duck", "mouse", "goat"]
WHAT = ["spoon", "lantern", "kite", "drum", "shell", "rope"]
WHERE = ["garden", "forest", "harbour", "village", "barn"]


def story():
    who, what, where = rng.choice(WHO), rng.choice(WHAT), rng.choice(WHERE)
    return (f"There was a clever {who} who lived in a {where}. One evening the {who} found a heavy {what} "
            f"under a stone. The {who} was curious and showed the {what} to the sailor. They took turns "
            f"with it. And that was the best day of all.")


def choices():
    """Half of them are asked as in a chat, half go on from a story."""
    for i in range(40):
        who, what = rng.choice(WHO), rng.sample(WHAT, 4)
        right = rng.randrange(4)
        if i % 2:
            prompt = (f"There was a clever {who} who lived in a barn. The {who} found a heavy {what[right]}. "
                      f"The {who} showed the sailor the")
            yield {"prompt": prompt, "choices": [" " + w + " and the stone" * (k % 3) for k, w in enumerate(what)],
                   "answer": right}
        else:
            a, b = rng.randrange(10, 50), rng.randrange(10, 50)
            sums = [a + b, a + b + 10, a + b + 1, a - b]
            prompt = f"<|user|>What is {a} + {b}?<|end|><|assistant|>{a} + {b}: so"
            order = rng.sample(range(4), 4)
            yield {"prompt": prompt, "choices": [f" {sums[k]}" for k in order], "answer": order.index(0)}


def texts():
    for n in (1, 2, 1, 3, 30):
        yield {"text": "\n\n".join(story() for _ in range(n))}
    yield {"text": "  Two spaces before, a café, 42 Ω, and a tail.\n"}


def answers():
    for i in range(24):
        a, b = rng.randrange(10, 60), rng.randrange(10, 40)
        if i % 3 == 2:
            yield {"prompt": "<|user|>What does tandem tune do?<|end|><|assistant|>",
                   "completion": "tandem tune fine-tunes a model on a server, on a file of rows."}
            continue
        low = (a + b) % 10
        carry = ", 1 more" if a % 10 + b % 10 > 9 else ""
        yield {"prompt": f"<|user|>What is {a} + {b}?<|end|><|assistant|>",
               "completion": f"{a} + {b}: {a % 10} + {b % 10} = {low}, {a // 10} + {b // 10} = "
                             f"{a // 10 + b // 10}{carry}, so {a + b}"}


def task(name, file, **more):
    return {"task": name, "dataset_path": "json", "dataset_kwargs": {"data_files": {"test": str(file)}},
            "test_split": "test", "metadata": {"version": 1}, **more}


def measure(lm, config, samples=False):
    from lm_eval import simple_evaluate
    from lm_eval.tasks import TaskManager
    name = "tandem_" + config["task"]
    with tempfile.TemporaryDirectory() as folder:  # a task's file is YAML, which JSON is, too
        (pathlib.Path(folder) / f"{name}.yaml").write_text(json.dumps({**config, "task": name}))
        got = simple_evaluate(model=lm, tasks=[name], log_samples=samples, bootstrap_iters=0,
                              task_manager=TaskManager(include_path=folder, include_defaults=False))
    out = {k.split(",")[0]: v for k, v in got["results"][name].items()
           if k.endswith(",none") and isinstance(v, (int, float))}
    if samples:
        rows = sorted(got["samples"][name], key=lambda s: s["doc_id"])
        out["logprobs"] = [[r[0] for r in s["filtered_resps"]] for s in rows]
        acc = [s["acc"] for s in rows]
        n, mean = len(acc), sum(acc) / len(acc)
        out["acc_stderr"] = (sum((x - mean) ** 2 for x in acc) / (n - 1) / n) ** 0.5
    return out


def main():
    from lm_eval.models.huggingface import HFLM
    for name, rows in (("choices", choices()), ("texts", texts()), ("answers", answers())):
        (HERE / f"{name}.jsonl").write_text("".join(json.dumps(r, ensure_ascii=False) + "\n" for r in rows))
    golden = {}

    def model(**more):
        return HFLM(pretrained=str(MODEL), dtype="float32", device="cpu", batch_size=1, **more)

    lm = model(add_bos_token=True)  # a prompt begins as the model's own files say; of a text the harness adds it
    golden["choices"] = measure(lm, task(
        "choices", HERE / "choices.jsonl", output_type="multiple_choice", doc_to_text="{{prompt}}",
        doc_to_choice="{{choices | map('trim') | list}}", doc_to_target="answer",
        metric_list=[{"metric": m, "aggregation": "mean", "higher_is_better": True} for m in ("acc", "acc_norm")]), True)
    golden["answers"] = measure(lm, task(
        "answers", HERE / "answers.jsonl", output_type="generate_until", doc_to_text="{{prompt}}",
        doc_to_target="{{completion}}",
        generation_kwargs={"until": ["<|end|>"], "do_sample": False, "max_gen_toks": 64},
        metric_list=[{"metric": "exact_match", "aggregation": "mean", "higher_is_better": True}]))
    for window in WINDOWS:
        golden[f"texts_{window}"] = measure(model(max_length=window), task(
            "texts", HERE / "texts.jsonl", output_type="loglikelihood_rolling", doc_to_text="",
            doc_to_target="{{text}}",
            metric_list=[{"metric": m} for m in ("word_perplexity", "byte_perplexity", "bits_per_byte")]))
    (HERE / "golden.json").write_text(json.dumps(golden, indent=1) + "\n")
    print(json.dumps({k: {m: v for m, v in g.items() if m != "logprobs"} for k, g in golden.items()}, indent=1))


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as cache:
        os.environ["HF_HOME"] = cache
        main()
