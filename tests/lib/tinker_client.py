# SPDX-License-Identifier: Apache-2.0
"""Tinker's API by plain HTTP: messages of protocol buffers as far as its passes and samples need them,
and a client that asks again as its SDK does, whatever becomes of the server meanwhile. Standard
library only."""
import array
import contextlib
import http.client
import json
import struct
import time


def varint(n):
    out = b""
    while n >= 0x80:
        out, n = out + bytes([n & 0x7F | 0x80]), n >> 7
    return out + bytes([n])


def field(number, value):
    """Bytes, a text, an integer or a float as a field of a message."""
    if isinstance(value, float):
        return varint(number << 3 | 1) + struct.pack("<d", value)
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    value = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(value)) + value


def fields(data):
    """(number, value) of each: bytes, or an integer, or a float of 8 bytes."""
    at = 0

    def number():
        nonlocal at
        n = shift = 0
        while True:
            byte = data[at]
            at, n, shift = at + 1, n | (byte & 0x7F) << shift, shift + 7
            if byte < 0x80:
                return n
    while at < len(data):
        key = number()
        if key & 7 == 0:
            yield key >> 3, number()
        elif key & 7 == 1:
            yield key >> 3, struct.unpack_from("<d", data, at)[0]
            at += 8
        else:
            n = number()
            yield key >> 3, data[at:at + n]
            at += n


def tensor(values, kind):
    """kind: f or q, as array has it."""
    return field(1, array.array(kind, values).tobytes()) + field(3, 1 if kind == "f" else 2) \
        + field(4, varint(len(values)))


def datum(ids, targets, **inputs):
    out = field(1, field(1, field(1, array.array("i", ids).tobytes())))
    for name, values in {"target_tokens": targets, **inputs}.items():
        kind = "q" if name == "target_tokens" else "f"
        out += field(2, field(1, name) + field(2, tensor(values, kind)))
    return out


def pass_body(model, seq, rows, loss="cross_entropy", forward_only=False, **config):
    out = field(1, model) + field(2, seq) + field(4, loss)
    out += b"".join(field(3, row) for row in rows)
    for name, x in config.items():
        out += field(5, field(1, name) + field(2, float(x)))
    return out + (field(6, 1) if forward_only else b"")


def read_pass(data):
    """metrics, and the log-probabilities of each row as bytes."""
    metrics, rows = {}, []
    for number, value in fields(data):
        if number == 3:
            entry = dict(fields(value))
            metrics[entry[1].decode()] = entry.get(2, 0.0)
        if number == 2:
            (_, entry), = [f for f in fields(value) if f[0] == 2]
            bt = dict(fields(dict(fields(entry))[2]))
            at = array.array("q", bt[2])
            rows = [bytes(bt[1][at[i]:at[i + 1]]) for i in range(len(at) - 1)]
    return metrics, rows


def read_sample(data):
    """[(tokens, logprobs, why)] and the prompt's logprobs, bytes alike."""
    said, prompt = [], b""
    for number, value in fields(data):
        if number == 1:
            one = dict(fields(value))
            said.append((list(array.array("i", one.get(2, b""))), bytes(one.get(3, b"")), one.get(1, 0)))
        if number == 2:
            prompt = bytes(value)
    return said, prompt


def floats(data):
    return list(array.array("f", data))


class Failed(Exception):
    """What a request came to that failed."""

    def __init__(self, said):
        super().__init__(f"{said['category']}: {said['error']}")
        self.category, self.error = said["category"], said["error"]


class Refused(Exception):
    """A request that was not taken."""

    def __init__(self, reply):
        super().__init__(repr(reply))
        self.status, self.error = reply.status, reply.error


class Client:
    """server() says which is there now; headers: of a key. lasts: a server that is gone is waited for."""

    def __init__(self, server, headers=None, lasts=False):
        self.server, self.headers, self.lasts = server, headers or {}, lasts
        self.session = self.ask("create_session", tags=[], user_metadata=None, sdk_version="0")["session_id"]
        self.n_model = self.n_sampler = 0

    def post(self, path, body, **headers):
        end = time.monotonic() + 300
        while True:
            with contextlib.suppress(OSError, http.client.HTTPException):
                r = self.server().post(f"/api/v1/{path}", body, **self.headers, **headers)
                if not self.lasts or r.status != 503:
                    return r
            assert self.lasts and time.monotonic() < end, "the server is gone"
            time.sleep(0.02)

    def ask(self, route, **body):
        r = self.post(route, body)
        if r.status != 200:
            raise Refused(r)
        return r.json

    def result(self, request):
        while True:
            r = self.post("retrieve_future", {"request_id": request})
            if r.status == 408:
                continue
            if r.status != 200:
                raise Refused(r)
            if r.headers["Content-Type"].startswith("application/x-protobuf"):
                return r.body
            if "error" in r.json:
                raise Failed(r.json)
            return r.json

    def model(self, rank=4, seed=1, **lora):
        seq, self.n_model = self.n_model, self.n_model + 1
        base = self.server_name()
        lora = {"rank": rank, "train_unembed": True, **({} if seed is None else {"seed": seed}), **lora}
        at = self.ask("create_model", session_id=self.session, model_seq_id=seq, base_model=base,
                      lora_config=lora)
        return Model(self, self.result(at["request_id"])["model_id"])

    def model_of(self, path, optimizer):
        seq, self.n_model = self.n_model, self.n_model + 1
        at = self.ask("load_weights", session_id=self.session, model_seq_id=seq, path=path,
                      optimizer=optimizer)
        return Model(self, self.result(at["request_id"])["model_id"])

    def server_name(self):
        while True:
            with contextlib.suppress(OSError, http.client.HTTPException):
                r = self.server().get("/api/v1/get_server_capabilities", **self.headers)
                if r.status == 200:
                    return r.json["supported_models"][0]["model_name"]
            assert self.lasts, "the server is gone"
            time.sleep(0.02)

    def sampler(self, path=None):
        seq, self.n_sampler = self.n_sampler, self.n_sampler + 1
        body = {"model_path": path} if path else {"base_model": self.server_name()}
        return Sampler(self, self.ask("create_sampling_session", session_id=self.session,
                                      sampling_session_seq_id=seq, **body)["sampling_session_id"])


class Model:
    """Each method gives the request's id; _now what it came to."""

    def __init__(self, client, model):
        self.client, self.id, self.seq = client, model, 0

    def next(self):
        self.seq += 1
        return self.seq

    def put(self, route, **body):
        return self.client.ask(route, model_id=self.id, seq_id=self.next(), **body)["request_id"]

    def give(self, rows, loss="cross_entropy", seq=None, **more):
        body = pass_body(self.id, seq or self.next(), rows, loss, **more)
        r = self.client.post("forward_backward", body, **{"Content-Type": "application/x-protobuf"})
        if r.status != 200:
            raise Refused(r)
        return r.json["request_id"]

    def passes(self, rows, loss="cross_entropy", **more):
        return read_pass(self.client.result(self.give(rows, loss, **more)))

    def step(self, lr=1e-2, **adam):
        return self.client.result(self.put("optim_step", adam_params={"learning_rate": lr, **adam}))["metrics"]

    def save(self, name, **more):
        return self.client.result(self.put("save_weights", path=name, **more))["path"]

    def load(self, path, optimizer=True):
        return self.client.result(self.put("load_weights", path=path, optimizer=optimizer))

    def save_sampler(self, name=None, **more):
        c = self.client
        if name:
            return c.result(self.put("save_weights_for_sampler", path=name, **more))["path"]
        seq, c.n_sampler = c.n_sampler, c.n_sampler + 1
        got = c.result(self.put("save_weights_for_sampler", sampling_session_seq_id=seq))
        return Sampler(c, got["sampling_session_id"])


class Sampler:
    def __init__(self, client, sampler):
        self.client, self.id, self.seq = client, sampler, -1

    def give(self, ids, n=1, wants_prompt=False, **params):
        self.seq += 1
        at = self.client.ask("asample", sampling_session_id=self.id, seq_id=self.seq, num_samples=n,
                             prompt={"chunks": [{"type": "encoded_text", "tokens": ids}]},
                             sampling_params=params, prompt_logprobs=wants_prompt)
        assert len(at["sample_sequence_ids"]) == n, at
        return at["request_id"]

    def sample(self, ids, n=1, **more):
        return read_sample(self.client.result(self.give(ids, n, **more)))
