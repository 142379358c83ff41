#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes model.safetensors beside this file, with the package compressed-tensors: matrices of a few
layouts as it packs them, and NAME.want, what it makes of them again in f32.

    python3 tests/golden/compressed/make.py      (requirements.txt beside this file)
"""
import pathlib

import torch
from compressed_tensors.compressors.pack_quantized import pack_to_int32
from compressed_tensors.quantization import QuantizationArgs
from compressed_tensors.quantization.lifecycle.forward import dequantize
from safetensors.torch import save_file

HERE = pathlib.Path(__file__).resolve().parent
# name: bits, inputs of a group (0: a row), zero points, type of scales
LAYOUT = {"w4_32": (4, 32, False, torch.float16), "w4_128": (4, 128, False, torch.bfloat16),
          "w4_row": (4, 0, False, torch.bfloat16), "w4_zero": (4, 128, True, torch.float16),
          "w4_zero_32": (4, 32, True, torch.float16), "w8_32": (8, 32, False, torch.bfloat16),
          "w8_row": (8, 0, False, torch.float32), "w4_order": (4, 64, False, torch.bfloat16),
          "w4_order_zero": (4, 128, True, torch.float16)}
N, K = 12, 256


def main():
    g, out = torch.Generator().manual_seed(5), {}
    for name, (bits, group, has_zero, dtype) in LAYOUT.items():
        half = 1 << (bits - 1)
        codes = torch.randint(-half + (bits == 8), half, (N, K), generator=g).to(torch.int8)
        groups = K // group if group else 1
        scale = (torch.rand((N, groups), generator=g) * 0.02 + 1e-4).to(dtype)
        zero = torch.randint(-half, half, (N, groups), generator=g).to(torch.int8)
        args = QuantizationArgs(num_bits=bits, type="int", symmetric=not has_zero,
                                strategy="group" if group else "channel", group_size=group or None)
        out[f"{name}.weight_packed"] = pack_to_int32(codes, bits)
        out[f"{name}.weight_scale"] = scale
        out[f"{name}.weight_shape"] = torch.tensor([N, K])
        if has_zero:
            out[f"{name}.weight_zero_point"] = pack_to_int32(zero, bits, packed_dim=0).contiguous()
        perm = torch.arange(K)  # inputs, those of a group side by side
        if "order" in name:  # as `actorder: group` left them, which the package had until 2026
            g_idx = (torch.randperm(K, generator=g) // group).to(torch.int32)
            out[f"{name}.weight_g_idx"] = g_idx
            perm = torch.argsort(g_idx, stable=True)
        sorted_want = dequantize(codes[:, perm], scale.float(), zero.float() if has_zero else None,
                                 args=args, dtype=torch.float32)
        out[f"{name}.want"] = sorted_want[:, torch.argsort(perm)].contiguous()
    save_file(out, HERE / "model.safetensors")


main()
