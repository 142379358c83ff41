#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""OpenVINO GenAI on a GGUF file, to stand beside `tandem bench engine` of the same file.

    tests/peer/genai.py FILE.gguf... [--tandem build/tandem] [--with "--compute int8"]...
                        [--rounds 3] [--threads N] [--case prompt,one]

The cases and lines of tests/peer/llama.py, whose options these are; the ratio is to OpenVINO's median.
It reads files of Llama, Qwen2 and Qwen3 in F16, Q8_0, Q4_0, Q4_K_M and Q6_K that have merges of byte
pairs, and rounds rows to codes of eight bits where weights are codes, as `--compute int8` does.

Needs openvino-genai and numpy.
"""
import json

import llama

N_PROMPT, N_BEFORE, N_NEW = 512, 64, 32


def measure(path, case, threads):
    """Tokens a second of OpenVINO; the best of three, as a bench tells its best."""
    import numpy as np
    import openvino
    import openvino_genai

    pipe = openvino_genai.LLMPipeline(path, "CPU", INFERENCE_NUM_THREADS=threads)
    n = N_PROMPT if case == "prompt" else N_BEFORE

    def once(turn):
        """Each turn's prompt begins otherwise: what it has of one already is not computed again."""
        n_new = 1 if case == "prompt" else 1 + N_NEW
        ids = np.array([[100 + (turn + i * 37) % 1000 for i in range(n)]], dtype=np.int64)
        rows = openvino_genai.TokenizedInputs(openvino.Tensor(ids), openvino.Tensor(np.ones_like(ids)))
        took = pipe.generate(rows, max_new_tokens=n_new, ignore_eos=True).perf_metrics
        return 1000 * (n / took.get_ttft().mean if case == "prompt" else 1 / took.get_tpot().mean)

    once(0)
    return max(once(turn) for turn in range(1, 4))


def main():
    a = llama.parse("OpenVINO GenAI", ("prompt", "one"))
    if a.alone:
        print(json.dumps(measure(a.files[0], a.case, a.threads)))
        return
    llama.compare(a, "OpenVINO GenAI", __file__)


if __name__ == "__main__":
    main()
