#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""POST /v1/fine_tuning/check: what it says of a whole file is what a job would say.

Faults they can catch: a faulty line behind the first that is not told, or told by another number; a
file that is called good and fails its job, or called bad and trains; a check that reads a file of
another key; a long file that keeps others from the desk until it is read.

Standard library only."""
import json
import pathlib
import sys
import threading

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "lib"))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from serving import Cases, scratch  # noqa: E402
from test_routes import Description  # noqa: E402
from test_preview import said, show  # noqa: E402
from test_tuning import BOB, KEYS, LOW, Client, serve  # noqa: E402

PATH = "/v1/fine_tuning/check"
# What is tested here of server/http/routes.def: tuning_check. Of schema.def: CheckRequest is asked.


def check(c, text):
    r = c.ask("POST", PATH, {"training_file": c.file(text.encode())})
    assert r.status == 200, r
    assert r.json["usable"] == (r.json["reason"] is None), r
    return r.json


def rows(n):
    return [json.dumps({"messages": said(f"a {i}", "b c")}) for i in range(n)]


def good(c):
    seen = check(c, "\n".join(rows(12)))
    shown = [show(c, row=json.loads(row)) for row in rows(12)]
    assert seen["usable"] and seen["faults"] == [] == seen["notes"], seen
    assert (seen["lines"], seen["examples"], seen["min_examples"]) == (12, 12, 10), seen
    assert seen["total_tokens"] == sum(p["total_tokens"] for p in shown), seen
    assert seen["trained_tokens"] == sum(p["trained_tokens"] for p in shown), seen


def faulty(c):
    """Every line, by its number in the file, in the words of the job that fails."""
    lines = rows(12)
    lines[3], lines[7] = "{bad", json.dumps({"messages": []})
    text = "\ufeff" + lines[0] + "\n\n\r\n" + "\n".join(lines[1:])
    seen = check(c, text)
    assert not seen["usable"] and "2 of 12" in seen["reason"] and "line 6" in seen["reason"], seen
    assert [(f["line"], f["example"]) for f in seen["faults"]] == [(6, 4), (10, 8)], seen
    failed = c.wait(c.job(c.file(text.encode())))
    assert failed["status"] == "failed", failed
    assert failed["error"]["message"].endswith(seen["faults"][0]["message"]), (failed, seen)
    assert "Example 4 (line 6)" in failed["error"]["message"], failed
    seen = check(c, "# A title\n" * 50)
    assert seen["faulty_examples"] == 50 and len(seen["faults"]) == 20, seen


def few(c):
    seen = check(c, "\n".join(rows(3)))
    assert not seen["usable"] and "3 examples; a job wants at least 10" in seen["reason"], seen
    assert "1 example;" in check(c, rows(1)[0])["reason"]
    assert "0 examples;" in check(c, "\n\n")["reason"]
    nothing = json.dumps({"messages": [said("a")[0], {"role": "assistant", "content": "b", "weight": 0}]})
    seen = check(c, "\n".join([nothing] * 12))
    assert not seen["usable"] and "token to learn" in seen["reason"], seen
    seen = check(c, "\n".join(rows(12) + [nothing] * 2))
    assert seen["usable"] and "2 example(s) have nothing to learn" in seen["notes"][0], seen
    long = json.dumps({"prompt": "a", "completion": " b c" * 1000})
    seen = check(c, "\n".join(rows(12) + [long]))
    assert seen["usable"] and "1 example(s) are longer" in seen["notes"][0], seen


def unread(c):
    """What nothing reads is named, and what asks for another training is refused with its line."""
    lines = [json.dumps({"messages": said("a", "b c"), "prompt_id": i, "source": "x"}) for i in range(12)]
    file = c.file("\n".join(lines).encode())
    seen = check(c, "\n".join(lines))
    assert seen["usable"] and seen["notes"] == ["Members of rows that nothing reads: prompt_id, source."], seen
    assert "prompt_id, source" in show(c, training_file=file)["notes"][0]
    job = c.wait(c.job(file, hyperparameters={"n_epochs": 1}))
    events = c.get(f"/v1/fine_tuning/jobs/{job['id']}/events?limit=100").json["data"]
    told = [(v["level"], v["data"]) for v in events if "unread" in str(v["data"])]
    assert told == [("warn", {"reason": "unread", "members": "prompt_id, source"})], told
    lines[4] = json.dumps({"prompt": "a", "completion": "b", "weight": 0})
    seen = check(c, "\n".join(lines))
    assert seen["faults"][0]["line"] == 5 and "'weight'" in seen["faults"][0]["message"], seen


def refused(c, other, low):
    file = c.file("\n".join(rows(12)).encode())
    for who, name in ((other, file), (c, "file-none"), (c, ""), (c, "../store.db"),
                      (c, c.send(b"x", {"purpose": "batch"}).json["id"])):
        r = who.ask("POST", PATH, {"training_file": name})
        assert r.status == 400 and r.error["param"] == "training_file", (name, r)
    for body in ({}, {"training_file": 7}, {"training_file": None}, []):
        assert c.ask("POST", PATH, body).status == 400, body
    assert low.ask("POST", PATH, {"training_file": file}).status == 403


def in_turns(c):
    """While a long file is looked over, others are served by the same desk."""
    text = "\n".join(rows(1) * 20000)
    file, seen = c.file(text.encode()), []
    t = threading.Thread(target=lambda: seen.append(c.ask("POST", PATH, {"training_file": file})))
    t.start()
    n = 0
    while t.is_alive():
        assert c.get("/v1/files").status == 200
        n += 1
    t.join()
    assert seen[0].json["examples"] == 20000 and n > 2, (n, seen)


def fits(c):
    api = Description(c.get("/openapi.json").json)
    for text in ("\n".join(rows(12)), "{bad"):
        api.check(check(c, text), {"$ref": "#/components/schemas/Check"})
    assert api.met == {"Check", "CheckFault"}


def main():
    cases = Cases()
    with scratch() as tmp:
        (tmp / "keys").write_text(KEYS)
        (tmp / "keys").chmod(0o600)
        with serve(tmp) as s:
            c = Client(s)
            cases.run("good files", lambda: good(c))
            cases.run("faulty lines", lambda: faulty(c))
            cases.run("few rows", lambda: few(c))
            cases.run("unread members", lambda: unread(c))
            cases.run("refused", lambda: refused(c, Client(s, BOB), Client(s, LOW)))
            cases.run("in turns", lambda: in_turns(c))
            cases.run("answers fit", lambda: fits(c))
    return cases.end()


if __name__ == "__main__":
    sys.exit(main())
