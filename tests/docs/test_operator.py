#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""docs/operator.md and docs/tutorial-operator.md, typed: each of their blocks in order, on a machine that is
played. Its paths are folders of the test, `systemctl` starts, ends and signals a real server, `journalctl` shows its log, `apt-get` installs
nothing, `runuser` is who asks, and `chown` looks at its words. Between the blocks things happen that the page is about: a disk that is lost, a
new machine.

Faults they can catch: an answer that does not work any more; a backup that cannot be restored as it is said; a
key that does not come or go; a line of the log that is looked for in vain."""
import json
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/lib"))
sys.path.insert(0, str(ROOT / "tests/docs"))
from ranks import held_port  # noqa: E402
from serving import BIN, SLOW, Cases, make_model, scratch  # noqa: E402
from test_blocks import blocks, fits  # noqa: E402

PAGE, TUTORIAL = ROOT / "docs/operator.md", ROOT / "docs/tutorial-operator.md"
ROWS = b'{"prompt": "a b c", "completion": "d e f"}\n' * 12
OLD = "the-old-key-of-app"
STUBS = {
    "systemctl": """#!/bin/bash
set -eu
cd %(here)s
case $1 in
start|enable) setsid %(bin)s serve MODEL --config %(root)s/etc/tandem.conf --drain-delay 0 </dev/null >>log 2>&1 &
    echo $! >pid ;;
stop) kill "$(cat pid)"; while kill -0 "$(cat pid)" 2>/dev/null; do sleep 0.05; done ;;
restart) systemctl stop; systemctl start ;;
kill) kill -"${2#--signal=}" "$(cat pid)"; sleep 1 ;;
esac
""",
    "journalctl": "#!/bin/bash\ncat %(here)s/log\n",
    "apt-get": "#!/bin/bash\n[ \"$1\" = install ]\n",
    "runuser": "#!/bin/bash\n[ \"$1 $2 $3\" = '-u tandem --' ]\nshift 3\nexec \"$@\"\n",
    "chown": "#!/bin/bash\n[ \"$1 $2 $#\" = '-R tandem: 3' ] && [ -d \"$3\" ]\n",
    "tandem": "#!/bin/bash\nexec %(bin)s \"$@\"\n"}


class Machine:
    def __init__(self, tmp, port):
        self.tmp, self.root, self.port = tmp, tmp / "root", port
        self.data = self.root / "var/lib/tandem"
        for name in ("etc/tandem", "var/lib", "backup", "bin"):
            (self.root / name).mkdir(parents=True)
        make_model(tmp / "MODEL", "--vocab", 300)
        self.keys = self.root / "etc/tandem/keys"
        self.keys.write_text(f"app inference,training {OLD}\n", encoding="ascii")
        self.configure("api-key-file = " + str(self.keys))
        words = {"here": shlex.quote(str(tmp)), "root": shlex.quote(str(self.root)),
                 "bin": shlex.quote(str(pathlib.Path(BIN).resolve()))}
        for name, text in STUBS.items():
            (self.root / "bin" / name).write_text(text % words, encoding="ascii")
            (self.root / "bin" / name).chmod(0o755)

    def configure(self, more):
        (self.root / "etc/tandem.conf").write_text(
            f"data-dir = {self.data}\nport = {self.port}\nkv-memory = 8M\nname = tiny\n{more}\n", encoding="ascii")

    def type(self, text):
        """What a block prints; paths and the port are ours."""
        text = re.sub(r"(?<![\w.])/(etc/tandem|var/lib|backup)", rf"{self.root}/\1", text)
        text = text.replace("localhost:8080", f"127.0.0.1:{self.port}")
        env = {k: v for k, v in os.environ.items() if not k.startswith("TANDEM_")}
        p = subprocess.run(["bash", "-euo", "pipefail", "-c", text], cwd=self.tmp, stdin=subprocess.DEVNULL,
                           capture_output=True, text=True, check=False, timeout=120 * SLOW,
                           env={**env, "PATH": f"{self.root}/bin:{env['PATH']}", "NO_COLOR": "1"})
        assert p.returncode == 0, f"{text}ends with {p.returncode}: {p.stdout[-1000:]} {p.stderr[-1000:]}"
        return p.stdout

    def ask(self, *words, key=OLD):
        """The status, and the body."""
        p = subprocess.run(["curl", "-s", "-w", "\n%{http_code}", "-H", f"Authorization: Bearer {key}",
                            f"http://127.0.0.1:{self.port}{words[0]}", *words[1:]], capture_output=True, check=True)
        body, _, status = p.stdout.rpartition(b"\n")
        return int(status), body

    def start(self):
        self.type("systemctl start\nuntil curl -fs localhost:8080/readyz; do sleep 0.1; done\n")

    def stop(self):
        self.type("systemctl stop\n")

    def upload(self, data):
        (self.tmp / "up").write_bytes(data)
        status, body = self.ask("/v1/files", "-F", "purpose=fine-tune", "-F", f"file=@{self.tmp}/up;filename=r.jsonl")
        assert status == 200, body
        return json.loads(body)["id"]

    def train(self, file):
        status, body = self.ask("/v1/fine_tuning/jobs", "-H", "Content-Type: application/json", "-d", json.dumps(
            {"model": "tiny", "training_file": file, "hyperparameters": {"n_epochs": 1}}))
        assert status == 200, body
        end = time.monotonic() + 120 * SLOW
        while (job := json.loads(self.ask(f"/v1/fine_tuning/jobs/{json.loads(body)['id']}")[1]))["status"] != "succeeded":
            assert job["status"] not in ("failed", "cancelled") and time.monotonic() < end, job
            time.sleep(0.05)
        return job["fine_tuned_model"]

    def has(self, files, model):
        for file in files:
            assert self.ask(f"/v1/files/{file}/content") == (200, ROWS), file
        status, body = self.ask("/v1/completions", "-H", "Content-Type: application/json", "-d", json.dumps(
            {"model": model, "prompt": "a", "max_tokens": 2}))
        assert status == 200, body


def sections():
    """Heading -> its blocks."""
    parts = re.split(r"^## (.*)$", PAGE.read_text(encoding="utf-8"), flags=re.M)[1:]
    return {head: re.findall(r"^```sh\n(.*?)^```$", body, re.M | re.S) for head, body in zip(parts[::2], parts[1::2])}


def rotated(m, blocks):
    said = m.type(blocks[0] + '\necho "@$NEW"\n')
    new = said.rpartition("@")[2].strip()
    assert m.ask("/v1/files")[0] == m.ask("/v1/files", key=new)[0] == 200
    assert "reloaded" in m.type(blocks[1])
    assert m.ask("/v1/files")[0] == 401 and m.ask("/v1/files", key=new)[0] == 200
    m.keys.write_text(f"app inference,training {OLD}\n", encoding="ascii")
    m.type("systemctl kill --signal=HUP\n")


def restored(m, blocks, files, model):
    m.type(blocks[0])
    later = m.upload(ROWS)
    m.type("cp -a /var/lib/tandem/files /backup/tandem/\n")  # behind the store's copy
    (m.data / "store.db").write_bytes(b"nothing that is a store" * 400)
    m.type(blocks[1])
    m.has([*files, later], model)
    return later


def moved(m, blocks, files, model):
    m.type(blocks[0])
    shutil.rmtree(m.data)
    m.type(blocks[1])
    m.has(files, model)


def upgraded(m, blocks, files, model):
    m.type(blocks[0])
    m.has(files, model)
    later = m.upload(ROWS)
    m.type(blocks[1])
    m.has([*files, later], model)


def read(m, blocks):
    m.stop()
    m.configure("")
    m.start()
    m.type(blocks[0])
    assert "/v1/models" in m.type(blocks[1])


def tutorial(tmp):
    """From a machine on which nothing was told yet: one shell, as variables go on."""
    with held_port() as held:
        m = Machine(tmp, held.getsockname()[1])
        m.configure("")
        m.keys.unlink()
        found = blocks(TUTORIAL)
        typed = [b for b in found if not b.why]
        try:
            said = m.type("".join(f"printf '\\n@@\\n'\n{b.text}" for b in typed)).split("\n@@\n")[1:]
        finally:
            m.stop()
    for b, printed in zip(typed, said, strict=True):
        assert b.shows is None or fits(b.shows, printed), f"{b.text}prints {printed}"
    return f"{len(typed)} of {len(found)} blocks run"


def main():
    cases, page = Cases(), sections()
    assert len(page) == 5, list(page)
    rotate, restore, move, upgrade, incident = page.values()
    with scratch() as tmp, held_port() as held:
        m = Machine(tmp, held.getsockname()[1])
        m.start()
        try:
            files = [m.upload(ROWS)]
            model = m.train(files[0])
            cases.run("rotate a key", lambda: rotated(m, rotate))
            cases.run("restore a backup", lambda: files.append(restored(m, restore, files, model)))
            cases.run("move", lambda: moved(m, move, files, model))
            cases.run("upgrade", lambda: upgraded(m, upgrade, files, model))
            cases.run("read an incident", lambda: read(m, incident))
        finally:
            m.stop()
    with scratch() as tmp:
        cases.run("the tutorial", lambda: tutorial(tmp))
    return cases.end()


if __name__ == "__main__":
    sys.exit(main())
