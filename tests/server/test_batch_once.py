#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A batch of one text that lasts for some of the looks which the server takes at what clients changed. Catches: what
is in work dropped at a look and begun again, which costs twice, or never comes to an end; a batch that ends without
the lines that it could not read again, or takes the server along."""
import sys
import time

from test_batches import Client, line, once as each_once
from serving import Cases, Tandem, make_model, scratch

TEXT = 12000  # tokens, which take longer than the second from look to look


def once(server):
    c, began, was = Client(server), time.monotonic(), server.metrics()
    b, out, bad = c.ended([line(0, max_tokens=TEXT, ignore_eos=True)])
    assert b["status"] == "completed" and len(out) == 1 and not bad, b
    now, said = server.metrics(), b["usage"]["output_tokens"]
    wrote, read = (now[x] - was[x] for x in ("tandem_generation_tokens_total", "tandem_prompt_tokens_total"))
    assert (wrote, read) == (said, b["usage"]["input_tokens"]), f"{wrote:.0f} and {read:.0f} tokens, of {b['usage']}"
    return f"{said} tokens in {time.monotonic() - began:.1f} s"


def unread(server, files):
    c, lines = Client(server), [line(i, max_tokens=TEXT, ignore_eos=True) for i in range(8)]
    b = c.create(lines)
    while server.metrics()["tandem_batch_requests_running"] < len(lines):  # none is begun later
        time.sleep(0.02)
    with open(files / b["input_file_id"], "r+b") as f:  # as it is read: what is put in its place would be another
        data = f.read()
        f.truncate(0)
        c.good("POST", f"/v1/batches/{b['id']}/cancel")
        while not any("a batch rests" in x and b["id"] in x for x in server.said().splitlines()):
            assert c.get(b["id"])["status"] == "cancelling"
            time.sleep(0.02)
        f.seek(0)
        f.write(data)
    b = c.wait(b["id"])
    each_once(lines, c.rows(b["output_file_id"]), c.rows(b["error_file_id"]))
    assert b["status"] == "cancelled", b


def main():
    cases = Cases()
    with scratch() as tmp, Tandem(make_model(tmp / "m", "--ctx", TEXT + 768), "--name", "tiny", "--no-access-log",
                                  "--ctx", str(TEXT + 768), "--data-dir", tmp / "data", "--speculate", "off") as s:
        cases.run("once", lambda: once(s))
        cases.run("unread", lambda: unread(s, tmp / "data/files"))
    return cases.end()


if __name__ == "__main__":
    sys.exit(main())
