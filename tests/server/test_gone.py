#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The data directory is deleted, moved, or robbed of its store under a running server. Catches: something that is
acknowledged and cannot be found again; a server that calls itself ready meanwhile; a path of the server's in an
answer; one that does not serve texts any more, or stays so when its directory is back."""
import pathlib
import shutil
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from serving import SLOW, Cases, Tandem, make_model, scratch  # noqa: E402
from test_tenants import BOUNDARY, JOBS, ROWS, form  # noqa: E402


def upload(s):
    return s.ask("POST", "/v1/files", form(ROWS), **{"Content-Type": f"multipart/form-data; boundary={BOUNDARY}"})


def ready(s, status):
    end = time.monotonic() + 60 * SLOW
    while (r := s.get("/readyz")).status != status:
        assert time.monotonic() < end, r
        time.sleep(0.02)


def deleted(data):
    shutil.rmtree(data)


def without_a_store(data):
    for x in data.glob("store.db*"):
        x.unlink()


def moved(data):
    data.rename(data.with_name("elsewhere"))


def gone(model, data, go):
    with Tandem(model, "--name", "tiny", "--data-dir", data) as s:
        file = upload(s).json["id"]
        go(data)
        for ask in (lambda: upload(s), lambda: s.get(f"/v1/files/{file}"), lambda: s.ask("DELETE", f"/v1/files/{file}"),
                    lambda: s.post(JOBS, {"model": "tiny", "training_file": file}),
                    lambda: s.post("/v1/uploads", {"purpose": "batch", "filename": "a", "bytes": 1, "mime_type": "a/b"}),
                    lambda: s.post("/v1/responses", {"model": "tiny", "input": "a b", "max_output_tokens": 2})):
            r = ask()
            assert r.status == 503 and str(data.parent) not in r.body.decode(), r
        ready(s, 503)
        assert s.get("/livez").status == 200
        assert s.post("/v1/completions", {"prompt": "a", "max_tokens": 1}).status == 200
        if go is moved:
            data.with_name("elsewhere").rename(data)
            ready(s, 200)
            assert s.get(f"/v1/files/{file}").status == 200
            assert upload(s).status == 200


def main():
    cases = Cases()
    with scratch() as tmp:
        model = make_model(tmp / "tiny")
        for go in (deleted, without_a_store, moved):
            cases.run(go.__name__, lambda go=go: gone(model, tmp / go.__name__, go))
    return cases.end()


if __name__ == "__main__":
    sys.exit(main())
