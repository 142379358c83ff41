# SPDX-License-Identifier: Apache-2.0
"""Where a machine keeps CUDA's libraries. The driver's is found by the system, or by nobody; cuBLAS and
NCCL often lie only in the folders of a toolkit or of a Python package. Standard library only."""
import ctypes
import functools
import glob
import os

DRIVER = ("/usr/local/nvidia/lib64", "/usr/local/nvidia/lib", "/usr/lib/x86_64-linux-gnu",
          "/usr/lib/aarch64-linux-gnu", "/usr/lib64")
PYTHONS = ("/usr/lib/python3*", "/usr/local/lib/python3*", "/opt/*/lib/python3*",
           "/opt/*/.venv/lib/python3*", "/opt/*/venv/lib/python3*",
           os.path.expanduser("~/.local/lib/python3*"))
TOOLKITS = ("/usr/local/cuda*/lib64", "/usr/local/cuda*/targets/*/lib", "/opt/cuda*/lib64",
            "/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64")


def can_open(name):
    try:
        ctypes.CDLL(name)
        return True
    except OSError:
        return False


def folders():
    """Toolkits first: what a package brings is often older."""
    for at in TOOLKITS:
        yield from sorted(glob.glob(at), reverse=True)
    for at in PYTHONS:
        for packages in ("site-packages", "dist-packages"):
            yield from sorted(glob.glob(f"{at}/{packages}/nvidia/*/lib"))


def folder_of(name):
    return next((at for at in folders() if os.path.exists(f"{at}/{name}")), None)


@functools.lru_cache(maxsize=None)
def additions():
    """What the environment lacks for libraries to be found: looked for once."""
    path, env = [], {}
    if not can_open("libcuda.so.1"):
        path += [at for at in DRIVER if os.path.exists(f"{at}/libcuda.so.1")][:1]
    for name in ("libcublas.so.13", "libcublasLt.so.13"):
        at = None if can_open(name) else folder_of(name)
        if at and at not in path:
            path.append(at)
    nccl = None if can_open("libnccl.so.2") else folder_of("libnccl.so.2")
    if nccl:
        env["TANDEM_NCCL"] = f"{nccl}/libnccl.so.2"
    if path:
        before = os.environ.get("LD_LIBRARY_PATH")
        env["LD_LIBRARY_PATH"] = ":".join([before] * bool(before) + path)
    return env


def cuda_environment():
    return {**os.environ, **additions(),
            **{k: os.environ[k] for k in ("TANDEM_NCCL",) if k in os.environ}}
