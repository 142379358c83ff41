#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What PyTorch and transformers make of a shape, to stand beside bench.py's figures of the same run;
a line of JSON each, as soon as it is known.

    beside_torch.py about | limits | model --hidden N ... [--full]

Random weights made on the device, bf16. Decoding: a static cache where transformers has one, greedy,
steps timed behind a warm-up. Training: LoRA of rank 16 on every product, or all parameters, with AdamW;
no checkpoints, unless memory is short without. Needs PyTorch; transformers for `model`."""
import argparse
import json
import math
import sys
import time


def say(**what):
    print(json.dumps(what), flush=True)


def parse():
    p = argparse.ArgumentParser()
    p.add_argument("what", choices=["about", "limits", "model"])
    for name in ("vocab", "hidden", "ff", "layers", "heads", "kv-heads", "tied", "prompt", "new-tokens",
                 "rows", "length"):
        p.add_argument(f"--{name}", type=int, default=0)
    p.add_argument("--streams", default="1")
    p.add_argument("--full", action="store_true")
    return p.parse_args()


def pick(torch):
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


class Clock:
    """Seconds of a call, the median of some, with the device waited for."""

    def __init__(self, torch, device):
        self.sync = torch.cuda.synchronize if device.type == "cuda" else lambda: None

    def seconds(self, fn, rounds=3, warm=1):
        took = []
        for i in range(warm + rounds):
            self.sync()
            began = time.perf_counter()
            fn()
            self.sync()
            if i >= warm:
                took.append(time.perf_counter() - began)
        return sorted(took)[len(took) // 2]


def about():
    found = {}
    try:
        import torch
        found = {"torch": torch.__version__, "device": str(pick(torch))}
        import transformers
        found["transformers"] = transformers.__version__
    except ImportError as fault:
        found["why"] = str(fault)
    say(**found)


def limits():
    import torch
    device = pick(torch)
    clock, n = Clock(torch, device), 8192 if device.type == "cuda" else 256
    a = torch.randn(n, n, device=device, dtype=torch.bfloat16)
    b = torch.randn(n, n, device=device, dtype=torch.bfloat16)
    x = torch.empty(n * n * 8, device=device, dtype=torch.bfloat16)
    y = torch.empty_like(x)
    product, copy = clock.seconds(lambda: a @ b, 10), clock.seconds(lambda: y.copy_(x), 10)
    bytes_moved = 2 * x.numel() * x.element_size()
    say(product_tflop_s=2 * n ** 3 / product / 1e12, copy_gb_s=bytes_moved / copy / 1e9,
        read_gb_s=bytes_moved / copy / 1e9)


def build(torch, a, device):
    import transformers
    config = transformers.LlamaConfig(
        vocab_size=a.vocab, hidden_size=a.hidden, intermediate_size=a.ff, num_hidden_layers=a.layers,
        num_attention_heads=a.heads, num_key_value_heads=a.kv_heads, max_position_embeddings=8192,
        tie_word_embeddings=bool(a.tied),
        attn_implementation="sdpa" if device.type == "cuda" else "eager")
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.bfloat16)
    try:
        if hasattr(torch, "set_default_device"):
            torch.set_default_device(device)
        model = transformers.LlamaForCausalLM(config)
    finally:
        torch.set_default_dtype(before)
        if hasattr(torch, "set_default_device"):
            torch.set_default_device("cpu")
    return model.to(device)


def prompt(torch, a, model, device, clock):
    ids = torch.randint(0, a.vocab, (1, a.prompt), device=device)
    with torch.no_grad():
        took = clock.seconds(lambda: model(ids, use_cache=True))
    say(prompt=a.prompt / took)


def decode(torch, a, model, device, clock, streams):
    """Tokens a second of all streams, behind 64 tokens of each."""
    ids = torch.randint(0, a.vocab, (streams, min(64, a.prompt)), device=device)

    def steps():
        with torch.no_grad():
            out = model(ids, use_cache=True)
            clock.sync()
            began = time.perf_counter()
            past, token = out.past_key_values, out.logits[:, -1:].argmax(-1)
            for _ in range(a.new_tokens):
                out = model(token, past_key_values=past, use_cache=True)
                past, token = out.past_key_values, out.logits[:, -1:].argmax(-1)
            clock.sync()
            return time.perf_counter() - began

    took = sorted(steps() for _ in range(3))[1]
    say(**{f"decode {streams}": streams * a.new_tokens / took})


def generate(torch, a, model, device):
    """The same of one stream by transformers' fastest own way: a static cache, compiled."""
    ids = torch.randint(0, a.vocab, (1, min(64, a.prompt)), device=device)
    words = {"max_new_tokens": a.new_tokens, "min_new_tokens": a.new_tokens, "do_sample": False,
             "cache_implementation": "static", "pad_token_id": 0}
    for _ in range(2):  # compiles
        model.generate(ids, attention_mask=torch.ones_like(ids), **words)
    began = time.perf_counter()
    model.generate(ids, attention_mask=torch.ones_like(ids), **words)
    say(**{"generate 1, static cache": a.new_tokens / (time.perf_counter() - began)})


def add_lora(torch, model, device, rank=16):
    """On every product of the blocks; the base is frozen."""
    for p in model.parameters():
        p.requires_grad_(False)

    class Adapted(torch.nn.Module):
        def __init__(self, base):
            super().__init__()
            self.base = base
            n_in, n_out = base.in_features, base.out_features
            self.down = torch.nn.Parameter(torch.randn(rank, n_in, device=device) / math.sqrt(n_in))
            self.up = torch.nn.Parameter(torch.zeros(n_out, rank, device=device))

        def forward(self, x):
            linear = torch.nn.functional.linear
            return self.base(x) + linear(linear(x, self.down.to(x.dtype)), self.up.to(x.dtype))

    for module in list(model.model.layers.modules()):
        for name, child in list(module.named_children()):
            if isinstance(child, torch.nn.Linear):
                setattr(module, name, Adapted(child))


def train(torch, a, model, device, clock, name):
    params = [p for p in model.parameters() if p.requires_grad]
    fused = {"fused": True} if device.type == "cuda" else {}
    optimizer = torch.optim.AdamW(params, lr=1e-5, **fused)
    ids = torch.randint(0, a.vocab, (a.rows, a.length), device=device)

    def step():
        model(input_ids=ids, labels=ids).loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    model.train()
    took = clock.seconds(step)
    say(**{name: a.rows * a.length / took, f"{name} step s": took})


def attempt(torch, what, fn, *args):
    """One that fails is told, and takes no other along."""
    try:
        fn(*args)
    except Exception as fault:  # pylint: disable=broad-except
        say(**{what: f"failed: {type(fault).__name__}: {str(fault)[:200]}"})
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


def measure(a):
    import torch
    device = pick(torch)
    clock = Clock(torch, device)
    model = build(torch, a, device).eval()
    for streams in map(int, a.streams.split(",")):
        attempt(torch, f"decode {streams}", decode, torch, a, model, device, clock, streams)
    attempt(torch, "prompt", prompt, torch, a, model, device, clock)
    if a.full:
        attempt(torch, "full training", train, torch, a, model, device, clock, "full training")
    add_lora(torch, model, device)
    attempt(torch, "LoRA", train, torch, a, model, device, clock, "LoRA")
    if device.type == "cuda":
        attempt(torch, "generate", generate, torch, a, model.eval(), device)


if __name__ == "__main__":
    args = parse()
    if args.what == "model":
        measure(args)
    else:
        {"about": about, "limits": limits}[args.what]()
    sys.exit(0)
