#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`make check-gpu`: on a machine with a GPU, goldens through the plug, every kernel against its
reference, collectives, static = eager, two ranks on one GPU, trained = served, the server from end to
end, and where compute-sanitizer is, what it says of the kernels; the report stands in
build/gpu/check-gpu.txt. The most telling first, and none takes another down; ends within nine minutes.

GPU=fake runs the same on the twin of CUDA's runtime, to try the script itself."""
import glob
import json
import pathlib
import shutil
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from report import BUILD, FAKE, ROOT, Report, describe, gpu_environment  # noqa: E402

MODELS = pathlib.Path("tests/golden/models")
FAMILIES = ("llama_plain", "llama_tied", "mistral_window", "qwen2", "qwen3", "gpt2")
SCRIPTS = (("trained = served", "tests/server/test_trained_is_served.py", 90),
           ("the server", "tests/server/test_serve.py", 120),
           ("training", "tests/clients/local/test_train.py", 60),
           ("jobs", "tests/server/test_acceptance.py", 90))
# those whose threads share memory in the least simple ways: a second under the sanitizer is minutes
WATCHED = ("linear", "attn", "lora", "sample", "top_select")


def environment():
    env = gpu_environment()
    if FAKE:
        env["TANDEM_CUDA_KERNELS"] = str((ROOT / BUILD / "libtandem_cuda_emu.so").resolve())
    return env


def generate(r, env, family, *way):
    golden = json.loads((ROOT / MODELS / family / "golden.json").read_text())
    ids = ",".join(map(str, golden["prompt"]))
    status, out, err = r.run(BUILD / "tandem", "run", MODELS / family, "--ids", ids, "-n",
                             len(golden["greedy"]), "--ignore-eos", *way, env=env, most=60)
    return status, out.strip(), err, ",".join(map(str, golden["greedy"]))


def equalities(r, env):
    """Greedy text is the golden's in f32; static = eager in every type; two ranks on one GPU."""
    for family in FAMILIES:
        status, out, err, want = generate(r, env, family, "--quantize", "f32")
        r.verdict(f"{family}: greedy text", status == 0 and out == want, out + err)
        for kind in ("f32", "bf16", "int8"):
            static = generate(r, env, family, "--quantize", kind)
            eager = generate(r, env, family, "--quantize", kind, "--mode", "eager")
            r.verdict(f"{family} {kind}: static = eager", static[0] == 0 and static[1] == eager[1],
                      static[2] + eager[2])
    for family in ("llama_plain", "gpt2"):
        status, out, err, want = generate(r, env, family, "--quantize", "f32", "--tp", "2")
        r.verdict(f"{family}: two ranks on one GPU", status == 0 and out == want, out + err)


def kernels(r, env, *way):
    r.step(f"every kernel against its reference {' '.join(way)}", BUILD / "tandem-kernels", "check",
           "--variant", "cuda", *way, env=env, most=r.left(), lines=40)


def sanitizer():
    found = shutil.which("compute-sanitizer")
    return found or next(iter(sorted(glob.glob("/usr/local/cuda*/bin/compute-sanitizer"))), None)


def sanitize(r, env):
    """Reads past the end that nothing fences, and races that no order of threads shows."""
    tool = sanitizer()
    if FAKE or not tool:
        r.leave_out("compute-sanitizer", "it is not here")
        return
    program = ROOT / BUILD / "tandem-kernels.bin"  # of a bundle, past the line of shell before it
    words = [program if program.exists() else BUILD / "tandem-kernels", "check"]
    libraries = ROOT / "lib"
    env = {**env, "LD_LIBRARY_PATH": str(libraries)} if libraries.is_dir() else env
    for kind in ("racecheck", "memcheck", "synccheck"):
        for name in WATCHED:
            status, out, err = r.run(tool, "--tool", kind, "--error-exitcode", "9", *words, name,
                                     "--variant", "cuda", "--short", env=env, most=25)
            if status == 124:
                clean = not any("ERROR SUMMARY" in line or "=========     at" in line
                                for line in out.splitlines())
                r.verdict(f"{kind}: {name}, of which it came through a part", clean, out + err, 20)
            else:
                r.verdict(f"{kind}: {name}", status == 0, out + err, 20)


def scripts(r, env, title, path, most):
    r.step(title, "python3", path, env=env, most=most, lines=30)


def main():
    r, env = Report("check-gpu", 8.6), environment()
    try:
        r.section("machine", 60, describe)
        r.section("goldens", 90, lambda r: r.step(
            "goldens through the plug", BUILD / "tests/engine/device/test_cuda_golden", env=env, most=90))
        r.section("kernels, shortly", 120, kernels, env, "--short")
        r.section("collectives", 60, lambda r: r.step(
            "collectives of ranks that share the GPU, and NCCL", BUILD / "tests/engine/comm/test_fabric",
            env=env, most=60))
        r.section("equalities", 120, equalities, env)
        for title, path, most in SCRIPTS:
            r.section(title, most, scripts, env, title, path, most, least=20)
        r.section("compute-sanitizer", 120, sanitize, env, least=60)
        if not FAKE:
            r.section("kernels, at every size", 300, kernels, env, least=40)
    finally:
        failed = r.close()
    return failed


if __name__ == "__main__":
    sys.exit(main())
