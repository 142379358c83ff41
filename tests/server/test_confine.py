#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The sandbox of `tandem serve`: it stands around every thread, and nothing that the server is for fails
in it. Faults it can catch: a thread made before it; a model of links, a key file or a log that was
replaced, a folder of data, an adapter or a socket that it shuts out; --sandbox that does not do what it
says. What the sandbox itself refuses: tests/engine/base/test_sandbox.c.

Standard library only."""
import ctypes
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "lib"))
from serving import BIN, SLOW, Cases, Tandem, make_model, scratch  # noqa: E402

ASK = {"prompt": "a", "max_tokens": 2}
LORA = pathlib.Path("tests/golden/models/llama_plain/lora")


def filters(pid):
    """What each thread's status says of its filter of system calls."""
    return {dict(line.split(":", 1) for line in (t / "status").read_text().splitlines())["Seccomp"].strip()
            for t in pathlib.Path(f"/proc/{pid}/task").iterdir()}


def wait_for(what, say):
    end = time.monotonic() + 60 * SLOW
    while not what():
        assert time.monotonic() < end, say()
        time.sleep(0.02)


def stands_everywhere(model):
    with Tandem(model) as s:
        said = [line for line in s.said().splitlines() if " sandbox " in line]
        assert len(said) == 1, s.output()
        assert s.post("/v1/completions", ASK).status == 200
        # the kernel says what there is, not the server
        assert ("files=true" in said[0]) == (ctypes.CDLL(None).syscall(444, None, 0, 1) >= 2), said
        assert "calls=true" in said[0] and filters(s.pid) == {"2"}, (said, filters(s.pid))
        return said[0].split(" sandbox ")[1]


def off(model):
    with Tandem(model, "--sandbox", "off") as s:
        assert "--sandbox off" in s.said() and filters(s.pid) == {"0"}


def on_is_whole_or_refused(model):
    words = [BIN, "serve", model, "--sandbox", "on", "--device", "cuda"]
    p = subprocess.run(list(map(str, words)), capture_output=True, text=True, check=False)
    assert p.returncode and "--sandbox on" in p.stderr and "GPU" in p.stderr, p


def linked(tmp, model):
    """As a cache of models is made: a folder of links to files that lie elsewhere."""
    blobs, snapshot = tmp / "blobs", tmp / "snapshots/main"
    shutil.copytree(model, blobs)
    snapshot.mkdir(parents=True)
    for at in blobs.iterdir():
        (snapshot / at.name).symlink_to(f"../../blobs/{at.name}")
    with Tandem(snapshot) as s:
        assert s.post("/v1/completions", ASK).status == 200


def keys_of(name):
    return f"{name} all {name}-key-1234\n"


def replaced_files(tmp, model):
    """A key file and a log under whose name there is another file later."""
    folder = tmp / "etc"
    folder.mkdir()
    keys, log = folder / "keys", tmp / "log"
    keys.write_text(keys_of("first"))
    (tmp / "secrets").mkdir()
    (tmp / "secrets/linked").write_text(keys_of("linked"))
    (folder / "linked").symlink_to("../secrets/linked")
    with Tandem(model, "--api-key-file", folder / "linked") as s:
        (tmp / "secrets/new").write_text(keys_of("third"))
        os.replace(tmp / "secrets/new", tmp / "secrets/linked")
        s.process.send_signal(signal.SIGHUP)
        wait_for(lambda: s.ask("GET", "/v1/models", Authorization="Bearer third-key-1234").status == 200,
                 s.output)
    # as JSON: a banner would write over the log, from another place in the same file
    with Tandem(model, "--log-file", "/dev/stdout", "--log-format", "json") as s:
        assert '"ready"' in s.said()
    with Tandem(model, "--api-key-file", keys, "--log-level", "info") as s:
        (folder / "new").write_text(keys_of("second"))
        os.replace(folder / "new", keys)
        s.process.send_signal(signal.SIGHUP)
        wait_for(lambda: s.ask("GET", "/v1/models", Authorization="Bearer second-key-1234").status == 200,
                 s.output)
    s = Tandem(model, "--log-file", log, waits=False)
    try:
        wait_for(lambda: log.exists() and "ready" in log.read_text(), s.output)
        os.replace(log, tmp / "log.1")
        s.process.send_signal(signal.SIGUSR1)
        wait_for(log.exists, s.output)
    finally:
        assert s.stop() == 0
    assert "ended" in log.read_text()


def a_folder_that_is_not_there(tmp, model):
    """A server that would answer 500 to every load of an adapter says at its start why."""
    s = Tandem(model, "--adapter-root", tmp / "none", waits=False)
    assert s.process.wait(60 * SLOW) != 0
    assert f"--adapter-root {tmp / 'none'}: No such file" in s.output(), s.output()


def what_it_writes(tmp, model):
    """A data directory that is made, a file in it, an adapter, a socket."""
    root = tmp / "adapters"
    shutil.copytree(LORA, root / "one")
    with Tandem("tests/golden/models/llama_plain", "--data-dir", tmp / "new/data", "--adapter-root", root,
                "--unix-socket", tmp / "socket") as s:
        r = s.post("/v1/adapters", {"name": "one", "path": "one"})
        assert r.status in (200, 201), r
        row = json.dumps({"prompt": "a", "completion": "b"})
        body = ("--x\r\nContent-Disposition: form-data; name=\"purpose\"\r\n\r\nfine-tune\r\n--x\r\n"
                "Content-Disposition: form-data; name=\"file\"; filename=\"a.jsonl\"\r\n\r\n"
                f"{row}\r\n--x--\r\n").encode()
        r = s.ask("POST", "/v1/files", body, **{"Content-Type": "multipart/form-data; boundary=x"})
        assert r.status == 200, r
    assert not (tmp / "socket").exists()
    with Tandem(model, "--data-dir", tmp / "second") as s:
        assert s.get("/v1/files").json["data"] == []


def main():
    cases = Cases()
    with scratch() as tmp:
        model = make_model(tmp / "model")
        cases.run("it stands around every thread", lambda: stands_everywhere(model))
        cases.run("off", lambda: off(model))
        cases.run("on is whole, or refused", lambda: on_is_whole_or_refused(model))
        cases.run("a model of links", lambda: linked(tmp / "cache", model))
        cases.run("files that are replaced", lambda: replaced_files(tmp, model))
        cases.run("a folder that is not there", lambda: a_folder_that_is_not_there(tmp, model))
        cases.run("what it writes", lambda: what_it_writes(tmp, model))
    return cases.end()


if __name__ == "__main__":
    sys.exit(main())
