#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The page as a person uses it, in Chromium, before a real server. Run by test_web.py. Each case says
what it would catch; all of them catch a word on the console, a policy that was broken, a fetch from
elsewhere."""
import contextlib
import sys

import chat
import documents
import methods
import talks
import tuning
import whole
from page import chromium, opened
from serving import BUILD, Cases, Tandem, make_model, scratch

# Slow enough to be stopped, small enough to be trained.
SHAPE = ("--hidden", 192, "--layers", 10, "--ctx", 16384)
KEYS = """low inference low-key-low-key-low-key
root all root-key-root-key-root-key
"""


class World:
    """The browser, a server that all may use, and one that wants keys."""

    def __init__(self, browser, server, locked):
        self.browser, self.server, self.locked, self.build = browser, server, locked, BUILD

    def page(self, at="", server=None, **options):
        return opened(self.browser, (server or self.server).url, at, **options)


def main():
    cases = Cases()
    with contextlib.ExitStack() as on:
        tmp = on.enter_context(scratch())
        model = make_model(tmp / "m", *SHAPE)
        (tmp / "keys").write_text(KEYS)
        (tmp / "keys").chmod(0o600)
        options = ("--name", "tiny", "--kv-memory", "64M", "--no-access-log", "--stream-ping", 5)
        w = World(on.enter_context(chromium(tmp)),
                  on.enter_context(Tandem(model, "--data-dir", tmp / "data", *options)),
                  on.enter_context(Tandem(model, "--api-key-file", tmp / "keys", *options)))
        for case in chat.CASES + talks.CASES + tuning.CASES + methods.CASES + whole.CASES + documents.CASES:
            if len(sys.argv) < 2 or case.__name__ in sys.argv[1:]:
                cases.run(case.__name__.replace("_", " "), lambda c=case: c(w))
    return cases.end()


if __name__ == "__main__":
    sys.exit(main())
