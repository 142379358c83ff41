#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Loads adapters that were trained here into PEFT and dumps what it computes with them.

    make t/engine/train/test_adapter_dir
    python3 tests/golden/make_adapters.py [PROGRAM [NAME...]]   (requirements.txt beside this file)

PROGRAM (by default the release build of the test above) trains each adapter on a model of
tests/golden/models/ and writes it to tests/golden/adapters/NAME/, as a PEFT directory; all of them,
or those that are named. Beside its two files goes

logits.safetensors
    logits               [8, vocab]: of the first eight ids of the model's prompt, in f32 on one
                         thread with eager attention

A warning of PEFT's, a tensor that it does not take from the file or misses in it, and an adapter
that changes nothing end the script: a directory that is merely not refused is not enough.
"""
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile
import warnings

import peft
import safetensors.torch
import torch
import transformers

HERE = pathlib.Path(__file__).resolve().parent
ROOT, OUT = HERE.parents[1], HERE / "adapters"
PROGRAM = ROOT / "build/release/tests/engine/train/test_adapter_dir"
N_ID = 8


def logits_of(model, ids):
    with torch.no_grad():
        return model(torch.tensor([ids]), use_cache=False).logits[0].contiguous()


def load(folder, base):
    """The base with the adapter, every tensor of which must be the file's."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", "`is_gradient_checkpointing`")  # transformers of PEFT
        model = peft.PeftModel.from_pretrained(base, folder).eval()
    taken = peft.get_peft_model_state_dict(model)
    file = safetensors.torch.load_file(folder / "adapter_model.safetensors")
    if taken.keys() != file.keys() or any(not torch.equal(taken[k], file[k]) for k in file):
        raise SystemExit(f"{folder.name}: PEFT holds other tensors than the file")
    return model


def make(folder):
    at = ROOT / peft.PeftConfig.from_pretrained(folder).base_model_name_or_path
    base = transformers.AutoModelForCausalLM.from_pretrained(
        at, dtype=torch.float32, attn_implementation="eager").eval()
    if hasattr(base, "set_experts_implementation"):  # of later versions
        base.set_experts_implementation("eager")
    ids = json.loads((at / "golden.json").read_text())["prompt"][:N_ID]
    plain = logits_of(base, ids)
    logits = logits_of(load(folder, base), ids)
    change = ((logits - plain).abs().max() / plain.abs().max()).item()
    if change < 1e-2:
        raise SystemExit(f"{folder.name}: changes next to nothing ({change:.2g})")
    safetensors.torch.save_file({"logits": logits}, folder / "logits.safetensors")
    print(f"{folder.name}: logits change by {change:.3f} of the largest")


def main():
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    with tempfile.TemporaryDirectory() as made:
        subprocess.run([pathlib.Path(sys.argv[1] if sys.argv[1:] else PROGRAM).resolve(), made],
                       cwd=ROOT, check=True)
        for folder in sorted(pathlib.Path(made).iterdir()):
            if sys.argv[2:] and folder.name not in sys.argv[2:]:
                continue
            shutil.rmtree(OUT / folder.name, ignore_errors=True)
            (OUT / folder.name).mkdir(parents=True)
            for name in ("adapter_config.json", "adapter_model.safetensors"):
                shutil.copy(folder / name, OUT / folder.name)
            make(OUT / folder.name)


if __name__ == "__main__":
    main()
