#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What lies in the data directory is held to what was stored before it is used. Catches: a download, a
training or a tuned model made of other bytes than were acknowledged; a download that was cut short, and
looks whole; a link in the place of a file that is followed; an error that does not name what differs, or
names the server's folders, or tells another key of it."""
import contextlib
import http.client
import pathlib
import socket
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from serving import Cases, Tandem, make_model, scratch  # noqa: E402
from test_tenants import ANN, BOB, JOBS, KEYS, ROWS, done, form, upload  # noqa: E402

BIG = 96 << 20


class World:
    def __init__(self, tmp):
        self.model, self.data, self.keys = make_model(tmp / "tiny", "--vocab", 300), tmp / "data", tmp / "keys"
        self.keys.write_text(KEYS)
        self.keys.chmod(0o600)

    def serve(self):
        return Tandem(self.model, "--data-dir", self.data, "--api-key-file", self.keys,
                      "--min-examples", 2)

    def stored(self, file):
        return self.data / "files" / file

    @contextlib.contextmanager
    def altered(self, path, change):
        """The file as `change` leaves it, and then as it was."""
        kept = path.with_name("kept")
        path.rename(kept)
        try:
            change(path, kept.read_bytes())
            yield
        finally:
            path.unlink(missing_ok=True)
            kept.rename(path)

    def says(self, text, name):
        assert name in text and str(self.data) not in text and "/proc/" not in text, text


CHANGES = {
    "a bit": lambda path, data: path.write_bytes(data[:-2] + bytes([data[-2] ^ 1]) + data[-1:]),
    "cut": lambda path, data: path.write_bytes(data[:-1]),
    "longer": lambda path, data: path.write_bytes(data + b"\n"),
    "missing": lambda path, data: None,
    "a link": lambda path, data: path.symlink_to("kept"),
}


def downloads(w, s):
    file = upload(s, ANN)
    for what, change in CHANGES.items():
        with w.altered(w.stored(file), change):
            r = s.get(f"/v1/files/{file}/content", **ANN)
            assert r.status == 500 and r.error["code"] == "file_altered", (what, r)
            assert r.headers["x-should-retry"] == "false", r.headers
            w.says(r.body.decode(), file)
    r = s.get(f"/v1/files/{file}/content", **ANN)
    assert r.status == 200 and r.body == ROWS, r


def cut_while_sent(w, s):
    """Cut when all of it was looked at, and most of it not sent."""
    file = s.ask("POST", "/v1/files", form(b"x" * BIG), **ANN,
                   **{"Content-Type": "multipart/form-data; boundary=x-boundary-x"}).json["id"]
    assert s.get(f"/v1/files/{file}/content", **ANN).body == b"x" * BIG
    with socket.create_connection(("127.0.0.1", s.port), timeout=120) as at:
        at.sendall(f"GET /v1/files/{file}/content HTTP/1.1\r\nHost: 127.0.0.1\r\n"
                   f"Authorization: {ANN['Authorization']}\r\n\r\n".encode())
        assert at.recv(12, socket.MSG_PEEK | socket.MSG_WAITALL) == b"HTTP/1.1 200"
        with open(w.stored(file), "r+b") as f:
            f.truncate(1)
        answer = http.client.HTTPResponse(at)
        answer.begin()
        try:
            n = len(answer.read())
        except (http.client.IncompleteRead, ConnectionError):
            return
        raise AssertionError(f"{n} of {BIG} bytes look like all")


def trainings(w, s):
    good, bad = upload(s, ANN), upload(s, ANN)
    for what in ("a bit", "missing", "a link"):
        with w.altered(w.stored(bad), CHANGES[what]):
            for files, param in (({"training_file": bad}, "training_file"),
                                 ({"training_file": good, "validation_file": bad}, "validation_file")):
                r = s.post(JOBS, {"model": "tiny", **files}, **ANN)
                assert r.status == 200, r
                while (j := s.get(f"{JOBS}/{r.json['id']}", **ANN).json)["status"] not in ("failed",
                                                                                         "succeeded"):
                    time.sleep(0.02)
                assert j["status"] == "failed" and j["error"]["code"] == "file_altered", (what, j)
                assert j["error"]["param"] == param, j
                w.says(j["error"]["message"], bad)
    with w.altered(w.stored(bad), CHANGES["a link"]):
        r = s.post("/v1/fine_tuning/preview", {"training_file": bad}, **ANN)
        assert r.status >= 400 and "tokens" not in r.json, r
        w.says(r.body.decode(), bad)
    done(s, ANN, {"training_file": good, "validation_file": bad})


def models(w, job, model):
    weights = w.data / "adapters" / job / "adapter_model.safetensors"
    kept = weights.read_bytes()
    CHANGES["a bit"](weights, kept)
    with w.serve() as s:
        ask = {"model": model, "prompt": "a", "max_tokens": 1}
        for r in (s.post("/v1/completions", ask, **ANN), s.get(f"/v1/models/{model}", **ANN)):
            assert r.status == 500 and r.error["code"] == "model_altered", r
            w.says(r.error["message"], model)
            w.says(r.error["message"], "adapter_model.safetensors")
        r, none = (s.post("/v1/completions", {**ask, "model": name}, **BOB) for name in (model, "nobodys"))
        assert r.status == 404 and r.error == none.error, (r, none)
        assert model not in {m["id"] for m in s.get("/v1/models", **ANN).json["data"]}
    weights.write_bytes(kept)
    with w.serve() as s:
        assert s.post("/v1/completions", ask, **ANN).status == 200


def main():
    cases, made = Cases(), []
    with scratch() as tmp:
        w = World(tmp)
        with w.serve() as s:
            cases.run("downloads", lambda: downloads(w, s))
            cases.run("cut while sent", lambda: cut_while_sent(w, s))
            cases.run("trainings", lambda: trainings(w, s))
            cases.run("a model", lambda: made.append(done(s, ANN, {"training_file": upload(s, ANN)})))
        if made:
            cases.run("models", lambda: models(w, made[0]["id"], made[0]["fine_tuned_model"]))
    return cases.end()


if __name__ == "__main__":
    sys.exit(main())
