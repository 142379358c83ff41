#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a training step computes for a token is what the server says of it, bit for bit: the
log-probabilities that a job records for its rows, beside those of /v1/completions with echo. The base
is asked for the rows of the first step, whose adapter says nothing yet; a checkpoint for those of the
step behind it.

Faults they can catch: a row rendered, cut or masked otherwise than it is served; a kernel, a
rounding, an order of a sum or a chunk of the head that one side has and the other has not; an adapter
that is published with other bits than those that were trained; weights of eight bits that are trained
on as something else; a full training that changes what is served, or whose files are another model.

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


def over_packed(tmp):
    """An adapter is trained; a whole model, which cannot be written, is refused before its first step."""
    with serve(tmp, packed(tmp)) as s:
        c = Client(s, ANN)
        said = adapters(c, batch_size=3)
        file = c.file("".join(json.dumps(r) + "\n" for r in rows()).encode())
        job = c.wait(c.job(file, method={"type": "supervised", "supervised": {"hyperparameters": {
            "training_type": "full"}}}))
        assert job["status"] == "failed" and "packed in few bits" in job["error"]["message"], job
        events = c.get(f"/v1/fine_tuning/jobs/{job['id']}/events").json["data"]
        assert not any(e["type"] == "metrics" for e in events), events
        return said


def main():
    cases = Cases()
    for what, options, hyper in (
            ("f32", (), {"batch_size": 1}),
            ("bf16", ("--quantize", "bf16"), {"batch_size": 4, "use_rslora": True}),
            ("f16", ("--quantize", "f16"), {"batch_size": 3}),
            ("two ranks, f16", ("--tp", "2", "--quantize", "f16"), {"batch_size": 2}),
            ("f16, keys of bf16, eager", ("--quantize", "f16", "--kv-type", "bf16", "--mode", "eager"),
             {"batch_size": 2, "activation_checkpointing": "on"}),
            ("two ranks", ("--tp", "2", "--quantize", "f32"), {"batch_size": 4}),
            ("two ranks, bf16", ("--tp", "2", "--quantize", "bf16"), {"batch_size": 1}),
            ("int8", ("--quantize", "int8"),
             {"batch_size": 3, "target_modules": ["q_proj", "v_proj", "down_proj"],
              "activation_checkpointing": "on"}),
            ("int4", ("--quantize", "int4"), {"batch_size": 2})):
        with scratch() as tmp:
            (tmp / "keys").write_text(KEYS)
            (tmp / "keys").chmod(0o600)
            with serve(tmp, MODEL, *options) as s:
                c = Client(s, ANN)
                cases.run(what, lambda: adapters(c, **hyper))
    with scratch() as tmp:
        (tmp / "keys").write_text(KEYS)
        (tmp / "keys").chmod(0o600)
        full(tmp, cases)
    with scratch() as tmp:
        (tmp / "keys").write_text(KEYS)
        (tmp / "keys").chmod(0o600)
        cases.run("packed base", lambda: over_packed(tmp))
    return cases.end()


if __name__ == "__main__":
    sys.exit(main())
