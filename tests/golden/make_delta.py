#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The gated delta rule of transformers, row by row, with PyTorch's gradients.

Into tests/golden/delta/delta.safetensors go two sequences of LEN rows, one behind the other: x (q, k,
v, a and b of a row side by side), a_log and dt_bias, the result y, a gradient dy of it, and dx, da_log
and ddt_bias.

    python3 tests/golden/make_delta.py        (torch 2.15.0, transformers 5.23.0, on a CPU)
"""
import pathlib

import torch
from safetensors.torch import save_file
from transformers.models.qwen3_next import modeling_qwen3_next as reference

OUT = pathlib.Path(__file__).resolve().parent / "delta"
LEN, N_K, N_V, D_K, D_V, SEED = (67, 3), 2, 4, 16, 20, 5


def rule(x, a_log, dt_bias):
    """Of one sequence, as the model's layer calls it."""
    q, k, v, a, b = x.split([N_K * D_K, N_K * D_K, N_V * D_V, N_V, N_V], dim=-1)
    g = -a_log.exp() * torch.nn.functional.softplus(a + dt_bias)
    y, _ = reference.torch_recurrent_gated_delta_rule(
        q.view(1, -1, N_K, D_K), k.view(1, -1, N_K, D_K), v.view(1, -1, N_V, D_V), g=g[None],
        beta=b.sigmoid()[None], initial_state=None, output_final_state=False,
        use_qk_l2norm_in_kernel=True)
    return y.reshape(-1, N_V * D_V)


def main():
    draw = torch.Generator().manual_seed(SEED)
    normal = lambda *shape: torch.randn(*shape, generator=draw)
    n = sum(LEN)
    x = normal(n, 2 * N_K * D_K + N_V * D_V + 2 * N_V).requires_grad_()
    a_log, dt_bias = normal(N_V).requires_grad_(), normal(N_V).requires_grad_()
    dy = normal(n, N_V * D_V)
    y = torch.cat([rule(part, a_log, dt_bias) for part in x.split(LEN)])
    (y * dy).sum().backward()
    OUT.mkdir(exist_ok=True)
    save_file({"x": x.detach(), "a_log": a_log.detach(), "dt_bias": dt_bias.detach(),
               "y": y.detach(), "dy": dy, "dx": x.grad, "da_log": a_log.grad,
               "ddt_bias": dt_bias.grad}, OUT / "delta.safetensors")


if __name__ == "__main__":
    main()
