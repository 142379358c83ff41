#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Files that are written here, read by llama.cpp: the greedy text is ours.

    tests/peer/exported.py MODEL [--to int4,int8] [--prompt TEXT] [--new-tokens 48]

MODEL is quantised to each kind (`tandem quantize`), and that is exported (`tandem export`). Ours is computed
in f32 from the directory, llama.cpp's from the GGUF file. A line for each kind; another text is a failure.

Needs llama-cpp-python, and a built program.
"""
import argparse
import pathlib
import subprocess
import sys
import tempfile

import llama_cpp

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
import serving  # noqa: E402


def parse():
    p = argparse.ArgumentParser(description="files of ours, read by llama.cpp")
    p.add_argument("model")
    p.add_argument("--to", default="int4,int8")
    p.add_argument("--prompt", default="Once upon a time, there was a little girl named Lily.")
    p.add_argument("--new-tokens", type=int, default=48)
    return p.parse_args()


def tandem(*words):
    p = subprocess.run([str(w) for w in (serving.BIN, *words)], capture_output=True, text=True)
    if p.returncode:
        sys.exit(f"{words[0]}: {p.stderr or p.stdout}")


def ours(model, a):
    with serving.Tandem(model, "--quantize", "f32", "--kv-type", "f32") as s:
        r = s.post("/v1/completions", {"prompt": a.prompt, "max_tokens": a.new_tokens, "temperature": 0})
        assert r.status == 200, r
        return r.json["choices"][0]["text"]


def theirs(path, a):
    m = llama_cpp.Llama(str(path), n_ctx=512, verbose=False)
    return m.create_completion(a.prompt, max_tokens=a.new_tokens, temperature=0, top_k=1)["choices"][0]["text"]


def is_same(kind, a, tmp):
    packed, file = tmp / kind, tmp / f"{kind}.gguf"
    tandem("quantize", a.model, packed, "--to", kind, "--no-report")
    tandem("export", packed, file)
    texts = ours(packed, a), theirs(file, a)
    same = texts[0] == texts[1]
    print(f"{kind}: the same {a.new_tokens} tokens" if same else f"{kind}: {texts[0]!r}, llama.cpp {texts[1]!r}",
          flush=True)
    return same


def main():
    a = parse()
    with tempfile.TemporaryDirectory() as tmp:
        same = [is_same(kind, a, pathlib.Path(tmp)) for kind in a.to.split(",")]
    sys.exit(not all(same))


if __name__ == "__main__":
    main()
