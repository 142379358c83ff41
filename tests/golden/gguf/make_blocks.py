#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Random blocks of every quantised kind of GGUF, and what the package gguf makes of them in f32.

    python3 tests/golden/gguf/make_blocks.py      (requirements.txt beside this file)

Writes blocks.safetensors: NAME.blocks (bytes) and NAME.values (f32) for each kind. Scales are made
finite; the last block of a kind has the smallest scales there are.
"""
import json
import pathlib
import struct

import gguf
import numpy as np

OUT = pathlib.Path(__file__).resolve().parent / "blocks.safetensors"
N_BLOCK = 4
# where the f16 scales of a block stand
HALVES = dict(Q4_0=[0], Q4_1=[0, 2], Q5_0=[0], Q5_1=[0, 2], Q8_0=[0], Q2_K=[80, 82], Q3_K=[108],
              Q4_K=[0, 2], Q5_K=[0, 2], Q6_K=[208], IQ4_NL=[0], IQ4_XS=[0], MXFP4=[])


def blocks_of(name, rng):
    kind = gguf.GGMLQuantizationType[name]
    size, n_bytes = gguf.GGML_QUANT_SIZES[kind]
    b = rng.integers(0, 256, (N_BLOCK, n_bytes), dtype=np.uint8)
    for at in HALVES[name]:
        b[:, at + 1] = np.where(b[:, at + 1] & 0x7c == 0x7c, b[:, at + 1] & 0xbf, b[:, at + 1])
        b[-1, at:at + 2] = 1, 0x80
    if name == "MXFP4":
        b[:, 0] = 0, 1, 2, 200
    return b, gguf.quants.dequantize(b, kind).reshape(N_BLOCK, size)


def main():
    rng, header, data = np.random.default_rng(7), {}, b""
    for name in HALVES:
        blocks, values = blocks_of(name, rng)
        assert values.dtype == np.float32 and np.isfinite(values).all()
        for what, x, dtype in (("values", values, "F32"), ("blocks", blocks, "U8")):
            end = len(data) + x.nbytes
            header[f"{name}.{what}"] = dict(dtype=dtype, shape=list(x.shape),
                                            data_offsets=[len(data), end])
            data += x.tobytes()
    text = json.dumps(header).encode()
    OUT.write_bytes(struct.pack("<Q", len(text)) + text + data)


main()
