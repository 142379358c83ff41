#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Training a Llama shape with PyTorch on the CPU, to stand beside `tandem bench train`.

    tests/peer/train_torch.py MODEL [--rank 16] [--rows 1] [--length 512] [--dtype autocast]
                              [--checkpoint] [--steps 3] [--tandem build/tandem] [--rounds 2]

MODEL is a directory with a config.json; weights are random. With --tandem both programs train the
same shape, in turn, each alone and in a process of its own, so that the machine's state is the same
for both: per round a line each of tokens a second and the peak of the process's memory.

--dtype f32: all in f32. autocast: f32 parameters and moments, products in bf16; of PyTorch's ways to
train in bf16 on a CPU it is the fast one. Beside it Tandem has bf16 weights and, where they are
trained, their f32 originals.

Needs torch (1.13 is what Debian 12 has) and nothing else.
"""
import argparse
import json
import os
import resource
import subprocess
import sys
import time


def parse():
    p = argparse.ArgumentParser(description="Train a Llama shape with PyTorch on the CPU")
    p.add_argument("model")
    p.add_argument("--rank", type=int, default=16)
    p.add_argument("--rows", type=int, default=1)
    p.add_argument("--length", type=int, default=512)
    p.add_argument("--dtype", choices=["f32", "autocast"], default="autocast")
    p.add_argument("--checkpoint", action="store_true")
    p.add_argument("--steps", type=int, default=3)
    p.add_argument("--threads", type=int, default=os.cpu_count())
    p.add_argument("--tandem")
    p.add_argument("--rounds", type=int, default=2)
    return p.parse_args()


def build(cfg, a):
    import torch
    from torch import nn
    from torch.utils.checkpoint import checkpoint

    hidden, inner = cfg["hidden_size"], cfg["intermediate_size"]
    n_head, n_kv = cfg["num_attention_heads"], cfg["num_key_value_heads"]
    d_head = cfg.get("head_dim") or hidden // n_head

    class Linear(nn.Module):
        def __init__(self, n_in, n_out):
            super().__init__()
            self.base = nn.Linear(n_in, n_out, bias=False)
            self.base.weight.data.normal_(0, 0.02)
            self.down = self.up = None
            if a.rank:
                self.base.weight.requires_grad_(False)
                self.down = nn.Linear(n_in, a.rank, bias=False)
                self.up = nn.Linear(a.rank, n_out, bias=False)
                self.up.weight.data.zero_()

        def forward(self, x):
            y = self.base(x)
            return y if self.down is None else y + 2.0 * self.up(self.down(x))

    class Norm(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.ones(hidden), requires_grad=a.rank == 0)

        def forward(self, x):
            f = x.float()
            return f * torch.rsqrt(f.pow(2).mean(-1, keepdim=True) + 1e-5) * self.weight

    def turn(x, cos, sin):
        lo, hi = x.chunk(2, -1)
        return x * cos + torch.cat((-hi, lo), -1) * sin

    class Layer(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm1, self.norm2 = Norm(), Norm()
            self.q, self.o = Linear(hidden, n_head * d_head), Linear(n_head * d_head, hidden)
            self.k, self.v = Linear(hidden, n_kv * d_head), Linear(hidden, n_kv * d_head)
            self.gate, self.up = Linear(hidden, inner), Linear(hidden, inner)
            self.down = Linear(inner, hidden)

        def attend(self, h, cos, sin, mask):
            b, t, _ = h.shape
            q = turn(self.q(h).view(b, t, n_head, d_head).transpose(1, 2), cos, sin)
            k = turn(self.k(h).view(b, t, n_kv, d_head).transpose(1, 2), cos, sin)
            v = self.v(h).view(b, t, n_kv, d_head).transpose(1, 2)
            k = k.repeat_interleave(n_head // n_kv, 1)
            v = v.repeat_interleave(n_head // n_kv, 1)
            s = (q @ k.transpose(2, 3)) * d_head**-0.5 + mask
            p = torch.softmax(s.float(), -1).to(v.dtype)
            return self.o((p @ v).transpose(1, 2).reshape(b, t, -1))

        def forward(self, x, cos, sin, mask):
            x = x + self.attend(self.norm1(x), cos, sin, mask)
            h = self.norm2(x)
            return x + self.down(nn.functional.silu(self.gate(h)) * self.up(h))

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = nn.Embedding(cfg["vocab_size"], hidden)
            self.embed.weight.data.normal_(0, 0.02)
            self.embed.weight.requires_grad_(a.rank == 0)
            self.layers = nn.ModuleList(Layer() for _ in range(cfg["num_hidden_layers"]))
            self.norm = Norm()
            angle = torch.arange(a.length)[:, None] * cfg.get("rope_theta", 1e4) ** (
                -torch.arange(0, d_head, 2) / d_head
            )
            self.cos, self.sin = (torch.cat((f, f), -1) for f in (angle.cos(), angle.sin()))
            self.mask = torch.full((a.length, a.length), float("-inf")).triu(1)

        def forward(self, ids):
            x = self.embed(ids)
            if a.checkpoint and not x.requires_grad:
                x.requires_grad_()
            for layer in self.layers:
                args = (x, self.cos, self.sin, self.mask)
                x = checkpoint(layer, *args) if a.checkpoint else layer(*args)
            return nn.functional.linear(self.norm(x), self.embed.weight)

    torch.manual_seed(1)
    return Model()


def train(a):
    import torch

    torch.set_num_threads(a.threads)
    with open(os.path.join(a.model, "config.json")) as f:
        cfg = json.load(f)
    model = build(cfg, a)
    trained = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=1e-4)
    ids = torch.randint(0, cfg["vocab_size"], (a.rows, a.length + 1))
    times = []
    for _ in range(a.steps + 1):
        begin = time.monotonic()
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=a.dtype != "f32"):
            logits = model(ids[:, :-1])
            loss = torch.nn.functional.cross_entropy(
                logits.float().view(-1, cfg["vocab_size"]), ids[:, 1:].reshape(-1)
            )
        loss.backward()
        torch.nn.utils.clip_grad_norm_(trained, 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        times.append(time.monotonic() - begin)
    times = sorted(times[1:])
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    n = a.rows * a.length
    print(
        f"torch {torch.__version__} {a.dtype}: {n / times[len(times) // 2]:.1f} tokens/s"
        f" (best step {n / times[0]:.1f})  {peak} MiB at most",
        flush=True,
    )


def beside(a):
    mine = [a.tandem, "bench", "train", a.model, "--rank", str(a.rank), "--rows", str(a.rows)]
    mine += ["--length", str(a.length), "--steps", str(a.steps), "--threads", str(a.threads)]
    mine += ["--quantize", "f32" if a.dtype == "f32" else "bf16"]
    mine += ["--checkpoint"] if a.checkpoint else []
    cut = sys.argv.index("--tandem")
    theirs = [sys.executable] + sys.argv[:cut] + sys.argv[cut + 2 :]
    for _ in range(a.rounds):
        for command in (mine, theirs):
            subprocess.run(command, check=True)


if __name__ == "__main__":
    options = parse()
    beside(options) if options.tandem else train(options)
