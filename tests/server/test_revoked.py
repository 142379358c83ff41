#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A key that goes while something of it is under way, and comes back. Catches: a job, or a training that a
client steps through, that goes on for a tenant whom the server lets in no more, and whom nobody sees; one that
does not go on when the key is back, or to other values; what was in work and is cut; what is kept and gone."""
import contextlib
import http.client
import json
import pathlib
import signal
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import tinker_client  # noqa: E402
from serving import SLOW, Cases, Tandem, make_model, scratch  # noqa: E402
from test_tenants import ANN, BOB, BOUNDARY, JOBS, KEYS, ROWS, form, upload  # noqa: E402

BOBS = KEYS.splitlines(keepends=True)[1]


def wait_for(what, seconds=120):
    end = time.monotonic() + seconds * SLOW
    while not what():
        assert time.monotonic() < end, "what was waited for does not come"
        time.sleep(0.01)


class World:
    def __init__(self, s, keys, data):
        self.s, self.keys, self.data = s, keys, data

    def reload(self, keys):
        said = self.s.said().count(" reloaded ")
        self.keys.write_text(keys)
        self.s.process.send_signal(signal.SIGHUP)
        wait_for(lambda: self.s.said().count(" reloaded ") > said)

    @contextlib.contextmanager
    def without_ann(self):
        self.reload(BOBS)
        assert self.s.get("/v1/models", **ANN).status == 401
        yield
        self.reload(KEYS)
        assert self.s.get("/v1/models", **ANN).status == 200

    def job(self, file, epochs=1, **more):
        r = self.s.post(JOBS, {"model": "tiny", "training_file": file, "seed": 3, **more,
                               "hyperparameters": {"n_epochs": epochs, "batch_size": 1}}, **ANN)
        assert r.status == 200, r
        return r.json["id"]

    def status(self, job):
        return self.s.get(f"{JOBS}/{job}", **ANN).json["status"]

    def weights(self, job):
        return (self.data / "adapters" / job / "adapter_model.safetensors").read_bytes()

    def steps(self):
        return self.s.metrics(**BOB)["tandem_training_steps_total"]


def bobs_jobs_go_on(w):
    """A job of bob's ends; what else the threads had to do they have looked at by then."""
    r = w.s.post(JOBS, {"model": "tiny", "training_file": upload(w.s, BOB), "hyperparameters": {"n_epochs": 1}}, **BOB)
    assert r.status == 200, r
    wait_for(lambda: w.s.get(f"{JOBS}/{r.json['id']}", **BOB).json["status"] == "succeeded")


def begun(s, path, body, **headers):
    """A request of which half has come."""
    half = http.client.HTTPConnection("127.0.0.1", s.port, timeout=120 * SLOW)
    half.putrequest("POST", path)
    for name, value in {**headers, "Content-Length": str(len(body))}.items():
        half.putheader(name, value)
    half.endheaders(body[:len(body) // 2])
    return half


def a_job_that_trains(w):
    file = upload(w.s, ANN, ROWS * 60)
    straight = w.job(file)
    wait_for(lambda: w.status(straight) == "succeeded")
    before = w.steps()
    job, behind = w.job(file), w.job(file)
    wait_for(lambda: w.steps() > before + 20)
    with w.without_ann():
        wait_for(lambda: f'a job waits: no key has its owner\'s name any more job="{job}"' in w.s.said())
        bobs_jobs_go_on(w)
        stood = w.steps()
        bobs_jobs_go_on(w)
        assert w.steps() - stood <= 2 * len(ROWS.splitlines()), "it trains on"
    for one in (job, behind):
        wait_for(lambda one=one: w.status(one) == "succeeded")
        assert w.weights(one) == w.weights(straight), one


def what_is_kept(w):
    """A response to go on from, a batch, a file that comes, a stream that runs."""
    s = w.s
    kept = s.post("/v1/responses", {"model": "tiny", "input": "a b", "max_output_tokens": 4}, **ANN).json["id"]
    body = form(ROWS)
    half = begun(s, "/v1/files", body, **ANN, **{"Content-Type": f"multipart/form-data; boundary={BOUNDARY}"})
    stream = http.client.HTTPConnection("127.0.0.1", s.port, timeout=120 * SLOW)
    stream.request("POST", "/v1/completions", json.dumps(
        {"prompt": "a", "max_tokens": 400, "ignore_eos": True, "stream": True}), {"Content-Type": "application/json", **ANN})
    events = stream.getresponse()
    assert events.readline().startswith(b"data: ")
    with contextlib.closing(half), contextlib.closing(stream), w.without_ann():
        half.send(body[len(body) // 2:])
        r = half.getresponse()
        assert r.status == 200, r.read()
        file = json.loads(r.read())["id"]
        assert events.read().endswith(b"data: [DONE]\n\n")
        for path in (f"/v1/responses/{kept}", f"/v1/files/{file}"):
            assert s.get(path, **BOB).status == 404, path
        r = s.post("/v1/responses", {"model": "tiny", "input": "c", "previous_response_id": kept}, **BOB)
        assert r.status == 404 or r.error["param"] == "previous_response_id", r
    assert s.get(f"/v1/files/{file}", **ANN).status == 200
    r = s.post("/v1/responses", {"model": "tiny", "input": "c", "previous_response_id": kept, "max_output_tokens": 2}, **ANN)
    assert r.status == 200, r


def a_training_that_is_stepped_through(w):
    """Its line stands; what came behind it while the key went is done when it is back."""
    m = tinker_client.Client(lambda: w.s, ANN).model()
    m.client.result(m.give([tinker_client.datum([1, 2, 3], [2, 3, 4])]))
    body = json.dumps({"model_id": m.id, "seq_id": m.next(), "path": "one"}).encode()
    half = begun(w.s, "/api/v1/save_weights", body, **ANN, **{"Content-Type": "application/json"})
    with contextlib.closing(half), w.without_ann():
        half.send(body[len(body) // 2:])
        r = half.getresponse()
        assert r.status == 200, r.read()
        asked = json.loads(r.read())["request_id"]
        for _ in range(2):
            bobs_jobs_go_on(w)
        loops = [x.name for x in (w.data / "loops").iterdir()]
        assert not any(x.endswith(f"-{m.seq}") for x in loops), loops
    assert m.client.result(asked)["path"].endswith("one")


def main():
    cases = Cases()
    with scratch() as tmp:
        keys, data = tmp / "own" / "keys", tmp / "data"
        keys.parent.mkdir()
        keys.write_text(KEYS)
        with Tandem(make_model(tmp / "tiny"), "--name", "tiny", "--api-key-file", keys, "--data-dir", data) as s:
            w = World(s, keys, data)
            for case in (a_job_that_trains, what_is_kept, a_training_that_is_stepped_through):
                cases.run(case.__name__, lambda case=case: case(w))
    return cases.end()


if __name__ == "__main__":
    sys.exit(main())
