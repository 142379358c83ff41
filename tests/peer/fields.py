#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Each field of each family's config.json at other values, and left out: what transformers and this program make of it.

    tests/peer/fields.py [--only NAME,...] [--field TEXT] [--all]

NAME is a tiny model of tests/golden/make_models.py or make_encoders.py. For each field of its config (of
rope_parameters, of a text_config, and each value of lists; and of a text_config what else the outer level could say of
it) a model with another value is made: where transformers takes it, what it makes of a text is held against this
program's: log-probabilities, an encoder's vector, a classifier's numbers. The program may also refuse the directory,
in words that have a field's name. What is listed is a fault: DIFFERS (it has other numbers), UNNAMED (it refuses, and
names no field). --all lists what was good, too. A line for each model counts, and the last one for all.

Needs build/release/tests/tools/prompt_scores, which `make` builds by that name, torch, and transformers 5.24.
An hour of a free core for all.
"""
import argparse
import collections
import contextlib
import copy
import json
import math
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import warnings

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "lib"), str(HERE.parent / "golden")]
import serving  # noqa: E402

TEXT = 40  # tokens: longer than any window here
TEXT_SHORT = 34  # of encoders, some of which take no more
PARAMS_MAX = 3_000_000
NEAR = 2e-3  # of log-probabilities in f32, and of vectors; a change of the arithmetic is far above
# What says nothing of the arithmetic: names of classes and labels, what training alone reads, what of a run is kept.
ASIDE = re.compile(r"^_|architectures|model_type|transformers_version|^dtype$|torch_dtype|id2label|label2id|problem_type|"
                   r"return_dict|output_|chunk_size_feed_forward|use_cache|initializer|dropout|_pdrop|tokenizer_class|"
                   r"task_specific|is_encoder_decoder|pretraining_tp|keys_to_ignore|sub_configs|name_or_path|aux_loss|"
                   r"(?<!^pad)_token_id$|summary_|use_kernels|z_loss|quantization|vision_config|num_labels")
ACTS = ["silu", "gelu", "gelu_pytorch_tanh", "gelu_new", "relu"]
WORDS = {"layer_types": ["full_attention", "sliding_attention", "chunked_attention", "linear_attention", "conv"],
         "mlp_layer_types": ["dense", "sparse"],
         "topk_method": ["greedy", "group_limited_greedy", "noaux_tc"], "scoring_func": ["softmax", "sigmoid"],
         "position_embedding_type": ["rope", "nope", "absolute", "relative_key"]}
MROPE = {"mrope_section": [2, 1, 1], "mrope_interleaved": True}
ROPES = [{"rope_type": "default"}, {"rope_type": "linear", "factor": 3.0}, {"rope_type": "dynamic", "factor": 3.0},
         {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16},
         {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
          "original_max_position_embeddings": 16},
         {"rope_type": "proportional", "partial_rotary_factor": 0.5}]
SUB = {"yarn": {"beta_fast": 8.0, "beta_slow": 2.0, "attention_factor": 1.3, "mscale": 0.8, "mscale_all_dim": 0.6, "truncate": False},
       "default": {"partial_rotary_factor": 0.5, "mscale": 0.8, "llama_4_scaling_beta": 0.2, "attention_factor": 1.3},
       "linear": {"partial_rotary_factor": 0.5, "attention_factor": 1.3},
       "dynamic": {"partial_rotary_factor": 0.5}}


def parse():
    p = argparse.ArgumentParser(description="each field of a config at other values")
    p.add_argument("--only", default="")
    p.add_argument("--field", default="", help="only those whose name has this")
    p.add_argument("--all", action="store_true")
    return p.parse_args()


# ---- other values -----------------------------------------------------------------------------


def others(key, value):
    """Values that a field could have instead."""
    name = key.rsplit(".", 1)[-1]
    if isinstance(value, bool):
        return [not value]
    if isinstance(value, int):
        return [value + 1, value * 2, max(value // 2, 0)] + ([None] if "window" in name else [])
    if isinstance(value, float):
        return [value * 1.5 + 0.1, 0.0] if math.isfinite(value) else []
    if isinstance(value, str):
        return [w for w in (ACTS if "act" in name else WORDS.get(name, [])) if w != value]
    if isinstance(value, list) and value and isinstance(value[0], str):
        return [[w] + value[1:] for w in WORDS.get(name, []) if w != value[0]] + [[w] * len(value) for w in WORDS.get(name, [])]
    if isinstance(value, list) and value:
        return [value[::-1], value[:-1] + [x if x != value[-1] else value[-1] + 1 for x in (value[0],)]]
    if value is None:
        return [1, 2, 0.5, True] + (ACTS if name.endswith("_act") else [])
    return []


def ropes(value):
    """Of rope_parameters, whole ones: (what is changed, the parameters)."""
    if any(isinstance(x, dict) for x in value.values()):  # by kinds of layers
        for kind, of in value.items():
            for word, rope in ropes(of) if isinstance(of, dict) else []:
                yield f"{kind}.{word}", value | {kind: rope}
        return
    kept = {k: value[k] for k in ("rope_theta", "partial_rotary_factor", *MROPE) if k in value}
    for key, x in value.items():
        for other in others(key, x):
            yield key, value | {key: other}
    for rope in ROPES:
        yield f"rope_type={rope['rope_type']}", kept | rope
        for key, x in SUB.get(rope["rope_type"], {}).items():
            yield key, kept | rope | {key: x}
    for n in (4, 5, 7, 8):  # as many as there are pairs that turn
        yield "rope_type=longrope", kept | {"rope_type": "longrope", "original_max_position_embeddings": 24, "factor": 2.0,
                                            "short_factor": [1 + i / 10 for i in range(n)],
                                            "long_factor": [1 + i / 2 for i in range(n)]}


def earlier(base):
    """The spelling before rope_parameters: (what is said, the config)."""
    now = base.get("rope_parameters")
    if not now or any(isinstance(x, dict) for x in now.values()):
        return
    rest = {k: v for k, v in base.items() if k != "rope_parameters"} | {"rope_theta": now["rope_theta"]}
    rest |= {k: now[k] for k in ("partial_rotary_factor",) if k in now}
    for rope in ROPES:
        kind = "type" if rope["rope_type"] == "yarn" else "rope_type"
        scaling = {kind: rope["rope_type"]} | {k: v for k, v in rope.items() if k != "rope_type"}
        yield "rope_scaling", scaling, rest | {"rope_scaling": scaling}
        if "original_max_position_embeddings" in rope:
            yield "original_max_position_embeddings", scaling, rest | {"rope_scaling": scaling, "original_max_position_embeddings": 24}
    yield "partial_rotary_factor", 0.5, rest | {"partial_rotary_factor": 0.5}
    yield "rope_theta", 500.0, rest | {"rope_theta": 500.0}


def outer(base):
    """What a model around a text model could say of that on its own level, and the text_config alone."""
    for key, value in base["text_config"].items():
        for other in [] if ASIDE.search(key) or key in base else [x for x in others(key, value) if x is not None][:1]:
            yield f"outer {key}", other, base | {key: other}
    for key, now, fields in variants(base["text_config"]):
        if key != "as it is":
            yield f"text_config.{key}", now, base | {"text_config": fields}


def variants(base):
    """(field, what it is now, config as a dict)."""
    yield "as it is", "", base
    yield from earlier(base)
    if "text_config" in base:
        yield from outer(base)
    for key, value in base.items():
        if ASIDE.search(key):
            continue
        if key == "rope_parameters" and value:
            for word, rope in ropes(value):
                yield f"{key}.{word}", rope, base | {key: rope}
            yield key, "left out", {k: v for k, v in base.items() if k != key}
            continue
        for other in others(key, value):
            yield key, other, base | {key: other}
        yield key, "left out", {k: v for k, v in base.items() if k != key}


# ---- the two ----------------------------------------------------------------------------------


def log_probabilities(tools, model, ids):
    p = tools.forward(model, ids).log_softmax(-1)
    return [p[i, t].item() for i, t in enumerate(ids[1:])]


def vector_of(pool):
    """Of an encoder, whose files say how it pools."""
    def of(tools, model, ids):
        import torch

        body = getattr(model, "model", model)
        hidden = body(torch.tensor([ids]), **({"use_cache": False} if pool == "last" else {})).last_hidden_state[0]
        return {"cls": hidden[0], "last": hidden[-1], "mean": hidden.mean(0)}[pool].tolist()
    return of


def labels(tools, model, ids):
    import torch

    return model(torch.tensor([ids])).logits[0].tolist()


class Kind:
    """A tiny model, and what is held against what."""

    def __init__(self, make, numbers=log_probabilities, pool=None):
        self.make, self.numbers, self.pool = make, numbers, pool
        self.text = TEXT if numbers is log_probabilities else TEXT_SHORT


def kinds(tools, encoders):
    """By name."""
    found = {n: Kind(make) for n, make in tools.MODELS.items() if n not in tools.ENCODERS}
    vectors = {n: tools.MODELS[n] for n in tools.ENCODERS} | encoders.ENCODERS
    pools = {n: n.split("_")[-1] for n in vectors}
    found |= {n: Kind(make, vector_of(pools[n]), pools[n]) for n, make in vectors.items()}
    return found | {n: Kind(make, labels) for n, make in encoders.CLASSIFIERS.items()}


def save_pool(path, pool):
    """As it comes from the pooling: where all is normed, little is seen of what differs."""
    types = {"Transformer": "", "Pooling": "1_Pooling"}
    (path / "modules.json").write_text(json.dumps([
        {"idx": i, "name": str(i), "path": at, "type": "sentence_transformers.models." + t} for i, (t, at) in enumerate(types.items())]))
    (path / "1_Pooling").mkdir()
    (path / "1_Pooling/config.json").write_text(json.dumps({"pooling_mode": "lasttoken" if pool == "last" else pool}))


def made(tools, kind, of, config_kind, fields, path):
    """transformers' model of it, saved: what it makes of a text. None: transformers has none such."""
    import torch

    config = config_kind.from_dict(copy.deepcopy(fields))
    config._attn_implementation = config._experts_implementation = "eager"
    with torch.device("meta"):
        n = sum(p.numel() for p in of(copy.deepcopy(config)).parameters())
    if n > PARAMS_MAX:
        return None
    model = of(config).float().eval()
    tools.draw(model, 5)
    ids = tools.ids(kind.text, min(config.get_text_config().vocab_size, 170), 9)
    with torch.no_grad():
        numbers = kind.numbers(tools, model, ids)
    if not all(math.isfinite(x) for x in numbers):
        return None
    tools.save_model(model, path)
    if kind.pool:
        save_pool(path, kind.pool)
    return ids, numbers, {k: tuple(t.shape) for k, t in model.state_dict().items()}


class Scores:
    """tests/tools/prompt_scores, which reads one model after the other."""

    def __init__(self):
        self.start()

    def start(self):
        self.process = subprocess.Popen([serving.BUILD / "tests/tools/prompt_scores"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def of(self, path, ids):
        """Log-probabilities, or the words of a refusal."""
        self.process.stdin.write(" ".join(map(str, [path, *ids])) + "\n")
        self.process.stdin.flush()
        word, _, rest = self.process.stdout.readline().partition(" ")
        if not word:
            self.start()
            return "CRASHED"
        return [float(x) for x in rest.split()] if word == "ok" else rest.strip()


def told(key, fields, words):
    """Whether a refusal has the name of a field: of the one that was changed, of one that it does not go with, or of
    the one in which a config has to say it now."""
    names = {key.rsplit(".", 1)[-1].split("=")[0], key.split(".")[0], key.split()[-1], "rope_type", "rope_parameters",
             *fields, *fields.get("text_config", {})}
    return any(re.search(rf"\b{n}\b", words) for n in names)


def judged(key, fields, got, want, changes):
    if isinstance(got, str):
        words = got.split(": ", 1)[-1]  # behind the directory
        if told(key, fields, words):
            return ("refused" if changes else "refused, though neutral"), words
        return "UNNAMED", words
    far = max(abs(a - b) for a, b in zip(got, want)) if len(got) == len(want) else math.inf
    return ("DIFFERS" if not far < NEAR else "served" if changes else "served, neutral"), f"{far:.1e}"


def write_config(path, fields):
    """What transformers was given stands in the file, not what it makes of it."""
    file = path / "config.json"
    saved = json.loads(file.read_text())
    own = [k for k in saved if k in ("architectures", "model_type", "dtype") or "Infinity" in json.dumps(fields.get(k), default=str)]
    file.write_text(json.dumps(fields | {k: saved[k] for k in own}, default=str))


def audit(a, tools, name, kind, count, scores):
    try:
        of, config = kind.make()
    except Exception as fault:
        print(f"{name}: transformers: {fault}")
        return
    base, first = config.to_dict(), None
    base = {k: v for k, v in base.items() if v is not None or not ASIDE.search(k)}
    with tempfile.TemporaryDirectory() as tmp:
        for i, (key, now, fields) in enumerate(variants(base)):
            if (a.field not in key and key != "as it is") or ("position" in key and isinstance(now, int) and now < TEXT):
                continue
            path = pathlib.Path(tmp) / str(i)
            try:
                with contextlib.redirect_stderr(None):
                    made_ = made(tools, kind, of, type(config), fields, path)
            except Exception:  # no valid value, as its own classes have it
                made_ = None
            if not made_:
                count["transformers has none"] += 1
                continue
            write_config(path, fields)
            ids, want, shapes = made_
            first = first or (want, shapes)
            changes = shapes != first[1] or max(abs(x - y) for x, y in zip(want, first[0])) > 1e-4
            verdict, words = judged(key, fields, scores.of(path, ids), want, changes)
            shutil.rmtree(path)
            count[verdict] += 1
            if verdict.isupper() or a.all:
                print(f"{verdict:8} {name}: {key} = {json.dumps(now)}: {words}", flush=True)


def said(count):
    return ", ".join(f"{n} {k}" for k, n in sorted(count.items()))


def main():
    a = parse()
    warnings.filterwarnings("ignore")
    import transformers
    import make_encoders as encoders
    import make_models as tools

    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    llama = tools.llama
    tools.llama = lambda **kw: llama(**({"hidden_size": 60} | kw))  # later classes want a multiple of the heads
    all_kinds, count, scores = kinds(tools, encoders), collections.Counter(), Scores()
    for name in a.only.split(",") if a.only else all_kinds:
        own = collections.Counter()
        audit(a, tools, name, all_kinds[name], own, scores)
        print(f"{name}: {said(own)}", flush=True)
        count += own
    print(said(count), flush=True)
    return 1 if any(k.isupper() for k in count) else 0


if __name__ == "__main__":
    sys.exit(main())
