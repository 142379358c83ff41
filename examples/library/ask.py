#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The same as ask.c through ctypes, which comes with Python; nothing is built.

    ask.py MODEL QUESTION [ROWS ADAPTER]          TANDEM_LIBRARY: where libtandem.so.0 is, if not where
                                                  the system looks"""
import ctypes
import json
import os
import sys
from ctypes import POINTER, byref, c_char, c_char_p, c_double, c_int, c_int32, c_int64, c_size_t, c_uint64, c_void_p

TEXT_FN = ctypes.CFUNCTYPE(c_int, c_void_p, POINTER(c_char), c_size_t)


class Error(ctypes.Structure):
    _fields_ = [("fault", c_int32), ("text", c_char * 508)]


class GenerateOptions(ctypes.Structure):
    _fields_ = [("size", c_size_t), ("max_tokens", c_int64), ("temperature", c_double), ("top_p", c_double),
                ("top_k", c_int64), ("min_p", c_double), ("seed", c_uint64), ("stop", POINTER(c_char_p)),
                ("n_stop", c_size_t), ("adapter", c_char_p), ("text", TEXT_FN), ("ctx", c_void_p)]


class Answer(ctypes.Structure):
    _fields_ = [("text", c_void_p), ("n", c_size_t), ("prompt_tokens", c_int64), ("new_tokens", c_int64),
                ("end", c_int32)]


class TrainStep(ctypes.Structure):
    _fields_ = [("step", c_int64), ("n_step", c_int64), ("loss", c_double), ("valid_loss", c_double)]


STEP_FN = ctypes.CFUNCTYPE(c_int, c_void_p, POINTER(TrainStep))


class TrainOptions(ctypes.Structure):
    _fields_ = [("size", c_size_t), ("validation", c_char_p), ("epochs", c_int64), ("batch", c_int64),
                ("rank", c_int64), ("alpha", c_double), ("learning_rate", c_double), ("max_length", c_int64),
                ("seed", c_uint64), ("step", STEP_FN), ("ctx", c_void_p)]


lib = ctypes.CDLL(os.environ.get("TANDEM_LIBRARY", "libtandem.so.0"))
lib.tandem_open.restype = c_void_p
for name, types in {"tandem_open": [c_char_p, c_void_p, POINTER(Error)], "tandem_close": [c_void_p],
                    "tandem_chat": [c_void_p, c_char_p, POINTER(GenerateOptions), POINTER(Answer), POINTER(Error)],
                    "tandem_answer_release": [POINTER(Answer)],
                    "tandem_train": [c_void_p, c_char_p, c_char_p, POINTER(TrainOptions), POINTER(Error)],
                    "tandem_adapter_load": [c_void_p, c_char_p, c_char_p, POINTER(Error)]}.items():
    getattr(lib, name).argtypes = types


class Model:
    """One model; `with` closes it."""

    def __init__(self, path):
        self.error = Error()
        self.at = lib.tandem_open(path.encode(), None, byref(self.error))
        self.good(0 if self.at else -1)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        lib.tandem_close(self.at)

    def good(self, rc):
        if rc:
            raise RuntimeError(self.error.text.decode())

    def chat(self, messages, tell, adapter=None):
        """Each piece of the answer goes to `tell`; returns the whole."""
        def text(_, piece, n):
            tell(ctypes.string_at(piece, n).decode())
            return 0
        o = GenerateOptions(size=ctypes.sizeof(GenerateOptions), max_tokens=64, temperature=0, top_p=-1, top_k=-1,
                            adapter=adapter.encode() if adapter else None, text=TEXT_FN(text))
        answer = Answer()
        self.good(lib.tandem_chat(self.at, json.dumps(messages).encode(), byref(o), byref(answer), byref(self.error)))
        whole = ctypes.string_at(answer.text, answer.n).decode()
        lib.tandem_answer_release(byref(answer))
        return whole

    def teach(self, rows, folder, name):
        def step(_, at):
            print(f"\rstep {at[0].step} of {at[0].n_step}, loss {at[0].loss:.4f} ", end="", file=sys.stderr)
            return 0
        o = TrainOptions(size=ctypes.sizeof(TrainOptions), epochs=16, learning_rate=2e-3, step=STEP_FN(step))
        self.good(lib.tandem_train(self.at, rows.encode(), folder.encode(), byref(o), byref(self.error)))
        print(file=sys.stderr)
        self.good(lib.tandem_adapter_load(self.at, name.encode(), folder.encode(), byref(self.error)))


def main(path, question, rows=None, folder=None):
    messages = [{"role": "user", "content": question}]

    def tell(text):
        print(text, end="", flush=True)
    with Model(path) as m:
        m.chat(messages, tell)
        print()
        if rows:
            m.teach(rows, folder, "taught")
            m.chat(messages, tell, "taught")
            print()


if __name__ == "__main__":
    if len(sys.argv) not in (3, 5):
        sys.exit("ask.py MODEL QUESTION [ROWS ADAPTER]")
    try:
        main(*sys.argv[1:])
    except RuntimeError as fault:
        sys.exit(str(fault))
