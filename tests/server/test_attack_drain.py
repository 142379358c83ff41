#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""SIGTERM among live streams. Catches: a stream cut without a word, a process that does not end or
ends badly, a request that is taken after the end began and never answered."""
import contextlib
import datetime
import os
import re
import signal
import sys
import time

from attack import SLOW, Cases, Raw, Tandem, events, log_text, make_model, request, scratch, size

STREAMS = size(40, 200)
TRIES = 10
GRACE_S = 2  # that the server waits for those whom it told that it ends
CTX = 131072


def open_streams(server, n, max_tokens):
    streams = []
    for i in range(n):
        c = Raw(server)
        c.send(request("/v1/completions", {"prompt": f"stream {i}", "stream": True,
                                           "max_tokens": max_tokens, "ignore_eos": True}))
        streams.append(c)
    for c in streams:
        status, _ = c.head()
        assert status == 200, status
        assert c.until(b"data:"), "a stream without an event"
    return streams


def how_it_ended(c):
    """What the last event was, when the framing is whole."""
    with contextlib.suppress(ConnectionResetError):
        while not c.got.endswith(b"0\r\n\r\n") and c.more():
            pass
    if not c.got.endswith(b"0\r\n\r\n"):
        return "cut"
    last = events(c.got)[-1]
    assert last == b"[DONE]" or b'"error"' in events(c.got)[-1] + events(c.got)[-2], last
    return "error" if any(b'"error"' in x for x in events(c.got)[-2:]) else "done"


def waits_for_readers(server):
    """The log says that streams were cut off, and no sooner than it should be."""
    at = {what: datetime.datetime.fromisoformat(when) for when, what in re.findall(
        r"^(\S+)Z warn +(cutting short|cutting off) ", log_text(server.log), re.MULTILINE)}
    waited = datetime.timedelta(seconds=GRACE_S - 0.1)
    return len(at) == 2 and at["cutting off"] - at["cutting short"] >= waited


def drain(model, max_tokens, *options):
    server = Tandem(model, "--kv-memory", "1G", *options)
    try:
        streams = open_streams(server, STREAMS, max_tokens)
        idle = Raw(server)  # a kept connection on which nothing happens
        began = time.monotonic()
        server.process.send_signal(signal.SIGTERM)
        ends = [how_it_ended(c) for c in streams]
        status = server.stop()
        idle.close()
        assert status == 0, f"status {status}: {server.output()}"
        assert "cut" not in ends or waits_for_readers(server), (
            ends, streams[ends.index("cut")].got[-80:], server.output())
        for c in streams:
            c.close()
        return {x: ends.count(x) for x in set(ends)}, time.monotonic() - began
    finally:
        if server.process.poll() is None:
            server.process.kill()
            server.process.wait()


def in_time(model):
    ends, seconds = drain(model, 200, "--shutdown-timeout", 3600)
    assert ends == {"done": STREAMS}, ends
    return f"{STREAMS} streams, {seconds:.1f} s"


def too_long(model):
    for _ in range(TRIES):  # until nobody stood still for longer than the server waits for readers
        ends, seconds = drain(model, 100000, "--shutdown-timeout", 1, "--max-seqs", STREAMS)
        assert sum(ends.values()) == STREAMS and "done" not in ends, ends
        if "cut" not in ends:
            return f"{ends}, {seconds:.1f} s"
    raise AssertionError(f"always cut: {ends}")


def at_once(model):
    """A signal at any moment of the start ends it well, too; before main it is the system's."""
    os.environ["ASAN_OPTIONS"] = "detect_leaks=0"  # a thread that still loads is left behind
    for i in range(size(8, 200)):
        server = Tandem(model, waits=False)
        time.sleep(i * 0.01 * SLOW)
        is_ours = server.blocks(signal.SIGTERM)
        status = server.stop()
        assert status == 0 or (status == -signal.SIGTERM and not is_ours), \
            f"status {status} of start {i}: {server.output()}"


def main():
    cases = Cases()
    with scratch() as tmp:
        model = make_model(tmp / "tiny", "--dtype", "f32", "--ctx", CTX)
        cases.run("streams that end in time end whole", lambda: in_time(model))
        cases.run("streams that do not are told", lambda: too_long(model))
        cases.run("a signal while it starts", lambda: at_once(model))
    return cases.end()


if __name__ == "__main__":
    sys.exit(main())
