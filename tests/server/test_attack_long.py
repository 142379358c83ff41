#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""One long prompt among streams that decode. Catches: a prompt that is computed in one piece while
everybody waits, and one whose chunks change somebody's text."""
import json
import selectors
import statistics
import sys
import threading
import time

from attack import IS_FULL, Cases, Raw, Tandem, events, make_model, request, scratch, size

STREAMS, PROMPT = 16, size(700, 8000)
TOKENS = size(150, 1200)


class Streams(threading.Thread):
    """Reads all streams and when their events came, in one thread, which keeps up with them."""

    def __init__(self, server):
        super().__init__()
        self.select, self.times, self.raw = selectors.DefaultSelector(), [], []
        for i in range(STREAMS):
            c = Raw(server)
            c.send(request("/v1/completions", {
                "prompt": [10 + i, 20, 30], "stream": True, "max_tokens": TOKENS,
                "ignore_eos": True, "temperature": 0}))
            self.select.register(c.s, selectors.EVENT_READ, i)
            self.times.append([])
            self.raw.append([])

    def run(self):
        n_open = STREAMS
        while n_open:
            for key, _ in self.select.select(60):
                data, now = key.fileobj.recv(65536), time.monotonic()
                raw, times = self.raw[key.data], self.times[key.data]
                raw.append(data)
                times += [now] * data.count(b"data:")
                if not data or b"".join(raw[-2:]).endswith(b"0\r\n\r\n"):
                    self.select.unregister(key.fileobj)
                    key.fileobj.close()
                    n_open -= 1

    def wait_begun(self):
        while self.is_alive() and not all(self.times):
            time.sleep(0.002)

    def texts(self):
        """What each stream said, however it was cut into events."""
        assert all(b"[DONE]" in b"".join(raw) for raw in self.raw), "a stream was cut"
        return ["".join(json.loads(x)["choices"][0]["text"] for x in events(b"".join(raw))
                        if x != b"[DONE]") for raw in self.raw]

    def gaps(self, begin, end):
        """Times between events, while all streams ran."""
        end = min(end, min(t[-1] for t in self.times))
        return [1e3 * (y - x) for t in self.times for x, y in zip(t, t[1:]) if begin <= y <= end]


def p99(values):
    return statistics.quantiles(values, n=100)[98]


def run(server, with_prompt):
    streams = Streams(server)
    streams.start()
    streams.wait_begun()
    begin = time.monotonic()
    if with_prompt:
        r = server.post("/v1/completions", {"prompt": [(i * 7919) % 200 + 10
                                                       for i in range(PROMPT)],
                                            "max_tokens": 1, "temperature": 0})
        assert r.status == 200 and r.json["usage"]["prompt_tokens"] == PROMPT, r
    took = time.monotonic() - begin
    streams.join()
    return streams, streams.gaps(begin, begin + took if with_prompt else begin + 1e9), took


def compare(server):
    calm, quiet, _ = run(server, False)
    busy, loud, took = run(server, True)
    assert calm.texts() == busy.texts(), "the long prompt changed a stream"
    if not IS_FULL and min(len(quiet), len(loud)) < 200:
        return f"the prompt took {took:.2f} s, {len(quiet)} and {len(loud)} gaps: not measured"
    a, b = p99(quiet), p99(loud)
    text = (f"p99 between tokens {a:.2f} ms quiet, {b:.2f} ms while a prompt of {PROMPT} was "
            f"computed in {took:.2f} s ({len(loud)} gaps)")
    assert not IS_FULL or b < 2 * a, text
    return text


def main():
    cases = Cases()
    with scratch() as tmp:
        shape = ["--preset", size("tiny", "stories-15m"), "--ctx", 16384]
        with Tandem(make_model(tmp / "m", *shape), "--ctx", size(2048, 16384)) as server:
            cases.run("a long prompt among streams", lambda: compare(server))
    return cases.end()


if __name__ == "__main__":
    sys.exit(main())
