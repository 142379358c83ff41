#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a training step computes for a token is what the server says of it, bit for bit: the
log-probabilities that a job records for its rows, beside those of /v1/completions with echo. The base
is asked for the rows of the first step, whose adapter says nothing yet; a checkpoint for those of the
step behind it.

Faults they can catch: a row rendered, cut or masked otherwise than it is served; a kernel, a
rounding, an order of a sum or a chunk of the head that one side has and the other has not; an adapter
that is published with other bits than those that were trained; weights of eight bits, or of codes with
scales of scales, that are trained on as something else; a full training that changes what is served, or whose files are another model.

Standard library only."""
import json
import pathlib
import shutil
import struct
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "lib"))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from serving import Cases, Tandem, scratch  # noqa: E402
from test_tuning import ANN, KEYS, MODEL, Client  # noqa: E402

N_ROW = 10


def rows():
    for i in range(N_ROW):
        yield {"messages": [{"role": "user", "content": "a b " * (1 + i % 3) + f"{i}?"},
                            {"role": "assistant", "content": f"It is {i * 7 % 10}, {i}."}]}


def f32(x):
    return struct.pack("<f", x)


def preview(c, row):
    r = c.ask("POST", "/v1/fine_tuning/preview", {"row": row})
    assert r.status == 200, r
    return r.json["tokens"], r.json["weights"]


def served(c, model, row):
    """The log-probabilities of the row's trained tokens."""
    ids, weights = preview(c, row)
    r = c.ask("POST", "/v1/completions", {"model": model, "prompt": ids, "max_tokens": 0,
                                          "echo": True, "logprobs": 1})
    assert r.status == 200, r
    got = r.json["choices"][0]["logprobs"]["token_logprobs"]
    assert len(got) == len(ids)
    return [f32(x) for x, w in zip(got, weights) if w]


def recorded(c, job):
    """By step: example, and its log-probabilities."""
    text = c.get(f"/v1/files/{job['result_files'][1]}/content").body.decode()
    out = {}
    for line in text.splitlines()[1:]:
        step, _epoch, example, _n, n_learned, _loss, logprobs = line.split(",")
        logprobs = [f32(float(x)) for x in logprobs.split()]
        assert len(logprobs) == int(n_learned)
        out.setdefault(int(step), []).append((int(example), logprobs))
    return out


def train(c, **hyper):
    file = c.file("".join(json.dumps(r) + "\n" for r in rows()).encode())
    job = c.job(file, seed=5, method={"type": "supervised", "supervised": {"hyperparameters": {
        "n_epochs": 3, "learning_rate_multiplier": 30, "row_logprobs": True, **hyper}}})
    return c.done(job)


def same(c, model, step):
    data = list(rows())
    assert step, "nothing was recorded"
    for example, logprobs in step:
        got = served(c, model, data[example - 1])
        assert got == logprobs, (model, example, got, logprobs)
    return sum(len(x) for _, x in step)


def checkpoints(c, job):
    return {p["step_number"]: p["fine_tuned_model_checkpoint"]
            for p in c.get(f"/v1/fine_tuning/jobs/{job['id']}/checkpoints").json["data"]
            if ":ckpt-step-" in p["fine_tuned_model_checkpoint"]}  # the result has no step behind it


def adapters(c, **hyper):
    job = train(c, **hyper)
    log = recorded(c, job)
    n = same(c, "tiny", log[1])
    names = checkpoints(c, job)
    assert len(names) == 2 and max(names) + 1 in log, names
    for step, name in names.items():
        n += same(c, name, log[step + 1])
    first = list(rows())[log[1][0][0] - 1]
    assert served(c, names[max(names)], first) != served(c, "tiny", first)
    return f"{n} tokens"


def serve(tmp, model, *options):
    return Tandem(model, "--name", "tiny", "--api-key-file", tmp / "keys", "--data-dir",
                  tmp / "data", "--no-access-log", "--kv-memory", "8M", *options)


def full(tmp, cases):
    """The base is as it was; the files are the model that was trained."""
    with serve(tmp, MODEL) as s:
        c, said = Client(s, ANN), {}

        def trains():
            before = [served(c, "tiny", r) for r in rows()]
            job = train(c, training_type="full", batch_size=5)
            assert [served(c, "tiny", r) for r in rows()] == before
            assert c.say(job["fine_tuned_model"]).status == 404
            said.update(job=job, before=before, log=recorded(c, job))
            return f"{same(c, 'tiny', said['log'][1])} tokens"
        cases.run("full, base", trains)
    with serve(tmp, tmp / "data/models" / said["job"]["id"]) as s:
        c = Client(s, ANN)

        def answers():
            now = [served(c, "tiny", r) for r in rows()]
            mean = [sum(struct.unpack("<f", x)[0] for r in p for x in r) for p in (now, said["before"])]
            assert mean[0] > mean[1], mean
        cases.run("full, its files", answers)

        def goes():
            name = said["job"]["fine_tuned_model"]
            assert c.ask("DELETE", f"/v1/models/{name}").status == 200
            assert not (tmp / "data/models" / said["job"]["id"]).exists()
        cases.run("full, deleted", goes)


def packed(tmp):
    """The model, with one matrix in codes of four bits as compressed-tensors has them."""
    model = shutil.copytree(MODEL, tmp / "packed")
    data = (model / "model.safetensors").read_bytes()
    n = struct.unpack("<Q", data[:8])[0]
    head, body, at = json.loads(data[8:8 + n]), data[8 + n:], 0
    parts = {k: (v["dtype"], v["shape"], body[slice(*v["data_offsets"])]) for k, v in head.items()
             if k != "__metadata__"}
    name = "model.layers.0.self_attn.o_proj.weight"
    rows, cols = parts.pop(name)[1]
    parts[f"{name}_packed"] = "I32", [rows, cols // 8], bytes(range(rows)) * (cols // 2)
    parts[f"{name}_scale"] = "F32", [rows, cols // 16], f32(0.01) * (rows * cols // 16)
    parts[f"{name}_shape"] = "I64", [2], struct.pack("<qq", rows, cols)
    for k, (dtype, shape, piece) in parts.items():
        parts[k] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + len(piece)]}, piece
        at += len(piece)
    head = json.dumps({k: v for k, (v, _) in parts.items()}).encode()
    head += b" " * (-len(head) % 8)
    (model / "model.safetensors").write_bytes(
        struct.pack("<Q", len(head)) + head + b"".join(piece for _, piece in parts.values()))
    config = json.loads((model / "config.json").read_text())
    config["quantization_config"] = {"quant_method": "compressed-tensors", "format": "pack-quantized"}
    (model / "config.json").write_text(json.dumps(config))
    return model


class Gguf:
    """A GGUF file in its parts: the bytes of each value by its name, of the tensors' rows, of the tensors."""

    SIZES = (1, 1, 2, 2, 4, 4, 4, 1, None, None, 8, 8, 8)

    def __init__(self, data):
        self.data, self.at = data, 24
        self.n_tensor, n_value = struct.unpack("<QQ", data[8:24])
        self.values = dict(self.value() for _ in range(n_value))
        begin = self.at
        for _ in range(self.n_tensor):
            self.at += 8 + self.number("Q")
            self.at += 4 + 8 * self.number("I") + 4 + 8
        self.tensors, self.body = data[begin:self.at], data[-(-self.at // 32) * 32:]

    def number(self, kind):
        return struct.unpack_from("<" + kind, self.data, self.at)[0]

    def skip(self, kind):
        if kind == 9:
            kind, n = struct.unpack_from("<IQ", self.data, self.at)
            self.at += 12
            for _ in range(n):
                self.skip(kind)
        else:
            self.at += 8 + self.number("Q") if kind == 8 else self.SIZES[kind]

    def value(self):
        begin, n = self.at, self.number("Q")
        self.at += 8 + n
        kind = self.number("I")
        self.at += 4
        self.skip(kind)
        return self.data[begin + 8:begin + 8 + n].decode(), self.data[begin:self.at]

    def write(self, path):
        head = self.data[:8] + struct.pack("<QQ", self.n_tensor, len(self.values))
        head += b"".join(self.values.values()) + self.tensors
        path.write_bytes(head + b"\0" * (-len(head) % 32) + self.body)
        return path


def gguf_text(text):
    return struct.pack("<Q", len(text.encode())) + text.encode()


def nested(tmp):
    """Products of int4k, int5k and int6k, with a tokenizer of their 96 tokens, which are characters, and a template."""
    model = Gguf(pathlib.Path("tests/golden/gguf/nested.gguf").read_bytes())
    tokens = ["<pad>", "<s>", "</s>", "\u010a", "\u0120", "\u0120a"]
    tokens += [chr(i) for i in range(33, 127) if chr(i) not in "^`|~"]
    texts = {"model": "gpt2", "pre": "gpt-2"}
    lists = {"tokens": (8, list(map(gguf_text, tokens))), "merges": (8, [gguf_text("\u0120 a")]),
             "token_type": (5, [struct.pack("<i", 3 if i < 3 else 1) for i in range(len(tokens))])}
    values = {f"tokenizer.ggml.{k}": struct.pack("<I", 8) + gguf_text(v) for k, v in texts.items()}
    values.update({f"tokenizer.ggml.{k}": struct.pack("<IIQ", 9, kind, len(v)) + b"".join(v)
                   for k, (kind, v) in lists.items()})
    values["tokenizer.chat_template"] = struct.pack("<I", 8) + gguf_text(
        "{% for m in messages %}{{ m.role }}: {{ m.content }}{{ eos_token }}{% endfor %}"
        "{% if add_generation_prompt %}assistant: {% endif %}")
    model.values.update({k: gguf_text(k) + v for k, v in values.items()})
    return model.write(tmp / "nested.gguf")


def weighed(c):
    """What the rows' weights make of the first step's loss, of what the base says of their tokens."""
    weights = [(0.5, 1, 2, 3.25)[i % 4] for i in range(N_ROW)]
    data = [{**row, "weight": w} for row, w in zip(rows(), weights)]
    file = c.file("".join(json.dumps(r) + "\n" for r in data).encode())
    job = c.done(c.job(file, validation_file=file, method={"type": "supervised", "supervised": {
        "hyperparameters": {"n_epochs": 1, "batch_size": N_ROW}}}))
    loss = {i: [-struct.unpack("<f", x)[0] for x in served(c, "tiny", row)] for i, row in enumerate(data)}
    want = sum(w * sum(loss[i]) for i, w in enumerate(weights)) / sum(w * len(loss[i]) for i, w in enumerate(weights))
    first, = (e["data"] for e in c.get(f"/v1/fine_tuning/jobs/{job['id']}/events?limit=100").json["data"]
              if e["type"] == "metrics")
    assert abs(first["train_loss"] - want) < 2e-6, (first, want)
    shown = c.ask("POST", "/v1/fine_tuning/preview", {"row": data[3]}).json["weights"]
    assert set(shown) == {0, 3.25}, shown


def over_nested(tmp, *options):
    with serve(tmp, nested(tmp), *options) as s:
        return adapters(Client(s, ANN), batch_size=2)


def over_packed(tmp):
    """An adapter is trained; a whole model, which cannot be written, is refused."""
    with serve(tmp, packed(tmp)) as s:
        c = Client(s, ANN)
        said = adapters(c, batch_size=3)
        r = c.make(c.file("".join(json.dumps(r) + "\n" for r in rows()).encode()), method={
            "type": "supervised", "supervised": {"hyperparameters": {"training_type": "full"}}})
        assert r.status == 400 and "packed in few bits" in r.error["message"], r
        assert r.error["param"] == "method.supervised.hyperparameters.training_type", r
        return said


def over_files(tmp, name, *options):
    """The files of a tool that packs: an adapter over its codes."""
    with serve(tmp, f"tests/golden/models/packed_{name}", *options) as s:
        return adapters(Client(s, ANN), batch_size=3)


def main():
    cases = Cases()
    for what, options, hyper in (
            ("f32", (), {"batch_size": 1}),
            ("bf16", ("--quantize", "bf16"), {"batch_size": 4, "use_rslora": True}),
            ("dora", ("--quantize", "bf16"), {"batch_size": 3, "use_dora": True}),
            ("dora, int4, codes multiplied, eager",
             ("--quantize", "int4", "--compute", "int8", "--mode", "eager"),
             {"batch_size": 2, "use_dora": True, "activation_checkpointing": "on"}),
            ("lm_head and table", ("--quantize", "bf16"),
             {"batch_size": 3, "modules_to_save": ["lm_head", "embed_tokens"]}),
            ("lm_head, f32, eager", ("--quantize", "f32", "--mode", "eager"),
             {"batch_size": 2, "modules_to_save": ["lm_head"]}),
            ("table, keys of int8", ("--quantize", "bf16", "--kv-type", "int8"),
             {"batch_size": 2, "modules_to_save": ["embed_tokens"], "activation_checkpointing": "on"}),
            ("f16", ("--quantize", "f16"), {"batch_size": 3}),
            ("two ranks, f16", ("--tp", "2", "--quantize", "f16"), {"batch_size": 2}),
            ("f16, keys of bf16, eager", ("--quantize", "f16", "--kv-type", "bf16", "--mode", "eager"),
             {"batch_size": 2, "activation_checkpointing": "on"}),
            ("keys of int8", ("--quantize", "bf16", "--kv-type", "int8"), {"batch_size": 3}),
            ("two ranks, keys of int8, eager",
             ("--tp", "2", "--quantize", "f32", "--kv-type", "int8", "--mode", "eager"),
             {"batch_size": 2, "activation_checkpointing": "on"}),
            ("two ranks", ("--tp", "2", "--quantize", "f32"), {"batch_size": 4}),
            ("two ranks, bf16", ("--tp", "2", "--quantize", "bf16"), {"batch_size": 1}),
            ("int8", ("--quantize", "int8"),
             {"batch_size": 3, "target_modules": ["q_proj", "v_proj", "down_proj"],
              "activation_checkpointing": "on"}),
            ("int4", ("--quantize", "int4"), {"batch_size": 2}),
            ("int4, codes multiplied", ("--quantize", "int4", "--compute", "int8"), {"batch_size": 3}),
            ("two ranks, int8, codes multiplied",
             ("--tp", "2", "--quantize", "int8", "--compute", "int8"), {"batch_size": 2})):
        with scratch() as tmp:
            (tmp / "keys").write_text(KEYS)
            (tmp / "keys").chmod(0o600)
            with serve(tmp, MODEL, *options) as s:
                c = Client(s, ANN)
                cases.run(what, lambda: adapters(c, **hyper))
                is_told = "exact products of codes" in s.said()  # the start names what is faster
                assert is_told == (what in ("int8", "int4")), s.said()
                if what == "f32":
                    cases.run("row weights", lambda: weighed(c))
    with scratch() as tmp:
        (tmp / "keys").write_text(KEYS)
        (tmp / "keys").chmod(0o600)
        full(tmp, cases)
    for what, over in (("packed base", over_packed), ("int4k and int6k", over_nested),
                       ("int4k and int6k, codes multiplied",
                        lambda tmp: over_nested(tmp, "--compute", "int8"))):
        with scratch() as tmp:
            (tmp / "keys").write_text(KEYS)
            (tmp / "keys").chmod(0o600)
            cases.run(what, lambda: over(tmp))
    for name, *options in (("gptq",), ("gptq_order",), ("gptq_act",), ("gptq_act", "--tp", "2", "--compute", "int8"),
                           ("awq",), ("fp8",), ("w8a8",), ("mxfp4",), ("nf4",)):
        with scratch() as tmp:
            (tmp / "keys").write_text(KEYS)
            (tmp / "keys").chmod(0o600)
            cases.run(" ".join((f"packed_{name}", *options)), lambda: over_files(tmp, name, *options))
    return cases.end()


if __name__ == "__main__":
    sys.exit(main())
