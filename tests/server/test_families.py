#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A tiny model of each later family over HTTP: a chat, a job that tunes it, and the tuned model asked.
The configs are those of tests/golden/models, with a context and a vocabulary for a tokenizer of any text;
that their numbers are right the goldens say. Of models that give vectors: whole ones, and ones cut short.
A model of bge-m3's kind with its own tokenizer is held to transformers' vectors of texts.

Faults they can catch: a family that loads and cannot be chatted with, or whose adapter is not trained,
published or served; a scored token that is not the sampled one's; an image that is passed over; a vector
cut without its length.

Standard library only."""
import array
import json
import math
import pathlib
import random
import shutil
import struct
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "lib"))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from serving import Cases, Tandem, make_model, scratch  # noqa: E402
from test_tuning import Client  # noqa: E402

GOLDEN = pathlib.Path("tests/golden/models")
WRITERS = ("olmo2", "smollm3", "granite", "gemma2", "gemma3_scaled", "phi3", "phi3_longrope",
           "gemma3_vision", "llava", "qwen3_moe", "mixtral", "olmoe", "gpt_oss", "deepseek_v2_groups", "deepseek_v3", "mistral4", "lfm2",
           "qwen3_5", "qwen3_5_vision", "qwen3_5_moe",
           "qwen3_5_moe_vision", "qwen3_next", "qwen2_moe", "granite_hybrid",
           "gemma4", "gemma4_wide", "gemma4_experts", "gemma4_vision",
           "gemma3n")
CTX = 320
ROWS = "".join(json.dumps({"messages": [{"role": "user", "content": f"Say {i}"},
                                        {"role": "assistant", "content": "b a b a"}]}) + "\n"
               for i in range(10)).encode()


def read_tensors(path):
    """name -> (shape, numbers) of a file in f32."""
    data = path.read_bytes()
    n = struct.unpack("<Q", data[:8])[0]
    tensors = {}
    for name, t in json.loads(data[8:8 + n]).items():
        if name != "__metadata__":
            lo, hi = t["data_offsets"]
            tensors[name] = t["shape"], array.array("f", data[8 + n + lo:8 + n + hi])
    return tensors


def read_names(path):
    data = path.read_bytes()
    return [n for n in json.loads(data[8:8 + struct.unpack("<Q", data[:8])[0]]) if n != "__metadata__"]


def write_tensors(path, tensors):
    header, at = {"__metadata__": {"format": "pt"}}, 0
    for name, (shape, x) in tensors.items():
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [at, at + 4 * len(x)]}
        at += 4 * len(x)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text
                     + b"".join(x.tobytes() for _, x in tensors.values()))


def grown(shape, x, n):
    """Rows of a table of tokens for n of them: the golden's, and random ones of their size."""
    draw, size = random.Random(7), math.sqrt(sum(v * v for v in x) / len(x))
    return [n, shape[1]], x + array.array("f", (draw.gauss(0, size)
                                                for _ in range((n - shape[0]) * shape[1])))


def family(tmp, name, tokenizer):
    """The golden's model in a folder of its own, with the files of `tokenizer` beside it."""
    folder = tmp / name
    folder.mkdir()
    for file in tokenizer.iterdir():
        if file.name not in ("config.json", "model.safetensors", "generation_config.json"):
            (folder / file.name).write_bytes(file.read_bytes())
    vocab = json.loads((folder / "tokenizer.json").read_text(encoding="utf-8"))
    n = 1 + max([*vocab["model"]["vocab"].values(), *(t["id"] for t in vocab["added_tokens"])])
    config = json.loads((GOLDEN / name / "config.json").read_text(encoding="utf-8"))
    text = config.get("text_config", config)
    old = text["vocab_size"]
    text["vocab_size"] = max(n, old)
    if "vocab_size_per_layer_input" in text:
        text["vocab_size_per_layer_input"] = text["vocab_size"]
    if "rope_theta" in text or "rope_parameters" in text:
        text["max_position_embeddings"] = CTX
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    tensors = read_tensors(GOLDEN / name / "model.safetensors")
    for key, (shape, x) in tensors.items():
        if shape[0] == old and len(shape) == 2:
            tensors[key] = grown(shape, x, text["vocab_size"])
    write_tensors(folder / "model.safetensors", tensors)
    for file in (GOLDEN / name).glob("*_Pooling/config.json"):
        (folder / file.parent.name).mkdir()
        (folder / file.parent.name / file.name).write_bytes(file.read_bytes())
    for file in ("modules.json", "sentence_bert_config.json"):
        if (GOLDEN / name / file).exists():
            (folder / file).write_bytes((GOLDEN / name / file).read_bytes())
    return folder


def chat(c, model, content="a b"):
    return c.ask("POST", "/v1/chat/completions",
                 {"model": model, "messages": [{"role": "user", "content": content}], "max_tokens": 6,
                  "temperature": 0, "logprobs": True, "ignore_eos": True})


def tokens(reply):
    assert reply.status == 200, reply
    said = reply.json["choices"][0]["logprobs"]["content"]
    assert len(said) == 6 and all(t["logprob"] <= 0 for t in said), reply
    return [(t["token"], t["logprob"]) for t in said]


def chats_and_tunes(tmp, name, tokenizer):
    with Tandem(family(tmp, name, tokenizer), "--data-dir", tmp / f"{name}-data", "--name", "tiny") as s:
        c = Client(s, {})
        base = tokens(chat(c, "tiny"))
        assert tokens(chat(c, "tiny")) == base
        seen = chat(c, "tiny", [{"type": "text", "text": "a"},
                                {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}}])
        assert seen.status == 400 and "image_url" in seen.error["message"], seen
        job = c.done(c.job(c.file(ROWS), hyperparameters={"n_epochs": 2, "batch_size": 2,
                                                          "learning_rate_multiplier": 20}))
        tuned = tokens(chat(c, job["fine_tuned_model"]))
        assert [p for _, p in tuned] != [p for _, p in base], tuned
        assert tokens(chat(c, "tiny")) == base


def adapts_experts(tmp, name, tokenizer):
    """Faults: adapters of experts that are trained and not served, or not found again by the next server; a
    target that is passed over; dropout that no expert has."""
    folder, data = family(tmp, name, tokenizer), tmp / f"{name}-data"
    hyper = {"n_epochs": 2, "batch_size": 2, "learning_rate_multiplier": 20, "target_modules": "experts"}
    with Tandem(folder, "--data-dir", data, "--name", "tiny") as s:
        c = Client(s, {})
        base = tokens(chat(c, "tiny"))
        r = c.make(c.file(ROWS), hyperparameters={**hyper, "lora_dropout": 0.1})
        assert r.status == 400 and r.error["param"].endswith("target_modules"), r
        job = c.done(c.job(c.file(ROWS), hyperparameters=hyper))
        tuned = tokens(chat(c, job["fine_tuned_model"]))
        assert [p for _, p in tuned] != [p for _, p in base] and tokens(chat(c, "tiny")) == base, tuned
    names = [n for f in data.rglob("adapter_model.safetensors") for n in read_names(f)]
    assert names and all(".experts." in n for n in names), names
    with Tandem(folder, "--data-dir", data, "--name", "tiny") as s:
        assert tokens(chat(Client(s, {}), job["fine_tuned_model"])) == tuned


def vectors(s, **more):
    r = s.post("/v1/embeddings", {"model": "tiny", "input": ["a b c", "d e"], **more})
    assert r.status == 200, r
    return [v["embedding"] for v in r.json["data"]]


def near(a, b):
    return len(a) == len(b) and all(abs(x - y) < 1e-5 for x, y in zip(a, b))


def embeds(tmp, name, tokenizer):
    with Tandem(family(tmp, name, tokenizer), "--name", "tiny") as s:
        whole = vectors(s)
        assert len(whole) == 2 and near([sum(x * x for x in v) for v in whole], [1, 1]), whole
        for v, cut in zip(whole, vectors(s, dimensions=5)):
            size = math.sqrt(sum(x * x for x in v[:5]))
            assert near(cut, [x / size for x in v[:5]]), (v, cut)
        assert vectors(s, dimensions=len(whole[0])) == whole
        r = s.post("/v1/embeddings", {"model": "tiny", "input": "a", "dimensions": len(whole[0]) + 1})
        assert r.status == 400 and r.error["param"] == "dimensions", r
        r = s.post("/v1/completions", {"model": "tiny", "prompt": "a"})
        assert r.status == 400 and "This model is an encoder" in r.error["message"], r


def embeds_text(tmp):
    """Fault: a text's vector is not the one that its model has in transformers: tokenizer, markers, pooling."""
    golden, folder = pathlib.Path("tests/golden"), tmp / "bge_m3"
    shutil.copytree(golden / "encoder" / "bge_m3", folder)
    shutil.copy(golden / "tokenizer" / "xlmr.json", folder / "tokenizer.json")
    want = json.loads((golden / "encoder" / "bge_m3.vectors.json").read_text(encoding="utf-8"))
    with Tandem(folder, "--name", "tiny") as s:
        for text, vector in zip(want["texts"], want["vectors"]):
            r = s.post("/v1/embeddings", {"model": "tiny", "input": text})
            assert r.status == 200 and near(r.json["data"][0]["embedding"], vector), (text, r)


def embeds_with_prompts(tmp):
    """Faults: a prompt that is passed over, or put before ids; one that holds though nobody asked for it."""
    golden, folder = pathlib.Path("tests/golden"), tmp / "prompts"
    shutil.copytree(golden / "encoder" / "bge_m3", folder)
    shutil.copy(golden / "tokenizer" / "xlmr.json", folder / "tokenizer.json")
    prompts = {"prompts": {"query": "the old ", "document": ""}, "default_prompt_name": None}

    def vector(s, text, **more):
        r = s.post("/v1/embeddings", {"input": text, **more})
        assert r.status == 200, r
        return r.json["data"][0]["embedding"]

    (folder / "config_sentence_transformers.json").write_text(json.dumps(prompts))
    with Tandem(folder, "--name", "tiny") as s:
        plain, whole = vector(s, "light"), vector(s, "the old light")
        assert plain != whole and vector(s, "light", prompt_name="query") == whole
        assert vector(s, "light", prompt_name="document") == plain
        for body in ({"input": "a", "prompt_name": "other"}, {"input": [4, 5], "prompt_name": "query"}):
            r = s.post("/v1/embeddings", body)
            assert r.status == 400 and r.error["param"] == "prompt_name", r
        assert "query, document" in s.post("/v1/embeddings", {"input": "a", "prompt_name": "other"}).error["message"]
    (folder / "config_sentence_transformers.json").write_text(
        json.dumps({**prompts, "default_prompt_name": "query"}))
    with Tandem(folder, "--name", "tiny") as s:
        assert vector(s, "light") == whole and vector(s, "light", prompt_name="document") == plain


def main():
    cases = Cases()
    with scratch() as tmp:
        bytes_of = make_model(tmp / "bytes", "--family", "llama")
        words_of = make_model(tmp / "words", "--family", "bert")
        for name in WRITERS:
            cases.run(name, lambda name=name: chats_and_tunes(tmp, name, bytes_of))
        for name in ("qwen3_moe", "mixtral", "gpt_oss", "gemma4_experts"):
            (tmp / "experts" / name).mkdir(parents=True)
            cases.run(f"{name}: experts", lambda name=name: adapts_experts(tmp / "experts" / name, name, bytes_of))
        cases.run("qwen3_last", lambda: embeds(tmp, "qwen3_last", bytes_of))
        cases.run("xlmr_cls", lambda: embeds(tmp, "xlmr_cls", words_of))
        cases.run("bge_m3", lambda: embeds_text(tmp))
        cases.run("prompts", lambda: embeds_with_prompts(tmp))
    return cases.end()


if __name__ == "__main__":
    sys.exit(main())
