#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A batch of one text that lasts for some of the looks which the server takes at what clients changed. Catches: what
is in work dropped at a look and begun again, which costs twice, or never comes to an end."""
import sys
import time

from test_batches import Client, line
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


def main():
    cases = Cases()
    with scratch() as tmp, Tandem(make_model(tmp / "m", "--ctx", TEXT + 768), "--name", "tiny", "--no-access-log",
                                  "--ctx", str(TEXT + 768), "--data-dir", tmp / "data", "--speculate", "off") as s:
        cases.run("once", lambda: once(s))
    return cases.end()


if __name__ == "__main__":
    sys.exit(main())
