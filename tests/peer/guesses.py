#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""llama.cpp with guesses from the prompt, to stand beside `tandem bench drafts --case copy`.

    tests/peer/guesses.py FILE.gguf [--prompt 32] [--new-tokens 128] [--edits 0.1] [--rounds 5] [--threads N]

One stream decodes a given text whose prompt holds it but for some edits. Its guesses are those of
llama-cpp-python's LlamaPromptLookupDecoding (pairs of tokens, 10 ahead); they are computed in one
batch with the token before them and taken as far as they are the text's, as a greedy model that
says this text would have it. With guesses and without, in turn: medians of tokens a second.

Needs llama-cpp-python, built on the machine (CMAKE_ARGS=-DGGML_NATIVE=ON), and numpy.
"""
import argparse
import os
import random
import statistics
import time

import llama_cpp as lib
import numpy as np
from llama_cpp.llama_speculative import LlamaPromptLookupDecoding


def parse():
    p = argparse.ArgumentParser(description="llama.cpp with guesses from the prompt")
    p.add_argument("file")
    p.add_argument("--prompt", type=int, default=32)
    p.add_argument("--new-tokens", type=int, default=128)
    p.add_argument("--edits", type=float, default=0.1, help="part of the text's tokens that are others than the prompt's")
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--threads", type=int, default=os.cpu_count())
    return p.parse_args()


class Stream:
    def __init__(self, path, threads):
        lib.llama_backend_init()
        self.model = lib.llama_model_load_from_file(path.encode(), lib.llama_model_default_params())
        o = lib.llama_context_default_params()
        o.n_ctx, o.n_batch, o.n_ubatch = 1024, 512, 512
        o.n_threads = o.n_threads_batch = threads
        self.ctx = lib.llama_init_from_model(self.model, o)
        self.memory = lib.llama_get_memory(self.ctx)
        self.batch = lib.llama_batch_init(512, 0, 1)

    def feed(self, tokens, at):
        b = self.batch
        b.n_tokens = len(tokens)
        for i, token in enumerate(tokens):
            b.token[i], b.pos[i], b.n_seq_id[i], b.seq_id[i][0], b.logits[i] = int(token), at + i, 1, 0, True
        if lib.llama_decode(self.ctx, b):
            raise SystemExit("llama_decode failed")
        lib.llama_get_logits(self.ctx)

    def say(self, prompt, text, draft):
        """Tokens a second behind the prompt, and how many of the text were guessed."""
        lib.llama_memory_clear(self.memory, True)
        self.feed(prompt, 0)
        known, at, n_right = np.array([*prompt, text[0]], dtype=np.intc), len(prompt), 0
        all_ids = np.array([*prompt, *text], dtype=np.intc)
        began = time.monotonic()
        while len(known) < len(all_ids):
            guess = draft(known) if draft else np.array([], dtype=np.intc)
            guess = guess[:len(all_ids) - len(known) - 1]
            self.feed([known[-1], *guess], at)
            want = all_ids[len(known):len(known) + len(guess)]
            right = int((np.cumprod(want == guess)).sum())
            n_right += right
            known = all_ids[:len(known) + right + 1]
            at = len(known) - 1
            lib.llama_memory_seq_rm(self.memory, 0, at, -1)
        return (len(text) - 1) / (time.monotonic() - began), n_right


def main():
    a = parse()
    s = Stream(a.file, a.threads)
    n = lib.llama_vocab_n_tokens(lib.llama_model_get_vocab(s.model))
    draw = random.Random(7)
    choice = [i * (n // 16) for i in range(16)]
    off, on, ratio, part = [], [], [], 0
    for i in range(-1, a.rounds):
        text = [draw.choice(choice) for _ in range(a.new_tokens)]
        held = [draw.choice(choice) if draw.random() < a.edits else t for t in text]
        prompt = [draw.randrange(n) for _ in range(a.prompt)] + held
        draft = LlamaPromptLookupDecoding(num_pred_tokens=10)
        sides = [(off, None), (on, draft)]
        for rates, guess in sides if i % 2 else sides[::-1]:
            rate, right = s.say(prompt, text, guess)
            if i >= 0:
                rates.append(rate)
                part += right / a.new_tokens
        if i >= 0:
            ratio.append(on[-1] / off[-1])
    print(f"{statistics.median(off):.1f} tokens/s, with guesses {statistics.median(on):.1f}, "
          f"x {statistics.median(ratio):.2f} ({min(ratio):.2f} to {max(ratio):.2f}), "
          f"{100 * part / a.rounds:.0f}% of the text guessed")


main()
