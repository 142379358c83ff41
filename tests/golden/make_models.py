#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes tiny random models of every family and dumps what Hugging Face computes with them.

    python3 tests/golden/make_models.py [NAME...]      (requirements.txt beside this file)

Each goes to tests/golden/models/NAME/, a directory that the engine opens like any other
(config.json, model.safetensors in f32; llama_tied has a tokenizer too), with two files more:

golden.safetensors
    logits               [len(prompt), vocab] of the prompt
    grad.TENSOR          of "loss" below, for every tensor of the model
    final.TENSOR         after the AdamW steps: up to 64 elements, those at i * size // count
    long.logits          of "long" below, where that is there
    hidden.I, embedding  encoders: last hidden state of text I, and the pooled rows [n, width]

golden.json (all that the numbers depend on besides the weights)
    prompt, greedy       32 ids that greedy decoding adds; greedy_margin: the smallest distance
                         between the best logit and the next on the way
    rows                 ids and labels; labels[t] is the id that position t must predict, -100: none
    loss                 mean over all trained positions of rows[0] and rows[1] together
    adamw                options (decay applies to tensors of two dimensions), per step the rows
                         taken, the loss before the step, the norm of all gradients before clipping
    long                 a prompt past the context of the first training, served with context "ctx"
    lora                 PEFT: the options, losses of 20 steps; the adapter before is in lora/, the
                         one after in lora_final/, both as PEFT saves them

All in f32 on one thread, eager attention. Weights are drawn wide, so that logits differ visibly
and greedy ids do not hang on rounding.
"""
import copy
import json
import pathlib
import shutil
import sys

import peft
import safetensors.torch
import tokenizers
import torch
import transformers
from transformers import (BertConfig, BertModel, GPT2Config, GPT2LMHeadModel, LlamaConfig,
                          LlamaForCausalLM, MinistralConfig, MinistralForCausalLM, MistralConfig,
                          MistralForCausalLM, Qwen2Config, Qwen2ForCausalLM, Qwen3Config,
                          Qwen3ForCausalLM, XLMRobertaConfig, XLMRobertaModel)

import delta_models
import gemma_models
import hybrid_models
import latent_models
import later_models
import moe_models
import scan_models
from peft_steps import clean_adapter

OUT = pathlib.Path(__file__).resolve().parent / "models"
ADAMW = dict(lr=2e-3, betas=(0.9, 0.999), eps=1e-8)
DECAY, MAX_NORM, N_GREEDY, N_STEP, N_LORA_STEP = 0.1, 1.0, 32, 10, 20
MIN_MARGIN = 5e-3

TEXT = """The cat sat on the mat. A dog ran past the old red barn, and the cat looked up at it.
"Where do you run to?" asked the cat. "Home," said the dog, "before the rain comes down." The rain
came down at 7:45, and both of them got wet: 1 cat, 1 dog, 1000 drops. They're fine now, thank you.
Once upon a time there was a small engine that could think, and it thought: I think I can."""
CHAT = ("{% for m in messages %}{{ '<|' + m['role'] + '|>' + m['content'] + '<|end|>\\n' }}"
        "{% endfor %}{% if add_generation_prompt %}{{ '<|assistant|>' }}{% endif %}")


def llama(**kw):
    base = dict(vocab_size=203, hidden_size=52, intermediate_size=97, num_hidden_layers=2,
                num_attention_heads=6, num_key_value_heads=2, head_dim=10,
                max_position_embeddings=64, bos_token_id=1, eos_token_id=2)
    return LlamaForCausalLM, LlamaConfig(**(base | kw))


def rope(kind, theta=1000.0, **kw):
    top = {k: kw.pop(k) for k in ("max_position_embeddings", "original_max_position_embeddings")
           if k in kw and kind in ("longrope",)}
    return llama(rope_theta=theta, rope_scaling={"rope_type": kind, **kw}, **top)


def qwen(cls, config, **kw):
    base = dict(vocab_size=211, hidden_size=44, intermediate_size=75, num_hidden_layers=3,
                num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=64,
                rope_theta=10000.0)
    return cls, config(**(base | kw))


FACTORS = dict(short_factor=[1.0, 1.02, 1.1, 1.3, 1.5], long_factor=[1.0, 1.5, 2.5, 4.0, 6.0])
MODELS = {
    "llama_plain": lambda: llama(),
    "llama_mha_bias": lambda: llama(num_key_value_heads=6, attention_bias=True, mlp_bias=True,
                                    hidden_size=45, rms_norm_eps=1e-5),
    "llama_tied": lambda: llama(vocab_size=320, hidden_size=48, num_attention_heads=3,
                                num_key_value_heads=1, head_dim=16, tie_word_embeddings=True),
    "llama_rope_linear": lambda: rope("linear", factor=3.0),
    "llama_rope_dynamic": lambda: rope("dynamic", factor=2.5),
    "llama_rope_llama3": lambda: rope("llama3", theta=500.0, factor=8.0, low_freq_factor=1.0,
                                      high_freq_factor=4.0, original_max_position_embeddings=32),
    "llama_rope_yarn": lambda: rope("yarn", factor=2.0, original_max_position_embeddings=32),
    "llama_rope_yarn_mscale": lambda: rope("yarn", factor=4.0, beta_fast=16.0, beta_slow=2.0,
                                           mscale=1.0, mscale_all_dim=0.7, truncate=False,
                                           original_max_position_embeddings=16),
    "llama_rope_longrope": lambda: rope("longrope", max_position_embeddings=128,
                                        original_max_position_embeddings=64, **FACTORS),
    "mistral_window": lambda: qwen(MistralForCausalLM, MistralConfig, sliding_window=13,
                                   head_dim=14),
    "qwen2": lambda: qwen(Qwen2ForCausalLM, Qwen2Config, hidden_size=48, tie_word_embeddings=True),
    "qwen2_window": lambda: qwen(Qwen2ForCausalLM, Qwen2Config, hidden_size=48,
                                 use_sliding_window=True, sliding_window=11, max_window_layers=1),
    "ministral_alternating": lambda: qwen(
        MinistralForCausalLM, MinistralConfig, sliding_window=9, head_dim=14,
        layer_types=["full_attention", "sliding_attention", "full_attention"]),
    "qwen3": lambda: qwen(Qwen3ForCausalLM, Qwen3Config, head_dim=16),
    "qwen3_alternating": lambda: qwen(
        Qwen3ForCausalLM, Qwen3Config, head_dim=16, use_sliding_window=True, sliding_window=7,
        max_window_layers=3,
        layer_types=["sliding_attention", "full_attention", "sliding_attention"]),
    "gpt2": lambda: (GPT2LMHeadModel, GPT2Config(
        vocab_size=197, n_embd=45, n_layer=2, n_head=3, n_positions=64, resid_pdrop=0.0,
        embd_pdrop=0.0, attn_pdrop=0.0, bos_token_id=1, eos_token_id=2)),
    "gpt2_untied_scaled": lambda: (GPT2LMHeadModel, GPT2Config(
        vocab_size=197, n_embd=36, n_layer=3, n_head=4, n_positions=64, n_inner=61,
        activation_function="gelu", scale_attn_by_inverse_layer_idx=True, resid_pdrop=0.0,
        tie_word_embeddings=False, embd_pdrop=0.0, attn_pdrop=0.0)),
    "bert_mean": lambda: bert(),
    "bert_cls": lambda: bert(hidden_size=45, num_attention_heads=3, intermediate_size=77),
    "xlmr_cls": lambda: (XLMRobertaModel, XLMRobertaConfig(
        vocab_size=179, hidden_size=48, num_hidden_layers=2, num_attention_heads=4,
        intermediate_size=95, max_position_embeddings=40, type_vocab_size=1, layer_norm_eps=1e-5,
        hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)),
    "qwen3_last": lambda: qwen(Qwen3ForCausalLM, Qwen3Config, head_dim=16,
                               tie_word_embeddings=True),
}
SENSITIVE = (*moe_models.NEAR_IN_BF16, *latent_models.MODELS)  # to rounding, by seed
ENCODERS = ("bert_mean", "bert_cls", "xlmr_cls", "qwen3_last")
LORA = {  # name: options of LoraConfig
    "llama_plain": dict(r=4, lora_alpha=8, target_modules=[
        "q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]),
    "qwen2": dict(r=6, lora_alpha=9, use_rslora=True, target_modules=["q_proj", "v_proj"]),
    "gpt2": dict(r=3, lora_alpha=6, fan_in_fan_out=True, target_modules=["c_attn", "c_fc"]),
}


for others in (later_models, moe_models, hybrid_models, delta_models, latent_models,
               scan_models, gemma_models):
    MODELS |= others.MODELS
    LORA |= others.LORA
LR = {n: m.LR for m in (delta_models, gemma_models) for n in m.MODELS}  # of full training


def bert(**kw):
    base = dict(vocab_size=179, hidden_size=48, num_hidden_layers=2, num_attention_heads=4,
                intermediate_size=95, max_position_embeddings=40, hidden_dropout_prob=0.0,
                attention_probs_dropout_prob=0.0)
    return BertModel, BertConfig(**(base | kw))


def centre(model, name):
    """What a norm's weights lie around: of classes that norm by 1 + them, zero."""
    kind = type(model).__name__
    if kind.startswith(("Gemma4", "Gemma3n")):  # scores are not scaled
        return 2 if "post_" in name else 0.5 if "_norm" in name and "self_attn" in name else 1
    plus_one = "Gemma" in kind or (kind.startswith(("Qwen3_5", "Qwen3Next"))
                                   and "linear_attn.norm" not in name)
    return 0 if plus_one or name.endswith("bias") else 1


def draw(model, seed):
    """Wide weights, norms around one, biases that matter, states that last."""
    g = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, p in model.named_parameters():
            noise = torch.randn(p.shape, generator=g)
            if "norm" in name.lower() or ".ln_" in name:
                p.copy_(centre(model, name) + 0.2 * noise)
            elif "router.scale" in name:  # as wide as those of other mixtures' routers
                p.copy_(0.5 * p.numel() ** 0.5 * (1 + 0.2 * noise))
            elif "per_expert_scale" in name:
                p.copy_(1 + 0.3 * noise)
            elif "modality_router" in name:  # what it reads is as small as the width is large
                p.copy_(noise * p.shape[-1] ** 0.5)
            elif "_coefs" in name:
                p.copy_(noise * (0.4 / p.shape[-1] ** 0.5))
            elif "correct_output_scale" in name:
                p.copy_(1 + 0.3 * noise)
            elif name.endswith("A_log"):
                p.copy_(0.5 * noise - 2)
            elif p.dim() == 1:
                p.copy_(0.3 * noise)
            elif "GptOss" in type(model).__name__ and "experts.gate_up_proj" in name:  # some are beyond where they are clamped
                p.copy_(noise * (2.5 / p.shape[1] ** 0.5))
            elif "_b_proj" in name:  # from a latent: what is wide already stays so
                p.copy_(noise * (1.0 / p.shape[-1] ** 0.5))
            elif "embed" in name or "wte" in name or "wpe" in name:
                p.copy_((0.2 if type(model).__name__.startswith(("Gemma4", "Gemma3n")) else 0.7) * noise)
            elif "per_layer_input_gate" in name:  # what it leaves is normed: it may not be nothing
                p.copy_(noise * (0.4 / p.shape[-1] ** 0.5))
            else:
                p.copy_(noise * (1.6 / p.shape[-1] ** 0.5))
        for name, p in model.named_buffers():
            if name.endswith("e_score_correction_bias"):
                p.copy_(0.2 * torch.randn(p.shape, generator=g))
            if name.endswith("layer_scalar"):
                p.copy_(0.8 + 0.4 * torch.rand(p.shape, generator=g))


def build(name, seed):
    cls, config = MODELS[name]()
    config._attn_implementation = "eager"
    config._experts_implementation = "eager"  # of later versions
    config.torch_dtype = torch.float32
    model = cls(config).float().eval()
    draw(model, seed)
    return model


def ids(n, vocab, seed):
    g = torch.Generator().manual_seed(seed)
    return torch.randint(3, vocab, (n,), generator=g).tolist()


def forward(model, row):
    return model(torch.tensor([row]), use_cache=False).logits[0]


def greedy(model, prompt):
    out, margin = [], float("inf")
    with torch.no_grad():
        for _ in range(N_GREEDY):
            top = forward(model, prompt + out)[-1].topk(2)
            margin = min(margin, (top.values[0] - top.values[1]).item())
            out.append(top.indices[0].item())
    return out, margin


def make_rows(vocab):
    """Six rows of odd lengths; some positions are not trained."""
    rows = []
    for i, n in enumerate((23, 37, 5, 48, 2, 31)):
        row = ids(n, vocab, 900 + i)
        labels = row[1:] + [-100]
        for t in range(n):
            if (t * 7 + i) % 5 == 0 and n > 2:
                labels[t] = -100
        rows.append({"ids": row, "labels": labels})
    return rows


def balanced_loss(model, rows):
    """In one batch, padded behind, since a loss that balances the routers' load is of a batch."""
    longest = max(len(r["ids"]) for r in rows)
    pad = lambda x, by: torch.tensor([r + [by] * (longest - len(r)) for r in x])
    ids_all, labels = pad([r["ids"] for r in rows], 0), pad([r["labels"] for r in rows], -100)
    mask = pad([[1] * len(r["ids"]) for r in rows], 0)
    out = model(ids_all, attention_mask=mask, use_cache=False)
    loss = torch.nn.functional.cross_entropy(out.logits.flatten(0, 1), labels.flatten(),
                                             ignore_index=-100)
    return loss + model.config.router_aux_loss_coef * out.aux_loss


def loss_of(model, rows):
    if getattr(model.config, "output_router_logits", False):
        return balanced_loss(model, rows)
    total, n = 0.0, 0
    for r in rows:
        labels = torch.tensor(r["labels"])
        total = total + torch.nn.functional.cross_entropy(
            forward(model, r["ids"]), labels, ignore_index=-100, reduction="sum")
        n += int((labels != -100).sum())
    return total / n


def train(model, rows, n_step, decay, params, lr=ADAMW["lr"]):
    """params: by name."""
    plain = {n for n, p in params.items() if moe_models.is_bias(n, p)}
    groups = [{"params": [p for n, p in params.items() if n not in plain], "weight_decay": decay},
              {"params": [p for n, p in params.items() if n in plain], "weight_decay": 0.0}]
    params = list(params.values())
    optimizer = torch.optim.AdamW([g for g in groups if g["params"]], **(ADAMW | {"lr": lr}))
    steps = []
    for i in range(n_step):
        take = [i % len(rows), (i + 1) % len(rows)]
        optimizer.zero_grad()
        loss = loss_of(model, [rows[k] for k in take])
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(params, MAX_NORM)
        optimizer.step()
        steps.append({"rows": take, "loss": loss.item(), "grad_norm": norm.item()})
    return {**ADAMW, "lr": lr, "weight_decay": decay, "max_grad_norm": MAX_NORM, "steps": steps}


def sample(t):
    flat = t.detach().flatten()
    n = min(64, flat.numel())
    return flat[torch.tensor([i * flat.numel() // n for i in range(n)])].clone()


def versions():
    return {"torch": torch.__version__.split("+")[0], "transformers": transformers.__version__,
            "peft": peft.__version__}


def clean_config(path):
    """What the making program leaves of itself in a config is no part of the model."""
    config = json.loads(path.read_text())
    for key in ("_name_or_path", "_attn_implementation_autoset", "transformers_version"):
        config.pop(key, None)
    path.write_text(json.dumps(config, indent=2) + "\n")


def save_model(model, folder):
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    stays = {"save_original_format": False} if "Moe" in type(model).__name__ \
        and "Qwen3_5" in type(model).__name__ else {}  # its makers stack experts too
    model.save_pretrained(folder, safe_serialization=True, **stays)
    clean_config(folder / "config.json")
    (folder / "generation_config.json").unlink(missing_ok=True)


def long_golden(name, seed, tensors):
    """A text past the old context; the engine serves it with frequencies for `ctx`."""
    if name not in ("llama_rope_dynamic", "llama_rope_longrope", "phi3_longrope"):
        return None
    model = build(name, seed)
    prompt = ids(96, model.config.vocab_size, 77)
    with torch.no_grad():
        tensors["long.logits"] = forward(model, prompt).contiguous()
    return {"prompt": prompt, "ctx": len(prompt)}


def make_tokenizer(folder, vocab):
    t = tokenizers.Tokenizer(tokenizers.models.BPE())
    t.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    t.decoder = tokenizers.decoders.ByteLevel()
    special = ["<|unk|>", "<|bos|>", "<|end|>", "<|system|>", "<|user|>", "<|assistant|>"]
    t.train_from_iterator([TEXT], tokenizers.trainers.BpeTrainer(
        vocab_size=vocab, special_tokens=special, show_progress=False,
        initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet()))
    t.save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text(json.dumps(
        {"bos_token": "<|bos|>", "eos_token": "<|end|>", "unk_token": "<|unk|>",
         "add_bos_token": False, "chat_template": CHAT, "model_max_length": 64}, indent=2) + "\n")
    (folder / "generation_config.json").write_text(
        json.dumps({"bos_token_id": 1, "eos_token_id": 2, "do_sample": False}) + "\n")
    return t


def lora_golden(name, seed, rows, folder):
    """20 steps of PEFT on the frozen model; both halves of each adapter start non-zero, so that
    the first loss already depends on the scale."""
    model = build(name, seed)
    model = peft.get_peft_model(model, peft.LoraConfig(lora_dropout=0.0, bias="none",
                                                       task_type="CAUSAL_LM", **LORA[name]))
    g = torch.Generator().manual_seed(seed + 1)
    params = {n: p for n, p in model.named_parameters() if p.requires_grad}
    with torch.no_grad():
        for p in params.values():
            p.copy_(torch.randn(p.shape, generator=g) * (0.3 / p.shape[-1] ** 0.5))
    model.save_pretrained(folder / "lora")
    result = train(model, rows, N_LORA_STEP, 0.0, params,
                   gemma_models.LORA_LR.get(name, ADAMW["lr"]))
    model.save_pretrained(folder / "lora_final")
    for sub in ("lora", "lora_final"):
        clean_adapter(folder / sub)
    said = {k: v for k, v in LORA[name].items() if k != "fan_in_fan_out"}
    if isinstance(said["target_modules"], str):  # the names that an expression ends in
        said["target_modules"] = said["target_modules"].split("(")[-1].strip(")").split("|")
    return {**said, **result}


def is_near_in_bf16(model, prompt):
    """Whether rounding sends no row to other experts, of which the outputs are all others."""
    with torch.no_grad():
        want = forward(model, prompt)
        got = forward(copy.deepcopy(model).bfloat16(), prompt).float()
    return (got - want).abs().max() < 3e-2 * want.abs().max()


def is_steady(model, prompt):
    """The same of weights that are moved by what bf16 rounds off, whichever way."""
    g = torch.Generator().manual_seed(5)
    with torch.no_grad():
        want = forward(model, prompt)
        for _ in range(8):
            moved = copy.deepcopy(model)
            for p in moved.parameters():
                p.mul_(1 + (torch.rand(p.shape, generator=g) - 0.5) / 128)
            if (forward(moved, prompt) - want).abs().max() > 4e-2 * want.abs().max():
                return False
    return True


def find_seed(name, prompt):
    """The first seed whose greedy text has no near tie."""
    for seed in range(1, 200):
        model = build(name, seed)
        if (name in SENSITIVE or name in gemma_models.MODELS) and not is_near_in_bf16(model, prompt):
            continue
        if name in latent_models.MODELS and not is_steady(model, prompt):
            continue
        out, margin = greedy(model, prompt)
        if margin > MIN_MARGIN and len(set(out)) > 8:
            return seed, model, out, margin
    raise SystemExit(f"{name}: every seed has a near tie")


def parts_of(name, n, x):
    if name in scan_models.MODELS:
        return scan_models.parts(n, x)
    return moe_models.parts(n, x, name == "gpt_oss")


def make_decoder(name, folder):
    vocab = MODELS[name]()[1].get_text_config().vocab_size
    prompt, extra = ids(19, vocab, 7), {}
    folder.mkdir(parents=True, exist_ok=True)
    if name == "llama_tied":
        extra = {"text": "The cat sat on a wet mat, and the dog"}
        prompt = make_tokenizer(folder, vocab).encode(extra["text"]).ids
    seed, model, out, margin = find_seed(name, prompt)
    save_model(model, folder)
    if name == "llama_tied":
        make_tokenizer(folder, vocab)
    rows, tensors = make_rows(vocab), {}
    with torch.no_grad():
        tensors["logits"] = forward(model, prompt).contiguous()
    loss = loss_of(model, rows[:2])
    loss.backward()
    for n, p in model.named_parameters():
        if p.grad is not None:  # of what sees images nothing is trained
            own = scan_models.parts(n, p.grad) if name in scan_models.MODELS else {n: p.grad}
            for key, part in own.items():
                tensors["grad." + key] = part.contiguous().clone()
    adamw = train(model, rows, N_STEP, DECAY, dict(model.named_parameters()),
                  LR.get(name, ADAMW["lr"]))
    for name_all, p in model.named_parameters():
        for n, part in parts_of(name, name_all, p).items():
            if p.grad is not None:
                tensors["final." + n] = sample(part)
    golden = {"made_by": versions(), "seed": seed, **extra, "prompt": prompt, "greedy": out,
              "greedy_margin": margin, "rows": rows, "loss": loss.item(), "adamw": adamw}
    long = long_golden(name, seed, tensors)
    if long:
        golden["long"] = long
    if name in LORA:
        golden["lora"] = lora_golden(name, seed, rows, folder)
    return golden, tensors


def pooled(hidden, kind):
    v = {"cls": hidden[:, 0], "last": hidden[:, -1], "mean": hidden.mean(1)}[kind]
    return torch.nn.functional.normalize(v, dim=-1)[0]


def save_pooling(folder, kind, width):
    types = ("Transformer", "Pooling", "Normalize")
    paths = ("", "1_Pooling", "2_Normalize")
    (folder / "modules.json").write_text(json.dumps(
        [{"idx": i, "name": str(i), "path": paths[i], "type": "sentence_transformers.models." + t}
         for i, t in enumerate(types)], indent=2) + "\n")
    (folder / "1_Pooling").mkdir()
    (folder / "1_Pooling/config.json").write_text(json.dumps(
        {"word_embedding_dimension": width, "pooling_mode_cls_token": kind == "cls",
         "pooling_mode_mean_tokens": kind == "mean", "pooling_mode_max_tokens": False,
         "pooling_mode_lasttoken": kind == "last",
         "pooling_mode_mean_sqrt_len_tokens": False}, indent=2) + "\n")
    (folder / "sentence_bert_config.json").write_text(
        json.dumps({"max_seq_length": 32, "do_lower_case": False}) + "\n")


def make_encoder(name, folder):
    kind = name.split("_")[1]
    model = build(name, 3)
    save_model(model, folder)
    save_pooling(folder, kind, model.config.hidden_size)
    texts = [ids(n, model.config.vocab_size, 500 + n) for n in (3, 17, 32)]
    target = torch.randn(len(texts), model.config.hidden_size,
                         generator=torch.Generator().manual_seed(11))
    tensors, rows, loss = {"target": target}, [], 0.0
    uncached = {"use_cache": False} if kind == "last" else {}
    for i, text in enumerate(texts):
        body = getattr(model, "model", model)
        hidden = body(torch.tensor([text]), **uncached).last_hidden_state
        tensors[f"hidden.{i}"] = hidden[0].detach().contiguous()
        rows.append(pooled(hidden, kind))
        loss = loss + (rows[-1] * target[i]).sum()
    loss.backward()
    for n, p in model.named_parameters():
        if p.grad is not None:
            tensors["grad." + n] = p.grad.contiguous().clone()
    tensors["embedding"] = torch.stack(rows).detach().contiguous()
    return {"made_by": versions(), "texts": texts, "pooling": kind,
            "loss": loss.item(), "loss_is": "sum of embedding * target"}, tensors


def main():
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    for name in sys.argv[1:] or MODELS:
        folder = OUT / name
        make = make_encoder if name in ENCODERS else make_decoder
        golden, tensors = make(name, folder)
        safetensors.torch.save_file(tensors, folder / "golden.safetensors")
        (folder / "golden.json").write_text(json.dumps(golden) + "\n")
        print(f"{name}: loss {golden['loss']:.4f}"
              + (f", margin {golden['greedy_margin']:.4f}" if "greedy" in golden else ""))


if __name__ == "__main__":
    main()
