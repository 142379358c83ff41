#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A server that is ended while an adapter is being loaded from a slow disk, and its client is gone.
tests/fake/preload/slow_open.c, loaded before the C library, holds the load in mid-air.

Faults they can catch: a load that outlives the engine that it loads into; one that is cut short in
the middle; an end that never comes.

Standard library only."""
import http.client
import json
import os
import pathlib
import shutil
import signal
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "lib"))
from serving import BUILD, SLOW, Cases, Tandem, scratch  # noqa: E402

SHIM = BUILD.resolve() / "tests/fake/preload/slow_open.so"
MODEL = pathlib.Path(__file__).resolve().parents[2] / "tests/golden/models/qwen2"
TIMES = 10


def wait_for(what, seconds=60):
    end = time.monotonic() + seconds * SLOW
    while not what():
        assert time.monotonic() < end, "it did not come"
        time.sleep(0.002)


def ask_and_leave(server, name):
    c = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
    body = json.dumps({"name": name, "path": "lora"})
    c.request("POST", "/v1/adapters", body, {"Content-Type": "application/json"})
    return c


def ends_behind_its_load(tmp, how):
    root, marks = tmp / "root", tmp / "marks"
    shutil.rmtree(marks, ignore_errors=True)
    marks.mkdir()
    if not root.exists():
        root.mkdir()
        shutil.copytree(MODEL / "lora", root / "lora")
    env = {"LD_PRELOAD": str(SHIM), "SLOW_OPEN_NAME": "adapter_model.safetensors",
           "SLOW_OPEN_DIR": str(marks),
           "ASAN_OPTIONS": os.environ.get("ASAN_OPTIONS", "") + ":verify_asan_link_order=0"}
    # what is preloaded leaves its marks in a folder that the server has no business with
    server = Tandem(MODEL, "--adapter-root", root, "--kv-memory", "4M", "--sandbox", "off", env=env)
    clients = [ask_and_leave(server, name) for name in ("a", "b", "c")]
    wait_for((marks / "began").exists)
    for c in clients:
        c.close()
    wait_for(lambda: server.metrics()["tandem_http_connections"] <= 1)
    server.process.send_signal(how)
    wait_for(lambda: "draining" in server.said() or server.process.poll() is not None)
    assert server.process.poll() is None, f"it did not wait: {server.output()}"
    (marks / "go").touch()
    assert server.stop() == 0, server.output()
    assert (marks / "went").exists(), "the load was left in mid-air"


def main():
    cases = Cases()
    with scratch() as tmp:
        for i in range(TIMES):
            how = signal.SIGINT if i % 2 else signal.SIGTERM
            cases.run(f"{how.name} {i}", lambda how=how: ends_behind_its_load(tmp, how))
    sys.exit(cases.end())


if __name__ == "__main__":
    main()
