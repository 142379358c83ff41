#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What codes of few bits cost: files beside the model that they were made of, all run by llama.cpp.

    tests/peer/quality.py WHOLE.gguf TEXT FILE.gguf... [--make Q4_0,Q4_K_M] [--length 256] [--tokens 4096]

WHOLE has the model's own numbers (`tandem export MODEL WHOLE.gguf --type f32`); the files are ours
(`tandem quantize MODEL OUT --calibrate ... && tandem export OUT FILE.gguf`) and, with --make, those
that llama.cpp makes of WHOLE. A line a file: its bytes, the Kullback-Leibler divergence to WHOLE a
token, perplexity, and how often both think the same token likeliest.

Needs llama-cpp-python and numpy.
"""
import argparse
import ctypes
import os
import pathlib
import sys
import tempfile

import llama_cpp as lib
import numpy as np

TYPES = {"Q4_0": 2, "Q8_0": 7, "Q4_K_S": 14, "Q4_K_M": 15, "Q5_K_M": 17, "Q6_K": 18}


def parse():
    p = argparse.ArgumentParser(description="KL of quantised files")
    p.add_argument("whole")
    p.add_argument("text")
    p.add_argument("files", nargs="*")
    p.add_argument("--make", default="")
    p.add_argument("--length", type=int, default=256)
    p.add_argument("--tokens", type=int, default=4096)
    return p.parse_args()


def make(whole, kind, to):
    o = lib.llama_model_quantize_default_params()
    o.ftype = TYPES[kind]
    if lib.llama_model_quantize(whole.encode(), str(to).encode(), ctypes.byref(o)):
        sys.exit(f"llama.cpp did not make {kind}")


def log_probs(path, rows):
    """Of each row of tokens [n, vocabulary]."""
    m = lib.Llama(path, n_ctx=max(map(len, rows)), n_batch=max(map(len, rows)), logits_all=True, verbose=False)
    for row in rows:
        m.reset()
        m.eval(row)
        x = np.array(m.scores[:len(row)], dtype=np.float64)
        x -= x.max(axis=1, keepdims=True)
        yield x - np.log(np.exp(x).sum(axis=1, keepdims=True))


def rows_of(path, text, length, most):
    m = lib.Llama(path, vocab_only=True, verbose=False)
    ids = m.tokenize(text.encode(), add_bos=False)[:most]
    bos = [m.token_bos()] if m.token_bos() >= 0 else []
    return [bos + ids[i:i + length - len(bos)] for i in range(0, len(ids) - length, length - len(bos))]


def compare(path, rows, whole):
    kl = nll = same = n = 0
    for row, a, b in zip(rows, whole, log_probs(path, rows)):
        kl += float((np.exp(a) * (a - b)).sum(axis=1)[:-1].sum())
        same += int((a.argmax(1) == b.argmax(1))[:-1].sum())
        nll -= float(b[np.arange(len(row) - 1), row[1:]].sum())
        n += len(row) - 1
    print(f"{os.path.getsize(path):>10,} bytes  KL {kl / n:.5f}  perplexity {np.exp(nll / n):.4f}  "
          f"same {100 * same / n:.2f}%  {pathlib.Path(path).name}", flush=True)


def main():
    a = parse()
    rows = rows_of(a.whole, pathlib.Path(a.text).read_text(), a.length, a.tokens)
    whole = list(log_probs(a.whole, rows))
    print(f"{len(rows)} rows of {a.length} tokens")
    with tempfile.TemporaryDirectory() as d:
        made = [(pathlib.Path(d) / f"llama.cpp {kind}.gguf", kind) for kind in a.make.split(",") if kind]
        for path, kind in made:
            make(a.whole, kind, path)
        for path in [a.whole, *a.files, *(str(p) for p, _ in made)]:
            compare(path, rows, whole)


main()
