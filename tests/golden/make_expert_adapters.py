#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Adapters on the experts of tiny mixtures of tests/golden/models, and what PEFT computes with them.

    python3 tests/golden/make_expert_adapters.py [NAME...]   (requirements_delta.txt beside this file)

Into models/NAME/ go

experts/, experts_final/   a LoRA of attention and of all experts (target_parameters), both halves
                           drawn at random, before and after the steps, as PEFT saves it
experts_apart/             one in the layout of before transformers 5: each expert's own products as
                           target_modules, of which PEFT makes the other as it loads them
experts.safetensors        logits, logits_apart: of the model's prompt with either; grad.TENSOR of the
                           loss of "experts/", by the names of its file
experts.json               loss: of rows[0] and rows[1] of golden.json; steps: of AdamW, as golden.json
                           has "lora"

All in f32 on one thread, eager attention and experts.
"""
import json
import shutil
import sys

import peft
import safetensors.torch
import torch
import transformers

import make_models
import peft_steps

ATTENTION = ["q_proj", "v_proj"]
APART = {"qwen3_moe": ["gate_proj", "up_proj", "down_proj"], "mixtral": ["w1", "w3", "w2"]}
RANK = {"qwen3_moe": 3, "mixtral": 2, "gpt_oss": 4, "gemma4_experts": 3}
N_STEP = 10


def load(name):
    model = transformers.AutoModelForCausalLM.from_pretrained(
        make_models.OUT / name, dtype=torch.float32, attn_implementation="eager").eval()
    model.set_experts_implementation("eager")
    return model


def draw(params, seed):
    g = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for _, p in sorted(params.items()):
            p.copy_(torch.randn(p.shape, generator=g) * (0.5 / min(p.shape) ** 0.5))


def logits(model, prompt):
    with torch.no_grad():
        return make_models.forward(model, prompt).contiguous()


def save(model, folder):
    shutil.rmtree(folder, ignore_errors=True)
    model.save_pretrained(folder)
    peft_steps.clean_adapter(folder)


def file_name(name):
    return name.replace(".default", "")


def trained(name, golden, tensors):
    folder, rows = make_models.OUT / name, golden["rows"]
    at = "experts" if name == "gemma4_experts" else "mlp.experts"
    options = dict(r=RANK[name], lora_alpha=5, target_modules=ATTENTION,
                   target_parameters=[f"{at}.gate_up_proj", f"{at}.down_proj"])
    model = peft.get_peft_model(load(name), peft.LoraConfig(
        lora_dropout=0.0, bias="none", task_type="CAUSAL_LM", **options))
    params = {n: p for n, p in model.named_parameters() if p.requires_grad}
    assert any("base_layer.lora_A" in n for n in params), "gate_up_proj is the inner one"
    draw(params, 5)
    save(model, folder / "experts")
    plain = logits(load(name), golden["prompt"])
    tensors["logits"] = logits(model, golden["prompt"])
    change = ((tensors["logits"] - plain).abs().max() / plain.abs().max()).item()
    loss = make_models.loss_of(model, rows[:2])
    loss.backward()
    for n, p in params.items():
        tensors["grad." + file_name(n)] = p.grad.contiguous().clone()
    steps = make_models.train(model, rows, N_STEP, 0.0, params)
    save(model, folder / "experts_final")
    print(f"{name}: logits change by {change:.3f}, loss {loss.item():.4f}")
    return {"made_by": make_models.versions(), **options, "loss": loss.item(), **steps}


def apart(name, golden, tensors):
    """Names and shapes are those of the base's own files."""
    folder = make_models.OUT / name / "experts_apart"
    base = safetensors.torch.load_file(make_models.OUT / name / "model.safetensors")
    g, rank, halves = torch.Generator().manual_seed(6), RANK[name], {}
    for n, w in sorted(base.items()):
        if ".experts." in n and n.split(".")[-2] in APART[name]:
            module = "base_model.model." + n.removesuffix(".weight")
            for half, shape in (("A", (rank, w.shape[1])), ("B", (w.shape[0], rank))):
                halves[f"{module}.lora_{half}.weight"] = (
                    torch.randn(shape, generator=g) * (0.5 / rank ** 0.5))
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    safetensors.torch.save_file(halves, folder / "adapter_model.safetensors",
                                metadata={"format": "pt"})
    peft.LoraConfig(r=rank, lora_alpha=5, target_modules=APART[name], task_type="CAUSAL_LM",
                    inference_mode=True).save_pretrained(folder)
    peft_steps.clean_adapter(folder)
    model = peft.PeftModel.from_pretrained(load(name), folder).eval()
    tensors["logits_apart"] = logits(model, golden["prompt"])


def main():
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    for name in sys.argv[1:] or RANK:
        folder = make_models.OUT / name
        golden, tensors = json.loads((folder / "golden.json").read_text()), {}
        said = trained(name, golden, tensors)
        if name in APART:
            apart(name, golden, tensors)
        safetensors.torch.save_file(tensors, folder / "experts.safetensors")
        (folder / "experts.json").write_text(json.dumps(said) + "\n")


if __name__ == "__main__":
    main()
