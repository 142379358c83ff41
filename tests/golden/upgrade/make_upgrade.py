#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A data directory of an older program, and what that program said of it, for tests/server/test_upgrade.py.

    TANDEM_BIN=OLDER/build/tandem tests/golden/upgrade/make_upgrade.py

writes data.tar.xz and said.json beside this file. Served is tests/golden/models/llama_tied by the reference
kernels, which give the same bits on every CPU. In it are: files; a job that succeeded, with its
adapter, checkpoints and result files; one that failed, one that was cancelled; one that is paused behind a few
steps, and what became of it when the older program itself went on with it. Standard library only."""
import io
import json
import pathlib
import re
import sys
import tarfile
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[2]
sys.path.insert(0, str(ROOT / "tests/lib"))
sys.dont_write_bytecode = True
from serving import SLOW, Tandem, scratch  # noqa: E402

MODEL = ROOT / "tests/golden/models/llama_tied"
OPTIONS = ("--name", "tied", "--kernels", "ref", "--threads", 1, "--kv-memory", "4M", "--no-access-log")
JOBS = "/v1/fine_tuning/jobs"
ROWS = [{"prompt": f"{a} and", "completion": f" {b}."} for a, b in zip("abcdefghijkl", "lkjihgfedcba")]
HYPER = {"n_epochs": 2, "batch_size": 4, "lora_rank": 1, "target_modules": ["q_proj", "down_proj"],
         "learning_rate_multiplier": 60}


class Server(Tandem):
    @property
    def port(self):
        """Older programs tell it in other words."""
        told = re.search(r"127\.0\.0\.1:(\d+)|\bport\"?[=:](\d+)", self.said())
        if not told:
            raise ConnectionRefusedError("it does not listen yet")
        return int(told[1] or told[2])


def served(data):
    return Server(MODEL, *OPTIONS, "--data-dir", data)


def good(reply):
    assert reply.status == 200, reply
    return reply.json


def upload(server, text, name):
    body = "".join(f"--x\r\nContent-Disposition: form-data; name=\"{n}\"{more}\r\n\r\n{value}\r\n" for n, more, value in
                   (("purpose", "", "fine-tune"), ("file", f"; filename=\"{name}\"", text))) + "--x--\r\n"
    return good(server.post("/v1/files", body.encode(), **{"Content-Type": "multipart/form-data; boundary=x"}))["id"]


def job_of(server, file, suffix, **hyper):
    return good(server.post(JOBS, {"model": "tied", "training_file": file, "suffix": suffix, "seed": 7,
                                   "hyperparameters": {**HYPER, **hyper}}))["id"]


def wait(server, job, *states):
    end = time.monotonic() + 120 * SLOW
    while (now := good(server.get(f"{JOBS}/{job}")))["status"] not in states:
        assert now["status"] not in ("failed", "succeeded") and time.monotonic() < end, now
        time.sleep(0.02)
    return now


def stepped(server, job):
    """Until it has taken some steps."""
    while not any("Step 3/" in e["message"] for e in good(server.get(f"{JOBS}/{job}/events?limit=100"))["data"]):
        time.sleep(0.02)


def answer(server, model):
    said = good(server.post("/v1/completions", {"model": model, "prompt": "c and", "max_tokens": 12, "temperature": 0,
                                                "logprobs": 1, "ignore_eos": True}))["choices"][0]
    return {"text": said["text"], "logprobs": said["logprobs"]["token_logprobs"]}


def result(server, job):
    """What a job that succeeded left: its model's answer, and the losses of its steps."""
    now = good(server.get(f"{JOBS}/{job}"))
    return {"answer": answer(server, now["fine_tuned_model"]),
            "metrics": server.get(f"/v1/files/{now['result_files'][0]}/content").body.decode()}


def listed(server, path):
    return good(server.get(f"{path}?limit=100"))["data"]


def record(server):
    """All that a server says of what it keeps."""
    jobs, files = listed(server, JOBS), listed(server, "/v1/files")
    models = good(server.get("/v1/models"))["data"]
    del models[0]["created"]  # the base's: when the server began
    models.sort(key=lambda m: m["id"])
    return {"models": models, "files": files, "jobs": jobs,
            "contents": {f["id"]: server.get(f"/v1/files/{f['id']}/content").body.decode() for f in files},
            "events": {j["id"]: listed(server, f"{JOBS}/{j['id']}/events") for j in jobs},
            "checkpoints": {j["id"]: listed(server, f"{JOBS}/{j['id']}/checkpoints") for j in jobs},
            "answers": {m["id"]: answer(server, m["id"]) for m in models}}


def packed(data):
    """The same bytes of the same files; links and sockets there are none."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:xz", preset=9) as tar:
        for path in sorted(data.rglob("*")):
            member = tarfile.TarInfo(path.relative_to(data).as_posix())
            member.mode = path.stat().st_mode & 0o777
            if path.is_dir():
                member.type = tarfile.DIRTYPE
                tar.addfile(member)
            else:
                member.size = path.stat().st_size
                with path.open("rb") as f:
                    tar.addfile(member, f)
    return out.getvalue()


def main():
    rows = "".join(json.dumps(r) + "\n" for r in ROWS)
    with scratch() as tmp:
        data = tmp / "data"
        with served(data) as server:
            file = upload(server, rows, "rows.jsonl")
            wait(server, job_of(server, file, "kept"), "succeeded")
            wait(server, job_of(server, upload(server, rows + "{}\n", "faulty.jsonl"), "faulty"), "failed")
            cancelled = job_of(server, file, "cancelled", n_epochs=50)
            stepped(server, cancelled)
            good(server.post(f"{JOBS}/{cancelled}/cancel", {}))
            paused = job_of(server, file, "paused", n_epochs=16, batch_size=1)
            stepped(server, paused)
            good(server.post(f"{JOBS}/{paused}/pause", {}))
            wait(server, paused, "paused")
            said = record(server)
            assert len({json.dumps(a) for a in said["answers"].values()}) == len(said["models"]), said["answers"]
        (HERE / "data.tar.xz").write_bytes(packed(data))
        with served(data) as server:
            good(server.post(f"{JOBS}/{paused}/resume", {}))
            wait(server, paused, "succeeded")
            said["paused"] = {"job": paused, **result(server, paused)}
    (HERE / "said.json").write_text(json.dumps(said, indent=0, sort_keys=True) + "\n")
    for name in ("data.tar.xz", "said.json"):
        print(name, (HERE / name).stat().st_size, "bytes")


if __name__ == "__main__":
    main()
