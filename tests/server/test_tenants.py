#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A key is a tenant: two keys with every scope, and every route of the table. What one made the other
neither lists, nor reads, uses, changes or deletes; to it there is no such thing. Catches: a route that
looks something up without its owner, and a new route that nobody asked this of; a model that is shared
without a word; a name that is taken from its owner."""
import json
import pathlib
import re
import shutil
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
from serving import SLOW, Cases, Tandem, make_model, scratch  # noqa: E402

KEYS = "".join(f"{who} all {who}-key-{who}-key\n" for who in ("ann", "bob"))
ANN, BOB = ({"Authorization": f"Bearer {who}-key-{who}-key"} for who in ("ann", "bob"))
JOBS = "/v1/fine_tuning/jobs"
ROWS = b'{"prompt": "a b c", "completion": "d e f"}\n' * 12
BOUNDARY = "x-boundary-x"
CHAT = [{"role": "user", "content": "a b c"}]
# what knows of no tenant's things, and why
NOBODYS = {"file_add", "tokenizer_info", "version", "openapi", "web", "web_file", "health",
           "live", "ready", "v2_live", "v2_ready", "detokenize", "grader_run", "grader_validate",
           "metrics",  # for those who run the server: their scope says so
           "ollama_version", "ping", "load", "props"}


def form(data, purpose="fine-tune"):
    part = f"--{BOUNDARY}\r\nContent-Disposition: form-data; name="
    return (f'{part}"purpose"\r\n\r\n{purpose}\r\n{part}"file"; filename="rows.jsonl"\r\n\r\n'.encode()
            + data + f"\r\n--{BOUNDARY}--\r\n".encode())


def routes():
    text = pathlib.Path("server/http/routes.def").read_text(encoding="utf-8")
    return re.findall(r'^ROUTE\((\w+), "(\w+)", "([^"]+)"', text, re.M)


def upload(s, key, data=ROWS, purpose="fine-tune"):
    r = s.ask("POST", "/v1/files", form(data, purpose), **key,
              **{"Content-Type": f"multipart/form-data; boundary={BOUNDARY}"})
    assert r.status == 200, r
    return r.json["id"]


def done(s, key, body):
    r = s.post(JOBS, {"model": "tiny", "hyperparameters": {"n_epochs": 2}, **body}, **key)
    assert r.status == 200, r
    end = time.monotonic() + 120 * SLOW
    while time.monotonic() < end:
        j = s.get(f"{JOBS}/{r.json['id']}", **key).json
        if j["status"] in ("succeeded", "failed", "cancelled"):
            assert j["status"] == "succeeded", j
            return j
        time.sleep(0.02)
    raise AssertionError(f"the job does not end: {j}")


def other_weights(model):
    """Another last bit in every number."""
    file, = model.glob("*.safetensors")
    data = bytearray(file.read_bytes())
    for i in range(8 + int.from_bytes(data[:8], "little"), len(data), 2):
        data[i] ^= 1
    file.write_bytes(data)


class World:
    """Ann's things, and what bob is told of them."""

    def __init__(self, s, root, data):
        self.s = s
        self.file = upload(s, ANN)
        self.job = done(s, ANN, {"training_file": self.file, "suffix": "ann"})
        self.model = self.job["fine_tuned_model"]
        shutil.copytree(data / "adapters" / self.job["id"], root / "own")
        r = s.post("/v1/adapters", {"name": "ann/own", "path": "own"}, **ANN)
        assert r.status == 200, r

    def same(self, ask):
        """As something that nobody has."""
        for name in (self.model, "ann/own"):
            mine, none = ask(name), ask("ft:nobody:has:it")
            assert mine.status == none.status and mine.json["error"] == none.json["error"], (name, mine, none)
            assert mine.status == 404, mine

    def listed(self, path):
        text = self.s.get(path, **BOB).body.decode()
        assert self.job["id"] not in text and self.file not in text and "ann" not in text, text

    def generates(self, path, **body):
        self.same(lambda name: self.s.post(path, {"model": name, **body}, **BOB))

    def missing(self, method, path, body=None):
        r = self.s.ask(method, path, body, **BOB)
        none = self.s.ask(method, re.sub(r"(file|ftjob)-\w+", r"\1-none", path), body, **BOB)
        assert r.status == none.status == 404, (r, none)
        assert set(r.error) == set(none.error) and r.error["code"] == none.error["code"], (r, none)

    def case(self, name, method, path):
        s, one = self.s, path.replace("{id}", self.file if "/files/" in path else self.job["id"])
        other = {
            **dict.fromkeys(("chat", "plain_chat"), lambda: self.generates(path, messages=CHAT, max_tokens=1)),
            **dict.fromkeys(("completions", "plain_completions"),
                            lambda: self.generates(path, prompt="a", max_tokens=1)),
            **dict.fromkeys(("embeddings", "plain_embeddings"), lambda: self.generates(path, input="a")),
            **dict.fromkeys(("rerank", "plain_rerank", "v2_rerank"),
                            lambda: self.generates(path, query="a", documents=["b"])),
            **dict.fromkeys(("score", "plain_score"), lambda: self.generates(path, text_1="a", text_2="b")),
            **dict.fromkeys(("classify", "plain_classify"), lambda: self.generates(path, input="a")),
            "responses": lambda: self.generates(path, input="a", max_output_tokens=1),
            "messages": lambda: self.generates(path, messages=CHAT, max_tokens=1),
            "count_tokens": lambda: self.generates(path, messages=CHAT),
            "tokenize": lambda: self.generates(path, prompt="a"),
            "apply_template": lambda: self.generates(path, messages=CHAT),
            "infill": self.infill,
            "ollama_chat": lambda: self.generates(path, messages=CHAT),
            **dict.fromkeys(("ollama_generate", "ollama_vector"), lambda: self.generates(path, prompt="a")),
            "ollama_embed": lambda: self.generates(path, input="a"),
            "ollama_show": lambda: self.generates(path),
            **dict.fromkeys(("ollama_tags", "ollama_ps"), lambda: self.listed(path)),
            "lora_load": self.lora_load, "lora_unload": self.lora_unload,
            **dict.fromkeys(("models", "plain_models", "files"), lambda: self.listed(path)),
            "jobs": lambda: self.listed(path + "?limit=100"),
            "model": lambda: self.same(lambda n: s.get(f"/v1/models/{n}", **BOB)),
            "model_drop": lambda: self.same(lambda n: s.ask("DELETE", f"/v1/models/{n}", **BOB)),
            "adapter_drop": self.adapter_drop, "adapter_load": self.adapter_load,
            "job_add": self.job_add, "tuning_preview": self.preview,
            "tuning_check": self.check_file,
        }
        if name in other:
            return other[name]()
        if name in NOBODYS:
            return None
        if name.startswith("tinker"):
            return None  # tests/server/test_tinker.py has two keys
        if name.startswith("response"):
            return self.response(method, path)
        if name.startswith("chat"):
            return self.chat(method, path)
        if name.startswith("batch"):
            return self.batch(method, path)
        if name.startswith("part"):
            return None  # tests/server/test_uploads.py has two keys
        assert "{id}" in path and ("/files/" in path or "/jobs/" in path), f"no case for {name}: {path}"
        return self.missing(method, one, b"" if method == "POST" else None)

    def chat(self, method, path):
        """One that is kept: only its own key knows of it."""
        kept = self.s.post("/v1/chat/completions", {"messages": CHAT, "max_tokens": 1, "store": True}, **ANN).json
        path = path.replace("{id}", kept["id"])
        if kept["id"] not in path:
            assert self.s.get(path, **BOB).json["data"] == [] != self.s.get(path, **ANN).json["data"]
        else:
            r = self.s.ask(method, path, {"metadata": {"a": "b"}} if method == "POST" else None, **BOB)
            assert r.status == 404, r
        assert self.s.get(f"/v1/chat/completions/{kept['id']}", **ANN).json == {**kept, "metadata": {}}

    def response(self, method, path):
        """Shown, listed, cancelled or deleted: only its own key knows of it."""
        r = self.s.post("/v1/responses", {"input": "a", "max_output_tokens": 1}, **ANN)
        mine, none = (self.s.ask(method, path.replace("{id}", x), b"" if method == "POST" else None, **BOB)
                      for x in (r.json["id"], "resp_none"))
        assert mine.status == none.status == 404 and mine.error["code"] == none.error["code"], (mine, none)
        assert self.s.get(f"/v1/responses/{r.json['id']}", **ANN).json == r.json

    def batch(self, method, path):
        """Seen by its own key alone, and no way to another's model."""
        whole = {"endpoint": "/v1/completions", "completion_window": "24h"}
        line = {"custom_id": "a", "method": "POST", "url": "/v1/completions", "body": {
            "model": self.model, "prompt": "a", "max_tokens": 1}}
        file = {x["Authorization"]: upload(self.s, x, (json.dumps(line) + "\n").encode(), "batch") for x in (ANN, BOB)}
        made = [self.s.post("/v1/batches", {**whole, "input_file_id": file[x["Authorization"]]}, **x).json["id"] for x in (ANN, BOB)]
        if "{id}" in path:
            mine, none = (self.s.ask(method, path.replace("{id}", x), b"" if method == "POST" else None, **BOB)
                          for x in (made[0], "batch_none"))
            assert mine.status == none.status == 404 and mine.error["code"] == none.error["code"], (mine, none)
        assert [x["id"] for x in self.s.get("/v1/batches?limit=1", **BOB).json["data"]] == made[1:]
        r = self.s.post("/v1/batches", {**whole, "input_file_id": file[ANN["Authorization"]]}, **BOB)
        assert r.status == 400 and r.error["code"] == "file_not_found", r
        for batch, key, status in ((made[0], ANN, "completed"), (made[1], BOB, "failed")):
            while (b := self.s.get(f"/v1/batches/{batch}", **key).json)["status"] not in ("completed", "failed"):
                time.sleep(0.02)
            assert b["status"] == status and b["request_counts"]["failed"] == 0, b
        assert b["errors"]["data"][0]["code"] == "model_not_found", b

    def adapter_drop(self):
        for name in (self.model, "ann/own"):
            r = self.s.ask("DELETE", f"/v1/adapters/{name}", **BOB)
            assert r.status == 404, r

    def adapter_load(self):
        for name in ("ann/own", self.model):
            r = self.s.post("/v1/adapters", {"name": name, "path": "own"}, **BOB)
            assert r.status == 409 and r.error["code"] == "name_taken", r
        r = self.s.post("/v1/adapters", {"name": "bobs", "path": "nothing"}, **BOB)
        assert r.status == 400, r
        r = self.s.post("/v1/adapters", {"name": "bobs", "path": "own"}, **ANN)
        assert r.status == 200, "a load that failed keeps no name"
        assert self.s.ask("DELETE", "/v1/adapters/bobs", **ANN).status == 200
        r = self.s.post("/v1/adapters", {"name": "bobs", "path": "own"}, **BOB)
        assert r.status == 200, "a name that was let go is free"

    def lora_load(self):
        for name in ("ann/own", self.model):
            r = self.s.post("/v1/load_lora_adapter", {"lora_name": name, "lora_path": "own"}, **BOB)
            assert r.status == 409 and r.error["code"] == "name_taken", r

    def lora_unload(self):
        for name in ("ann/own", self.model):
            r = self.s.post("/v1/unload_lora_adapter", {"lora_name": name}, **BOB)
            assert r.status == 404 and r.error["code"] == "not_found", r

    def infill(self):
        """The base has no tokens for it, and so has none over it, whoever asks for whichever."""
        said = [self.s.post("/infill", {"model": name, "input_prefix": "a", "input_suffix": "b"}, **BOB)
                for name in (self.model, "ann/own", "ft:nobody:has:it")]
        assert said[0].status == 400 and len({r.body for r in said}) == 1, said

    def job_add(self):
        r = self.s.post(JOBS, {"model": "tiny", "training_file": self.file}, **BOB)
        assert r.status == 400 and r.error["code"] == "file_not_found", r
        r = self.s.post(JOBS, {"model": self.model, "training_file": upload(self.s, BOB)}, **BOB)
        assert r.status == 404 and r.error["code"] == "model_not_found", r

    def check_file(self):
        r = self.s.post("/v1/fine_tuning/check", {"training_file": self.file}, **BOB)
        assert r.status == 400 and r.error["code"] == "file_not_found", r

    def preview(self):
        r = self.s.post("/v1/fine_tuning/preview", {"training_file": self.file}, **BOB)
        assert r.status in (400, 404) and "tokens" not in r.json, r

    def still_anns(self):
        s = self.s
        for name in (self.model, "ann/own"):
            assert s.get(f"/v1/models/{name}", **ANN).json["shared"] is False, name
            r = s.post("/v1/completions", {"model": name, "prompt": "a", "max_tokens": 1}, **ANN)
            assert r.status == 200, r
            ask = {"model": name, "messages": CHAT, "max_tokens": 8, "seed": 1}
            chat, message = (s.post(f"/v1/{x}", ask, **ANN).json for x in ("chat/completions", "messages"))
            assert chat["choices"][0]["message"]["content"] == "".join(b["text"] for b in message["content"]), message
            assert message["model"] == name, message
        assert s.get(f"/v1/files/{self.file}/content", **ANN).body == ROWS
        assert s.get(f"{JOBS}/{self.job['id']}", **ANN).json["status"] == "succeeded"


def shared(w):
    s = w.s
    job = done(s, ANN, {"training_file": w.file, "shared": True})
    assert job["shared"] is True and w.job["shared"] is False, job
    model = job["fine_tuned_model"]
    r = s.post("/v1/adapters", {"name": "ann/for-all", "path": "own", "shared": True}, **ANN)
    assert r.status == 200, r
    for name in (model, "ann/for-all"):
        assert name in {m["id"] for m in s.get("/v1/models", **BOB).json["data"]}, name
        assert s.get(f"/v1/models/{name}", **ANN).json["shared"] is True, name
        r = s.post("/v1/completions", {"model": name, "prompt": "a", "max_tokens": 1}, **BOB)
        assert r.status == 200, r
        assert s.ask("DELETE", f"/v1/adapters/{name}", **BOB).status == 404
        assert s.ask("DELETE", f"/v1/models/{name}", **BOB).status == 404
    r = s.post(JOBS, {"model": "tiny", "training_file": w.file, "shared": "yes"}, **ANN)
    assert r.status == 400 and r.error["param"] == "shared", r
    return model


def restarted(s, w, model):
    names = {m["id"] for m in s.get("/v1/models", **BOB).json["data"]}
    assert model in names and w.model not in names and "operators" in names, names
    assert w.model in {m["id"] for m in s.get("/v1/models", **ANN).json["data"]}
    for key in (ANN, BOB):  # what the operator names is everybody's
        r = s.post("/v1/completions", {"model": "operators", "prompt": "a", "max_tokens": 1}, **key)
        assert r.status == 200, r


def over_another_base(s, w):
    """Its owner is told why it does not answer; to another key there is no such thing, in any route."""
    w.s = s
    r = s.get(f"/v1/models/{w.model}", **ANN)
    assert r.status == 400 and r.error["code"] == "base_mismatch", r
    for name, method, path in routes():
        if name in ("chat", "completions", "messages", "count_tokens", "responses", "embeddings", "tokenize", "apply_template", "models", "model",
                    "model_drop", "job_add", "adapter_drop"):
            w.case(name, method, path)
    r = s.post("/v1/completions", {"model": w.model, "prompt": "a", "max_tokens": 1}, **ANN)
    assert r.status == 400 and r.error["code"] == "base_mismatch", r


def counted(s):
    """What each asked for is counted under its own name, once its answer is whole."""
    def counts():
        text = s.get("/metrics", **ANN).body.decode()
        return {(name, key): int(n) for name, key, n in
                re.findall(r'^tandem_key_(\w+)_total\{key="(ann|bob)"\} (\d+)$', text, re.M)}
    before = counts()
    r = s.post("/v1/completions", {"model": "operators", "prompt": "a b", "max_tokens": 3, "ignore_eos": True}, **BOB)
    usage, now = r.json["usage"], counts()
    while now["requests", "bob"] == before.get(("requests", "bob"), 0):
        now = counts()
    more = {k: now[k] - before.get(k, 0) for k in now}
    assert more["prompt_tokens", "bob"] == usage["prompt_tokens"], (more, usage)
    assert more["generation_tokens", "bob"] == usage["completion_tokens"] == 3, (more, usage)
    assert more["generation_tokens", "ann"] == 0 == more["refused", "bob"], more


def main():
    cases = Cases()
    with scratch() as tmp:
        model, root, data = make_model(tmp / "tiny", "--vocab", 300), tmp / "root", tmp / "data"
        root.mkdir()
        (tmp / "keys").write_text(KEYS)
        (tmp / "keys").chmod(0o600)
        words = ["--data-dir", data, "--api-key-file", tmp / "keys", "--adapter-root", root,
                 "--min-examples", 2]
        found = []
        with Tandem(model, *words) as s:
            w = World(s, root, data)
            for name, method, path in routes():
                cases.run(f"{name}: {method} {path}", lambda r=(name, method, path): w.case(*r))
            cases.run("still ann's", w.still_anns)
            cases.run("shared", lambda: found.append(shared(w)))
        if found:
            with Tandem(model, *words, "--adapter", f"operators={root / 'own'}") as s:
                cases.run("restarted", lambda: restarted(s, w, found[0]))
                cases.run("counted", lambda: counted(s))
            other_weights(model)
            with Tandem(model, *words) as s:
                cases.run("over another base", lambda: over_another_base(s, w))
    return cases.end()


if __name__ == "__main__":
    sys.exit(main())
