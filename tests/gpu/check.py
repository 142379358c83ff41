#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`make check-gpu`: on a machine with a GPU, every kernel against its reference, goldens through the
plug, static = eager, rows alone = among others, two ranks on one GPU, trained = served, and the server
from end to end; the report stands in build/gpu/check-gpu.txt. Ends within nine minutes.

GPU=fake runs the same on the twin of CUDA's runtime, to try the script itself."""
import json
import os
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from report import BUILD, ROOT, Report, describe  # noqa: E402

MODELS = pathlib.Path("tests/golden/models")
FAMILIES = ("llama_plain", "llama_tied", "mistral_window", "qwen2", "qwen3", "gpt2")
FAKE = os.environ.get("GPU") == "fake"


def environment():
    if FAKE:
        return {"TANDEM_CUDA_PLUG": str((ROOT / BUILD / "tests/fake/cuda/plug.so").resolve()),
                "TANDEM_DEVICE": "cuda"}
    return {"TANDEM_DEVICE": "cuda", "TEST_GPU": "1",
            "TANDEM_CUDA_KERNELS": str((ROOT / BUILD / "libtandem_cuda.so").resolve())}


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
        expect(r, f"{family}: greedy text", status == 0 and out == want, out + err)
        for kind in ("f32", "bf16", "int8"):
            static = generate(r, env, family, "--quantize", kind)
            eager = generate(r, env, family, "--quantize", kind, "--mode", "eager")
            expect(r, f"{family} {kind}: static = eager",
                   static[0] == 0 and static[1] == eager[1], static[2] + eager[2])
    for family in ("llama_plain", "gpt2"):
        status, out, err, want = generate(r, env, family, "--quantize", "f32", "--tp", "2")
        expect(r, f"{family}: two ranks on one GPU", status == 0 and out == want, out + err)


def expect(r, name, good, said):
    r.passed, r.failed = r.passed + bool(good), r.failed + (not good)
    r.say(f"{'ok  ' if good else 'FAIL'}      {name}")
    for line in ("" if good else said).splitlines()[-6:]:
        r.say("          | " + line[:300])


def main():
    r = Report("check-gpu", 8.5)
    env = environment()
    describe(r)
    r.step("goldens through the plug", BUILD / "tests/engine/device/test_cuda_golden", env=env,
           most=90)
    r.step("collectives of ranks that share the GPU, and NCCL", BUILD / "tests/engine/comm/test_fabric",
           env=env, most=60)
    equalities(r, env)
    r.step("every kernel against its reference", BUILD / "tandem-kernels", "check", "--variant",
           "cuda", env=env, most=200, lines=40)
    for name, script, most in (("trained = served", "tests/server/test_trained_is_served.py", 90),
                               ("the server", "tests/server/test_serve.py", 150),
                               ("training", "tests/clients/local/test_train.py", 60),
                               ("jobs", "tests/server/test_acceptance.py", 90)):
        r.step(name, script, env=env, most=most, least=20, lines=30)
    return r.close()


sys.exit(main())
