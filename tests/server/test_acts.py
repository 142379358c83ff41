#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Lines of the log about acts: who changed what, from where, and what came of it. Catches: an act without a
line, or with two; a line without its key, or of another's; a refused one that is silent; a line for who only
looks, or with what a file says. Random weights; standard library only."""
import pathlib
import re
import shutil
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "lib"))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from serving import SLOW, Cases, Tandem, scratch  # noqa: E402
from test_tuning import JOBS, Client, rows  # noqa: E402

MODEL = pathlib.Path("tests/golden/models/llama_plain")
KEYS = "ann all ann-key-ann-key\nlow inference low-key-low-key\n"
ANN, LOW = ({"Authorization": f"Bearer {who}-key-{who}-key"} for who in ("ann", "low"))
LINE = re.compile(r' act id="([^"]*)" act="(\w+)" path="([^"]*)" key="([^"]*)" peer="127\.0\.0\.1:\d+" status=(\d+)')


def acts(s, n):
    """All lines so far, of which there must come to be n."""
    end = time.monotonic() + 60 * SLOW
    while len(found := LINE.findall(s.said())) < n:
        assert time.monotonic() < end, s.output()
        time.sleep(0.01)
    return found


def told(s):
    c, low = Client(s, ANN), Client(s, LOW)
    file = c.file(rows(12))
    job = c.job(file)
    for path in (f"{JOBS}/{job}", "/v1/files", "/v1/models", f"/v1/files/{file}/content"):
        assert c.get(path).status == 200, path
    c.ask("POST", f"{JOBS}/{job}/cancel")
    assert c.ask("POST", "/v1/adapters", {"name": "mine", "path": "lora"}).status == 200
    assert c.ask("DELETE", "/v1/adapters/mine").status == 200
    assert low.ask("DELETE", f"/v1/files/{file}").status == 403
    assert s.ask("DELETE", f"/v1/files/{file}").status == 401
    assert c.ask("DELETE", f"/v1/files/{file}", **{"X-Request-Id": "my-own"}).status == 200
    assert c.ask("DELETE", "/v1/models/none").status == 404
    c.say("tiny")
    found = acts(s, 9)
    assert [x[1] for x in found] == ["file_add", "job_add", "job_cancel", "adapter_load", "adapter_drop", "file_drop",
                                     "file_drop", "file_drop", "model_drop"], found
    # each connection says its own, so two that ask one behind the other may be told in turn or not
    found[5:7] = sorted(found[5:7], key=lambda x: x[4], reverse=True)
    assert [int(x[4]) for x in found][3:] == [200, 200, 403, 401, 200, 404], found
    assert {x[3] for x in found[:5]} == {"ann"} and found[5][3] == "low" and found[6][3] not in ("ann", "low"), found
    assert found[7][0] == "my-own" and found[7][2] == f"/v1/files/{file}", found
    assert re.search(r'adapter loaded id="[^"]+" key="ann" name="mine"', s.said()), s.output()
    assert re.search(r'adapter dropped id="[^"]+" key="ann" name="mine"', s.said()), s.output()
    assert "b a b a" not in s.said(), s.output()


def main():
    cases = Cases()
    with scratch() as tmp:
        (tmp / "k").mkdir()
        (tmp / "k/keys").write_text(KEYS, encoding="ascii")
        (tmp / "root").mkdir()
        shutil.copytree(MODEL / "lora", tmp / "root/lora")
        with Tandem(MODEL, "--name", "tiny", "--no-access-log", "--kv-memory", "8M", "--data-dir", tmp / "data",
                    "--adapter-root", tmp / "root", "--api-key-file", tmp / "k/keys") as s:
            cases.run("acts are told", lambda: told(s))
    return cases.end()


if __name__ == "__main__":
    sys.exit(main())
