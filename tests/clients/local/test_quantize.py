#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tandem quantize and tandem export as people type them: what they write runs, what they say is
there, and faults are one line that leaves nothing behind. Catches: a directory that is there in
part behind a full disk; a result that is written over; a report whose numbers are none; a fault
without a name; a GGUF file that answers otherwise than what it was made of."""
import json
import os
import pathlib
import re
import resource
import signal
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "lib"))
from serving import Cases, make_model, said, scratch  # noqa: E402

TANDEM = os.environ.get("TANDEM_BIN", "build/tandem")
MODELS, GGUF = pathlib.Path("tests/golden/models"), pathlib.Path("tests/golden/gguf")
REAL = pathlib.Path(os.environ.get("TANDEM_TEST_DATA", "../shared/data")) / "models/stories260K"
STORY = "Once upon a time there was a little girl named Lily. She loved to play in the park. " * 60
cases = Cases()


def run(*words, **kw):
    return subprocess.run([TANDEM, *map(str, words)], stdin=subprocess.DEVNULL, capture_output=True,
                          text=True, check=False, **kw)


def expect(name, ok, p):
    cases.check(name, ok, said(p))


def refused(name, words, *args, **kw):
    p = run(*args, **kw)
    lines = [x for x in p.stderr.splitlines() if x]
    expect(name, p.returncode != 0 and len(lines) == 1 and re.search(words, lines[0]), p)


def number(p, name):
    found = re.search(name + r"\s+([0-9.]+)", p.stdout)
    return float(found[1]) if found else float("nan")


def ids(path):
    return run("run", path, "--ids", "9,33,7", "-n", 20, "--ignore-eos").stdout


def without_texts(tmp):
    """A model without a tokenizer is rounded to the nearest, and not compared."""
    p = run("quantize", GGUF / "coded", tmp / "four", "--no-report")
    expect("quantize", p.returncode == 0 and "largest errors of weights" in p.stdout, p)
    config = json.loads((tmp / "four/config.json").read_text())["quantization_config"]
    expect("its config", config["config_groups"]["group_0"]["weights"]["num_bits"] == 4 and
           config["ignore"] == ["lm_head"], p)
    p = run("run", tmp / "four", "--ids", "9,33,7", "-n", 4, "--profile")
    expect("it runs in four bits", p.returncode == 0 and "linear_int4" in p.stderr, p)
    refused("a result that is there", "four: is there already", "quantize", GGUF / "coded",
            tmp / "four")
    refused("twice", "quantised already", "quantize", tmp / "four", tmp / "x", "--no-report")
    p = run("quantize", "examples/tiny/model", tmp / "bytes", "--to", "fp8")
    expect("fp8", p.returncode == 0 and 0 < number(p, "KL a token") < 0.05 and
           number(p, "same choice") > 80, p)
    p = run("run", tmp / "bytes", "-p", "hello", "-n", 4, "--profile")
    expect("it runs in fp8", p.returncode == 0 and "linear_fp8" in p.stderr, p)
    refused("an unknown target", r"int4.*int8.*fp8", "quantize", GGUF / "coded", tmp / "x", "--to", "int3")
    refused("no tokenizer", "no tokenizer", "quantize", GGUF / "coded", tmp / "x")
    refused("an encoder", "an encoder", "quantize", MODELS / "bert_cls", tmp / "x", "--no-report")
    refused("experts in one tensor", "experts that share a tensor", "quantize", MODELS / "gpt_oss", tmp / "x",
            "--no-report")
    with scratch() as aside:
        refused("no such text", "nowhere", "quantize", make_model(aside / "m"), tmp / "x", "--group", "32",
                "--calibrate", tmp / "nowhere.txt")
    cases.check("nothing is left", sorted(x.name for x in tmp.iterdir()) == ["bytes", "four"], str(tmp))


def small_files():
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20000, 20000))


def full_disk(tmp):
    refused("quantize on a full disk", "model.safetensors", "quantize", GGUF / "coded", tmp / "full",
            "--no-report", preexec_fn=small_files)
    refused("export on a full disk", "full.gguf", "export", GGUF / "coded", tmp / "full.gguf",
            preexec_fn=small_files)
    cases.check("a full disk has nothing of it", not list(tmp.glob("full*")), str(list(tmp.iterdir())))


def exports(tmp):
    p = run("export", tmp / "four", tmp / "four.gguf")
    expect("export of codes", p.returncode == 0 and ids(tmp / "four.gguf") == ids(tmp / "four"), p)
    refused("an export that is there", "is there already", "export", tmp / "four", tmp / "four.gguf")
    refused("a family that GGUF has none of here", "family gpt2 .*llama", "export", MODELS / "gpt2",
            tmp / "x.gguf")
    p = run("export", MODELS / "llama_tied", tmp / "tied.gguf")
    words = ["-p", "The cat sat", "-n", 12]
    same = [run("run", x, *words).stdout for x in (MODELS / "llama_tied", tmp / "tied.gguf")]
    expect("export of text", p.returncode == 0 and same[0] and same[0] == same[1], p)
    p = run("export", MODELS / "packed_gptq_act", tmp / "order.gguf")
    expect("inputs in an order of their own go out as numbers", p.returncode == 0 and
           (tmp / "order.gguf").stat().st_size > 2 * 147456 * 4 and ids(tmp / "order.gguf"), p)
    plain = MODELS / "llama_plain"
    p = run("export", plain, tmp / "tuned.gguf", "--adapter", plain / "lora", "--type", "bf16")
    expect("export with an adapter", p.returncode == 0 and ids(tmp / "tuned.gguf") and
           ids(tmp / "tuned.gguf") != ids(plain), p)


def calibrated(tmp):
    if not REAL.exists():
        print(f"{REAL} is not there: no real model is quantised")
        return
    text, rows = tmp / "story.txt", tmp / "rows.jsonl"
    text.write_text(STORY)
    rows.write_text("".join(json.dumps({"prompt": "Once upon", "completion": f" a time {i} cats sat."})
                            + "\n" for i in range(12)))
    for name, file in (("text", text), ("rows", rows)):
        p = run("quantize", REAL, tmp / name, "--calibrate", file, "--length", 64)
        expect(f"calibrated by {name}", p.returncode == 0 and "errors of outputs" in p.stdout and
               0 < number(p, "KL a token") < 1 and number(p, "perplexity") > 1 and
               "stay as they are" in p.stdout, p)
    p = run("quantize", REAL, tmp / "eight", "--to", "int8")
    expect("eight bits", 0 < number(p, "KL a token") < 0.02, p)


def main():
    with tempfile.TemporaryDirectory() as folder:
        plain, real = (pathlib.Path(folder) / x for x in ("plain", "real"))
        plain.mkdir()
        real.mkdir()
        without_texts(plain)
        full_disk(plain)
        exports(plain)
        calibrated(real)
    return cases.end()


sys.exit(main())
