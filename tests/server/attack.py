# SPDX-License-Identifier: Apache-2.0
"""What the attack tests share: their size, raw connections, requests whose answers are known.

TEST_ATTACK=full runs them at the numbers that the server promises (minutes each); else they are cut
to what `make test` can afford, and nothing in them is judged by the clock."""
import contextlib
import ctypes
import json
import os
import pathlib
import random
import resource
import socket
import struct
import subprocess
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "lib"))
from serving import BIN, SLOW, Cases, Tandem, log_text, make_model, scratch  # noqa: E402,F401

IS_FULL = os.environ.get("TEST_ATTACK") == "full"


def size(small, full):
    return full if IS_FULL else small


def connections(most):
    """So many, or what a process may have here beside its other descriptors."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    return most if hard == resource.RLIM_INFINITY else min(most, hard * 3 // 4)


class Raw:
    """A connection whose bytes are the test's own."""

    def __init__(self, server, timeout=120, receive_buffer=None):
        self.s = socket.socket()
        if receive_buffer:
            self.s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        self.s.settimeout(timeout * SLOW)
        self.s.connect(("127.0.0.1", server.port))
        self.got = b""

    def send(self, data):
        self.s.sendall(data)

    def more(self):
        """Adds what came to `got`; False at the end."""
        data = self.s.recv(65536)
        self.got += data
        return bool(data)

    def until(self, mark):
        """True when it came, False when the connection ended before."""
        while mark not in self.got:
            if not self.more():
                return False
        return True

    def until_bytes(self, n):
        while len(self.got) < n and self.more():
            pass

    def head(self):
        """Status and headers."""
        assert self.until(b"\r\n\r\n"), f"no answer: {self.got!r}"
        head, _, self.got = self.got.partition(b"\r\n\r\n")
        first, *lines = head.decode("latin-1").split("\r\n")
        headers = {k.lower(): v.strip() for k, _, v in (x.partition(":") for x in lines)}
        return int(first.split()[1]), headers

    def reply(self):
        """Status and body of an answer that has a length or ends with the connection."""
        status, headers = self.head()
        if "content-length" in headers:
            self.until_bytes(int(headers["content-length"]))
        else:
            while self.more():
                pass
        return status, self.got

    def close(self, rudely=False):
        """Rudely: with a reset, as a process that dies with unread bytes."""
        if rudely:
            self.s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.s.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def request(path, body, **headers):
    """The bytes of a POST."""
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    head = {"Host": "127.0.0.1", "Content-Type": "application/json", "Content-Length": len(data),
            **{k.replace("_", "-"): v for k, v in headers.items()}}
    lines = "".join(f"{k}: {v}\r\n" for k, v in head.items())
    return f"POST {path} HTTP/1.1\r\n{lines}\r\n".encode() + data


def events(raw):
    """The data of each event of a chunked stream, as far as it came."""
    text = raw.replace(b"\r\n", b"\n")
    return [x[5:].strip() for x in text.split(b"\n") if x.startswith(b"data:")]


def draw_request(rng):
    """A request, and what makes of its answer what must be the same whenever it is asked."""
    body = {"max_tokens": rng.randint(1, 24), "seed": rng.randint(0, 999), "ignore_eos": True,
            "temperature": rng.choice([0, 0, 0.8])}
    words = " ".join(rng.choice(["red", "green", "blue", "sky", "sea"])
                     for _ in range(rng.randint(1, 60)))
    if rng.random() < 0.5:
        body["messages"] = [{"role": "user", "content": words}]
        return "/v1/chat/completions", body
    body["prompt"] = words
    return "/v1/completions", body


def answer_of(server, path, body):
    """What a request says, as bytes."""
    r = server.post(path, body)
    assert r.status == 200, r
    choice = r.json["choices"][0]
    text = choice["message"]["content"] if "message" in choice else choice["text"]
    return f"{text}\0{choice['finish_reason']}\0{r.json['usage']['completion_tokens']}".encode()


class Opens:
    """The names in some folders that anybody opens, reads, makes, moves or removes."""

    def __init__(self, *folders):
        libc = ctypes.CDLL(None)
        self.folders, self.fd = folders, libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        for folder in folders:
            libc.inotify_add_watch(self.fd, os.fsencode(folder), 0x3e7)

    def take(self):
        """Those since it was asked last; "" is a folder itself."""
        names = set()
        with contextlib.suppress(OSError):  # no more, or there is no inotify
            while data := os.read(self.fd, 65536):
                while data:
                    n = struct.unpack_from("iIII", data)[3]
                    names.add(data[16:16 + n].rstrip(b"\0").decode())
                    data = data[16 + n:]
        return names

    def sees(self):
        """Whether the system tells it of each of the folders."""
        for folder in self.folders:
            (folder / "seen").write_text("")
            (folder / "seen").unlink()
            if self.take() != {"seen"}:
                return False
        return True


class Known:
    """Requests with the answers that they had alone."""

    def __init__(self, server, n, seed=1):
        rng = random.Random(seed)
        self.requests = [draw_request(rng) for _ in range(n)]
        self.answers = [answer_of(server, *r) for r in self.requests]
        self.server, self.wrong, self.asked = server, [], 0
        self.lock = threading.Lock()

    def ask(self, rng):
        i = rng.randrange(len(self.requests))
        try:
            got = answer_of(self.server, *self.requests[i])
        except (AssertionError, OSError) as fault:
            got = f"no answer: {fault}".encode()
        with self.lock:
            self.asked += 1
            if got != self.answers[i]:
                self.wrong.append((self.requests[i], self.answers[i], got))

    def check(self):
        assert not self.wrong, f"{len(self.wrong)} of {self.asked} are wrong: {self.wrong[0]}"


def together(n, work):
    """Runs work(rng of the thread) in n threads; raises what any of them raised."""
    faults = []

    def one(i):
        try:
            work(random.Random(i))
        except Exception as fault:
            faults.append(fault)

    threads = [threading.Thread(target=one, args=(i,)) for i in range(n)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    if faults:
        raise faults[0]


def bench(server, *words, timeout=600):
    """Lines of `tandem bench serve --json`, a cheap client that measures."""
    p = subprocess.run([BIN, "bench", "serve", "--url", server.url, "--json", *map(str, words)],
                       stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
                       timeout=timeout * SLOW)
    assert p.stdout, p.stderr
    return [json.loads(line) for line in p.stdout.splitlines()]


def fill_cells(server):
    """Writes all K/V cells once, as hours of serving would: they are the server's from its start,
    but become resident when they are first written, and are kept for their prefix."""
    if SLOW > 1:
        return  # nobody judges memory there
    rng, was = random.Random(5), -1
    n_tok = server.get("/v1/models").json["data"][0]["max_model_len"] - 50
    while True:
        prompts = [[rng.randrange(10, 200) for _ in range(n_tok)] for _ in range(8)]
        r = server.post("/v1/completions", {"prompt": prompts, "max_tokens": 1})
        assert r.status == 200, r
        kept = server.metrics()["tandem_kv_cache_kept_ratio"]
        if kept <= was or kept > 0.99:
            return
        was = kept


class Holdings:
    """What the server held at the start, to be held at the end too. Memory is given back to the
    system some ten seconds after it was freed, which is waited for where it matters."""

    def __init__(self, server):
        self.server = server
        self.kv = server.wait_idle()["tandem_kv_cache_usage_ratio"]
        self.fds, self.threads, self.rss = server.descriptors(), server.threads(), server.rss()

    def now(self):
        m = self.server.wait_idle()
        return (m["tandem_kv_cache_usage_ratio"], self.server.descriptors(), self.server.threads())

    def grown(self, slack):
        end = time.monotonic() + 60
        while (grown := self.server.rss() - self.rss) > slack and time.monotonic() < end:
            time.sleep(0.2)
        return grown

    def check(self, rss_slack=16 << 20):
        was, now = (self.kv, self.fds, self.threads), self.now()
        end = time.monotonic() + 60 * SLOW
        while any(a > b for a, b in zip(now, was)) and time.monotonic() < end:
            time.sleep(0.05)  # the asker's own connection may still be open
            now = self.now()
        assert all(a <= b for a, b in zip(now, was)), \
            f"(K/V in use, descriptors, threads) are {now}, were {was}"
        grown = self.server.rss() - self.rss
        if SLOW == 1:  # sanitizers keep what was given back
            grown = self.grown(rss_slack)
            assert grown <= rss_slack, f"memory grew by {grown >> 20} MiB"
        return f"descriptors {now[1]}, threads {now[2]}, memory {grown / 2 ** 20:+.1f} MiB"
