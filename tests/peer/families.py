#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Mixtures, recurrences and windows beside dense models of the same widths, and beside other programs.

    tests/peer/families.py DIR [--only experts,recurrent,torch,long,text] [--rounds 5] [--threads 2]
                           [--layers N] [--llama PYTHON]

DIR keeps the models of random_model.py, which are made where they are missing. Each part prints lines:

experts    the experts' products with 64 rows for each beside a dense product of 64 rows (`tandem-kernels bench`); one
           stream of a mixture beside a dense model as wide as what a token passes through; with --llama (a Python that has
           llama-cpp-python) beside llama.cpp, by llama.py
recurrent  a token at position 100 and at 30,000 where all layers are recurrent; prompts of recurrent layers beside those of
           layers with attention, in operations of the matrices
torch      a hybrid model beside transformers: a prompt of 512 tokens, and one stream
long       prompts of 32,768 tokens to a windowed and a hybrid model: what the plan says of memory, and the server's peak
text       what follows such prompts in tiny models, in f32, beside transformers' greedy text

Needs a built program, transformers and torch. Figures want a machine that does nothing else.
"""
import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "lib"))
import serving  # noqa: E402

BENCH = serving.BUILD / "tandem-kernels"
LONG, AFTER = 32768, 16
PARTS = ("experts", "recurrent", "torch", "long", "text")


def parse():
    p = argparse.ArgumentParser(description="families beside dense models and other programs")
    p.add_argument("dir", type=pathlib.Path)
    p.add_argument("--only", default=",".join(PARTS))
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--threads", type=int, default=2)
    p.add_argument("--layers", type=int, default=0, help="of the models of real widths but `windows`; 0: all")
    p.add_argument("--llama")
    p.add_argument("--alone", help="measure transformers once, in this process: prompt or one")
    return p.parse_args()


def model(a, shape, weights=True):
    layers = a.layers if shape != "windows" else 0
    path = a.dir / f"{shape}{layers or ''}"
    more = (["--layers", str(layers)] if layers else []) + ([] if weights else ["--no-weights"])
    if not (path / ("model.safetensors" if weights else "config.json")).exists():
        subprocess.run([sys.executable, HERE / "random_model.py", shape, path, *more], check=True, stdout=subprocess.DEVNULL)
    return path


def lines(*words):
    out = subprocess.run([str(w) for w in words], check=True, capture_output=True, text=True).stdout
    return [json.loads(line) for line in out.splitlines() if line.startswith("{")]


def engine(a, path, case, *more):
    words = ("bench", "engine", path, "--weights", "random", "--case", case, "--rounds", 3, "--threads", a.threads, "--streams", 1, "--json", *more)
    return lines(serving.BIN, *words)[-1]["tokens_per_s"]


def beside(a, title, kinds):
    """kinds: by name what measures it once. In turn; the medians, and each over the first, round by round."""
    got = {k: [] for k in kinds}
    for _ in range(a.rounds):
        for k, measure in kinds.items():
            got[k].append(measure())
    first = next(iter(got.values()))
    print(title)
    for k, x in got.items():
        ratio = statistics.median(y / f for y, f in zip(x, first))
        print(f"    {k:<40} {statistics.median(x):9.1f} ({min(x):.1f} to {max(x):.1f}), {ratio:.2f} times", flush=True)


# ---- mixtures ---------------------------------------------------------------------------------


def product(a, kernel, rows, shape):
    for x in lines(BENCH, "bench", kernel, "--rows", rows, "--threads", a.threads, "--json"):
        if x.get("kernel") == kernel and x["shape"].startswith(shape):
            return x["gflops"]
    raise KeyError(f"{kernel} {shape}")


def experts(a):
    beside(a, "products of 2048x2048, GFLOP/s", {
        "dense, 64 rows": lambda: product(a, "linear_bf16", 64, "2048x2048"),
        "16 experts, 256 rows to 4 of them": lambda: product(a, "experts", 256, "bf16 2048x2048")})
    mixture, dense = model(a, "experts", False), model(a, "dense", False)
    for case in ("one", "prompt"):
        beside(a, f"{case}, tokens/s", {"dense": lambda c=case: engine(a, dense, c, "--ctx", 1024),
                                        "4 of 16 experts": lambda c=case: engine(a, mixture, c, "--ctx", 1024)})
    if not a.llama:
        return
    mixture = model(a, "experts")
    file = a.dir / f"{mixture.name}.gguf"
    if not file.exists():
        subprocess.run([serving.BIN, "export", mixture, file], check=True)
    subprocess.run([a.llama, HERE / "llama.py", file, "--tandem", serving.BIN, "--rounds", str(a.rounds), "--threads",
                    str(a.threads), "--case", "prompt,one"], check=True)


# ---- recurrences ------------------------------------------------------------------------------


def operations(path):
    """Of a token in the layers' matrices."""
    c = json.loads((path / "config.json").read_text())
    d, head, both = c["hidden_size"], c["head_dim"], c["linear_key_head_dim"] * c["linear_num_key_heads"]
    values = c["linear_value_head_dim"] * c["linear_num_value_heads"]
    attention = 3 * c["num_attention_heads"] * head + 2 * c["num_key_value_heads"] * head  # queries with their gates, output
    mixer = {"full_attention": attention, "linear_attention": 2 * both + 3 * values + 2 * c["linear_num_value_heads"]}
    return 2 * sum(d * mixer[kind] + 3 * d * c["intermediate_size"] for kind in c["layer_types"])


def recurrent(a):
    states, attended = model(a, "recurrent", False), model(a, "attended", False)
    beside(a, "one stream of recurrent layers, tokens/s", {
        f"at position {at}": lambda at=at: engine(a, states, "one", "--ctx", 32768, "--depth", at) for at in (100, 30000)})
    beside(a, "a prompt of 512, GFLOP/s of the matrices", {
        name: lambda path=path: engine(a, path, "prompt", "--ctx", 1024) * operations(path) / 1e9
        for name, path in (("layers with attention", attended), ("recurrent layers", states))})


def torch_once(a, path):
    """Tokens a second of transformers in bf16, the best of three."""
    import torch
    import transformers

    torch.set_num_threads(a.threads)
    m = transformers.AutoModelForCausalLM.from_pretrained(path, dtype=torch.bfloat16).eval()
    ids = torch.arange(512 if a.alone == "prompt" else 64)[None] * 37 % 1000 + 100

    def once():
        begin = time.perf_counter()
        if a.alone == "prompt":
            m(ids, logits_to_keep=1)
            return 512 / (time.perf_counter() - begin)
        cache = m(ids, use_cache=True, logits_to_keep=1).past_key_values
        begin = time.perf_counter()
        for i in range(32):
            cache = m(torch.tensor([[100 + i]]), past_key_values=cache, use_cache=True).past_key_values
        return 32 / (time.perf_counter() - begin)

    with torch.no_grad():
        once()
        return max(once() for _ in range(3))


def torch_part(a):
    path = model(a, "hybrid")
    for case in ("prompt", "one"):
        words = [sys.executable, __file__, path, "--alone", case, "--threads", a.threads]
        beside(a, f"hybrid, {case}, tokens/s", {"transformers": lambda w=words: lines(*w)[-1]["tokens_per_s"],
                                                "tandem": lambda c=case: engine(a, path, c, "--ctx", 1024)})


# ---- long prompts -----------------------------------------------------------------------------


def prompt_of(n, vocab):
    return [3 + i * i * 7919 % (vocab - 3) for i in range(n)]


def peak_mb(pid):
    status = pathlib.Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    return int(status.split("VmHWM:")[1].split()[0]) * 1024 / 1e6


def memory_of(a, path):
    ctx = LONG + 32
    plan = lines(serving.BIN, "plan", path, "--ctx", ctx, "--json")[-1]
    with serving.Tandem(path, "--ctx", ctx, "--threads", a.threads) as s:
        idle, begin = peak_mb(s.pid), time.perf_counter()
        r = s.post("/v1/completions", {"prompt": prompt_of(LONG, 32000), "max_tokens": 2, "temperature": 0}, timeout=3000)
        assert r.status == 200, r
        took, peak = time.perf_counter() - begin, peak_mb(s.pid)
    planned = plan["process"] / 1e6
    grown = (plan["kv_per_token"] * ctx + plan["state_per_sequence"] + plan["snapshots"]) / 1e6
    print(f"{path.name}: planned {planned:.0f} MB, of these {grown:.0f} for the text and {plan['program'] / 1e6:.0f} for the program; "
          f"peak {peak:.0f} MB ({100 * peak / planned - 100:+.1f}%), before the prompt {idle:.0f}; {LONG / took:.0f} tokens/s", flush=True)


TINY = {"hidden_size": 64, "intermediate_size": 96, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16,
        "vocab_size": 320, "max_position_embeddings": 40960, "initializer_range": 0.2, "bos_token_id": 1, "eos_token_id": 2,
        "pad_token_id": 0}
KINDS = {
    "windows": ("Gemma3", "Gemma3TextConfig", {"num_hidden_layers": 6, "sliding_window": 512, "query_pre_attn_scalar": 16}),
    # its prompt goes through PyTorch at once, whose attention has room for that where no head is shared
    "hybrid": ("Qwen3_5", "Qwen3_5TextConfig", {
        "num_attention_heads": 2, "num_key_value_heads": 2, "num_hidden_layers": 4, "linear_num_key_heads": 2, "linear_num_value_heads": 4, "linear_key_head_dim": 16,
        "linear_value_head_dim": 16}),
}


def tiny(a, kind):
    import torch
    import transformers

    path, (_, name, keys) = a.dir / f"tiny_{kind}", KINDS[kind]
    serving.make_model(path, "--vocab", TINY["vocab_size"], "--no-weights")
    torch.manual_seed(7)
    config = getattr(transformers, name)(**{**TINY, **keys})
    m = transformers.AutoModelForCausalLM.from_config(config).float().eval()
    m.save_pretrained(path)
    return path, m


def greedy(m, ids, at_once):
    """transformers' text, the prompt in pieces of at_once; how far the next likeliest was behind at the closest."""
    import torch
    import transformers

    cache, said, gap = transformers.DynamicCache(config=m.config), [], float("inf")
    with torch.no_grad():
        for at in range(0, len(ids), at_once):
            out = m(torch.tensor([ids[at:at + at_once]]), past_key_values=cache, use_cache=True, logits_to_keep=1)
        for _ in range(AFTER):
            top = out.logits[0, -1].topk(2)
            gap = min(gap, (top.values[0] - top.values[1]).item())
            said.append(top.indices[0].item())
            out = m(torch.tensor([said[-1:]]), past_key_values=cache, use_cache=True)
    return said, gap


def text(a):
    for kind, at_once in (("windows", 1024), ("hybrid", LONG)):  # a state is not gone on with by several tokens there
        path, m = tiny(a, kind)
        ids = prompt_of(LONG, TINY["vocab_size"])
        want, gap = greedy(m, ids, at_once)
        with serving.Tandem(path, "--quantize", "f32", "--kv-type", "f32", "--ctx", LONG + 256) as s:
            r = s.post("/v1/completions", {"prompt": ids, "max_tokens": AFTER, "temperature": 0, "ignore_eos": True,
                                           "return_token_ids": True}, timeout=3000)
        got = r.json["choices"][0]["token_ids"]
        print(f"{kind}: {AFTER} tokens behind {LONG}, " + ("the same" if got == want else f"{got}, transformers {want}") +
              f"; the next likeliest {gap:.1e} behind", flush=True)


def main():
    a = parse()
    if a.alone:
        print(json.dumps({"tokens_per_s": torch_once(a, a.dir)}))
        return
    a.dir.mkdir(parents=True, exist_ok=True)
    run = {"experts": experts, "recurrent": recurrent, "torch": torch_part, "text": text,
           "long": lambda a: (memory_of(a, model(a, "windows")), memory_of(a, model(a, "hybrid")))}
    for part in a.only.split(","):
        run[part](a)


if __name__ == "__main__":
    main()
