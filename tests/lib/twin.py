# SPDX-License-Identifier: Apache-2.0
"""The program on a GPU that is played over the host's memory (tests/fake/cuda), and what a test of
it gives it to train. What it says there is compared with what it says on the CPU, for which both
compute with kernels/ref. Standard library only."""
import hashlib
import json
import os
import pathlib
import subprocess

from serving import BIN, BUILD, SLOW, make_model, said

PLUG = str((BUILD / "tests/fake/cuda/plug.so").resolve())
MODELS = pathlib.Path("tests/golden/models")
FAMILIES = ("llama_plain", "llama_tied", "mistral_window", "qwen2", "qwen3", "gpt2")
HANG_S = 120 * SLOW


def tandem(*words, device="cuda", **env):
    """`tandem WORDS` on that device; env: what the twins are to do besides."""
    env = {"TANDEM_CUDA_PLUG": PLUG, "TANDEM_DEVICE": device, "TANDEM_KERNELS": "ref", **env}
    return subprocess.run([BIN, *map(str, words)], stdin=subprocess.DEVNULL, text=True,
                          capture_output=True, check=False, timeout=HANG_S,
                          env={**os.environ, **{k: str(v) for k, v in env.items()}})


def told(path):
    """The numbers of a twin's line "name number ..."; none where it told nothing."""
    return [int(w) for w in path.read_text().split()[1::2]] if path.exists() else []


def golden_words(family):
    """`tandem run` of a golden's prompt, and the ids that it must say."""
    golden = json.loads((MODELS / family / "golden.json").read_text())
    ids, want = (",".join(map(str, golden[k])) for k in ("prompt", "greedy"))
    return ["run", MODELS / family, "--ids", ids, "-n", len(golden["greedy"]), "--ignore-eos",
            "--threads", "2"], want


def write_rows(path, n=12):
    """Rows to train, of different lengths."""
    path.write_text("".join(json.dumps({"prompt": "one " * (i % 5 + 1), "completion": "two"}) + "\n"
                            for i in range(n)))
    return path


def digest(folder):
    """Of all files of weights and numbers below, by name. A moment's time in them would differ."""
    return {str(p.relative_to(folder)): hashlib.sha256(p.read_bytes()).hexdigest()
            for p in sorted(folder.rglob("*.safetensors"))}


def trains_the_same(check, run, tmp, ways, epochs):
    """Each way is a name and options of `tandem train`: on both devices the same files are its end."""
    data = write_rows(tmp / "rows.jsonl")
    make_model(tmp / "m", "--seed", 3)
    for name, *way in ways:
        out = {}
        for device in ("cpu", "cuda"):
            to = tmp / f"{name}-{device}"
            p = run("train", "--model", tmp / "m", "--data", data, "--out", to, "--epochs", epochs,
                    "--batch", "4", *way, device=device)
            check(f"train {name} on {device}", p.returncode == 0, said(p))
            out[device] = digest(to)
        check(f"train {name}: same files", out["cpu"] and out["cpu"] == out["cuda"], str(out))
