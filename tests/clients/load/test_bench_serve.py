#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`tandem bench serve` (cmd_bench_serve, the row bench_serve) against a server made here, whose
answers are known: what it sends, what it counts, how it names each way that a request can end.
Catches: requests that differ between runs of one seed; tokens counted twice or lost; a first token
timed from the wrong moment; a fault of the server that counts as good or hangs the generator."""
import http.server
import json
import os
import pathlib
import socket
import socketserver
import subprocess
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "lib"))
from serving import SLOW, Cases, said  # noqa: E402

TANDEM = os.environ.get("TANDEM_BIN", "build/tandem")
FIRST_S, BETWEEN_S = 0.05, 0.01
TRIES = 20
cases = Cases()


class Server(socketserver.ThreadingMixIn, http.server.HTTPServer):
    daemon_threads = True
    request_queue_size = 256

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.seen, self.connections, self.lock = [], 0, threading.Lock()
        self.busy, self.busiest = 0, 0

    def handle_error(self, request, client_address):
        pass  # the generator leaves when it has seen enough


class Handler(http.server.BaseHTTPRequestHandler):
    """The first part of the path is how the server behaves."""
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def setup(self):
        super().setup()
        with self.server.lock:
            self.server.connections += 1

    def log_message(self, *_):
        pass

    def reply(self, status, doc, **headers):
        body = json.dumps(doc).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        for k, v in headers.items():
            self.send_header(k, v)
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        self.reply(200, {"object": "list", "data": [{"id": "tiny", "object": "model"}]})

    def do_POST(self):
        if self.path.startswith("/early/"):
            self.how_early()
            return
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        how = self.path.split("/")[1]
        with self.server.lock:
            self.nth = 1 + sum(path == self.path for path, _, _ in self.server.seen)
            self.server.seen.append((self.path, dict(self.headers), body))
            self.server.busy += 1
            self.server.busiest = max(self.server.busiest, self.server.busy)
        try:
            getattr(self, "how_" + how)(body)
        finally:
            with self.server.lock:
                self.server.busy -= 1

    # ---- ways to behave

    def how_plain(self, body):
        n = body["max_tokens"]
        usage = {"prompt_tokens": len(body.get("prompt", "")), "completion_tokens": n}
        if not body.get("stream"):
            self.reply(200, {"choices": [{"text": "a" * n, "finish_reason": "length"}],
                             "usage": usage})
            return
        self.begin_stream()
        time.sleep(FIRST_S)
        for i in range(n):
            if i:
                time.sleep(BETWEEN_S)
            self.event(self.choice(body, "a" if i % 2 else "", i))
        self.event(self.choice(body, "", n, "length"))
        self.event({"choices": [], "usage": usage})
        self.end_stream()

    def how_together(self, body):
        """Behind the first, says nothing until four ask at once, or long enough for them to come."""
        end = time.monotonic() + 60 * SLOW
        while len(self.server.seen) > 1 and self.server.busiest < 4 and time.monotonic() < end:
            time.sleep(0.001)
        self.how_plain(body)

    def how_many(self, body):
        """Many events in a piece, and an event in many pieces."""
        self.begin_stream()
        n = body["max_tokens"]
        text = "".join(": ping\n\ndata:" + json.dumps(self.choice(body, "a", i)) + "\r\n\r\n"
                       for i in range(n)).encode()
        for at in range(0, len(text), 7):
            self.piece(text[at:at + 7])
        self.end_stream()

    def how_words(self, body):
        if isinstance(body.get("prompt"), list):
            self.reply(400, {"error": {"message": "send text", "param": "prompt"}})
        else:
            self.how_plain(body)

    def how_busy(self, body):
        if self.nth % 2 == 0:
            self.reply(503, {"error": {"message": "the queue\nis full"}}, **{"Retry-After": "1"})
        else:
            self.how_plain(body)

    def how_cut(self, body):
        self.begin_stream()
        self.event(self.choice(body, "a", 0))
        self.wfile.write(b"0\r\n\r\n")

    def how_gone(self, body):
        self.begin_stream()
        self.event(self.choice(body, "a", 0))
        self.close_connection = True

    def how_error(self, body):
        self.begin_stream()
        self.event(self.choice(body, "a", 0))
        self.event({"error": {"message": "out of cells"}})
        self.end_stream()

    def how_noise(self, _):
        self.wfile.write(b"SSH-2.0-OpenSSH_9.2\r\n\r\n")
        self.close_connection = True

    def how_closing(self, body):
        """Says nothing of closing and does, behind each answer."""
        self.how_plain(body)
        self.close_connection = True

    def how_until_close(self, body):
        doc = json.dumps({"choices": [{"text": "a", "finish_reason": "stop"}], "usage": {
            "prompt_tokens": 1, "completion_tokens": body["max_tokens"]}}).encode()
        self.wfile.write(b"HTTP/1.0 200 OK\r\nContent-Type: application/json\r\n\r\n" + doc)
        self.close_connection = True

    def how_hang(self, _):
        self.rfile.read(1)  # until the client has gone
        self.close_connection = True

    def how_early(self):
        """Refuses what is too long by its head alone, and closes."""
        self.reply(413, {"error": {"message": "too long"}})
        self.close_connection = True

    # ---- parts of a stream

    def choice(self, body, text, i, end=None):
        if "messages" in body:
            delta = {"role": "assistant", "content": ""} if i == 0 else {"content": text or "b"}
            return {"choices": [{"delta": {} if end else delta, "finish_reason": end}]}
        return {"choices": [{"text": text, "finish_reason": end}]}

    def begin_stream(self):
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream; charset=utf-8")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()

    def piece(self, data):
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))

    def event(self, doc):
        self.piece(b"data: " + json.dumps(doc).encode() + b"\n\n")

    def end_stream(self):
        self.piece(b"data: [DONE]\n\n")
        self.wfile.write(b"0\r\n\r\n")


def bench(server, how, *words, timeout=120 * SLOW):
    server.seen.clear()
    server.connections = server.busiest = 0
    url = f"http://127.0.0.1:{server.server_address[1]}/{how}/v1"
    return subprocess.run([TANDEM, "bench", "serve", "--url", url, *map(str, words)],
                          stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
                          timeout=timeout)


def expect(name, ok, p):
    cases.check(name, ok, said(p))


def rows(p):
    return [json.loads(line) for line in p.stdout.splitlines()]


def streams(server):
    p = bench(server, "plain", "-c", "1,4", "-n", 8, "--warmup", 0, "--input-tokens", 5,
              "--output-tokens", 6, "--json")
    r = rows(p)
    expect("stages", p.returncode == 0 and [x["clients"] for x in r] == [1, 4], p)
    expect("tokens", all((x["good"], x["tokens_out"], x["tokens_in"]) == (8, 48, 40) for x in r), p)
    expect("every token has its time", r[0]["first_token_ms"]["count"] == 8
           and r[0]["between_tokens_ms"]["count"] == 8 * 5, p)
    first, between = r[0]["first_token_ms"], r[0]["between_tokens_ms"]
    expect("first token", first["min"] >= FIRST_S * 1e3, p)
    least = (FIRST_S + 5 * BETWEEN_S) * 1e3
    # one that reads late finds several tokens at once: what it waits for the first, it does not between
    expect("first and others", first["mean"] + 5 * between["mean"] >= least - 0.1, p)
    expect("whole", r[0]["whole_ms"]["min"] >= least, p)
    expect("connections are kept", server.connections == 2 + 1 + 4, p)
    expect("who goes by answers is never late", r[0]["own_late_ms"] is None, p)
    expect("its own time is told", 0 <= r[0]["own_cpu_share"] < 1, p)
    prompts = [json.dumps(b["prompt"]) for _, _, b in server.seen]
    expect("no prompt twice", len(set(prompts)) == len(prompts) == 17, p)
    body = server.seen[1][2]
    expect("the body", body["max_tokens"] == 6 and body["stream"] and body["ignore_eos"]
           and body["stream_options"] == {"include_usage": True} and body["model"] == "tiny"
           and all(3 <= i < 256 for i in body["prompt"]), p)
    p = bench(server, "together", "-c", 4, "-n", 8, "--warmup", 0, "--output-tokens", 1)
    expect("clients ask at once", p.returncode == 0 and server.busiest == 4, p)


def in_time(server):
    """Each token is timed when it comes: seen where nothing held the reader up, at the latest once."""
    is_seen = False
    for _ in range(TRIES):
        p = bench(server, "plain", "-c", 1, "-n", 1, "--warmup", 0, "--output-tokens", 6, "--json")
        r = rows(p)[0]
        first, between = r["first_token_ms"]["max"], r["between_tokens_ms"]["p50"]
        is_seen |= first < (FIRST_S + 4 * BETWEEN_S) * 1e3 and between >= 0.9 * BETWEEN_S * 1e3
        if is_seen:
            break
    expect("tokens in time", is_seen, p)


def same_seed(server):
    words = ["-n", 5, "--warmup", 0, "--output-tokens", 2, "--no-stream", "--shared-prefix", 100]

    def prompts(seed):
        p = bench(server, "plain", *words, "--seed", seed)
        return p, [b["prompt"] for _, _, b in server.seen]

    p, one = prompts(7)
    expect("same seed", one == prompts(7)[1], p)
    expect("other seed", one[0] != prompts(8)[1][0], p)
    expect("shared prefix", len({tuple(x[:100]) for x in one}) == 1
           and len({tuple(x[100:]) for x in one}) == len(one) and len(one[0]) == 128, p)


def endpoints(server):
    p = bench(server, "plain", "--endpoint", "chat", "-n", 4, "--output-tokens", 4, "--json",
              "--api-key", "k-1", "--model", "an other", "--body", '"top_k":1', "--warmup", 0,
              "--temperature", 0.5)
    path, headers, body = server.seen[-1]
    expect("chat", p.returncode == 0 and path == "/plain/v1/chat/completions"
           and headers["Authorization"] == "Bearer k-1" and body["model"] == "an other"
           and body["top_k"] == 1 and body["temperature"] == 0.5
           and len(body["messages"][0]["content"].split()) == 128, p)
    expect("the role is no token", rows(p)[0]["between_tokens_ms"]["count"] == 4 * 2, p)
    p = bench(server, "words", "-n", 2, "--output-tokens", 2)
    expect("words where ids are refused", p.returncode == 0 and "128 words in" in p.stdout
           and isinstance(server.seen[-1][2]["prompt"], str), p)
    p = bench(server, "words", "-n", 2, "--output-tokens", 2, "--prompt", "ids")
    expect("ids insisted on", p.returncode == 1 and "status 400: send text" in p.stderr, p)
    p = bench(server, "many", "-n", 3, "--output-tokens", 9, "--json", "--warmup", 0)
    expect("no usage", rows(p)[0]["tokens_out"] == 27, p)
    expect("events in pieces", rows(p)[0]["between_tokens_ms"]["count"] == 3 * 8, p)


def rates(server):
    p = bench(server, "plain", "--rate", 100, "-n", 40, "--output-tokens", 2, "--json",
              "--warmup", 0)
    r = rows(p)[0]
    expect("rate", r["good"] == 40 and r["rate"] == 100 and server.busiest > 1, p)
    p = bench(server, "plain", "--rate", 200, "-n", 20, "-c", 1, "--output-tokens", 1, "--json",
              "--warmup", 0)
    r = rows(p)[0]
    expect("late requests have waited", r["whole_ms"]["max"] > 10 * FIRST_S * 1e3 * 0.8, p)
    p = bench(server, "plain", "--rate", 5, "-n", 4, "--output-tokens", 1, "--json", "--warmup", 0)
    expect("who waits for the next is not busy", rows(p)[0]["own_cpu_share"] < 0.2, p)
    began = time.monotonic()
    p = bench(server, "plain", "-c", 2, "--duration", 0.5, "--output-tokens", 1, "--json")
    r = rows(p)[0]
    expect("duration", r["good"] >= 1 and time.monotonic() - began >= 0.5, p)
    p = bench(server, "plain", "--duration", 1e-6, "--output-tokens", 1, "--json", "--warmup", 0)
    expect("the least duration", rows(p)[0]["good"] >= 1, p)


def ends(server):
    """What the server does, what the generator calls it."""
    small = ["-n", 2, "--output-tokens", 4, "--warmup", 0]
    for how, name in (("cut", "stream cut"), ("gone", "closed"), ("error", "error in the stream"),
                      ("noise", "bad answer")):
        p = bench(server, how, *small)
        expect(how, p.returncode == 1 and name in p.stderr and p.stderr.count("\n") == 1, p)
    p = bench(server, "hang", *small, "--timeout", 0.3)
    expect("hang", p.returncode == 1 and "timed out" in p.stderr, p)
    p = bench(server, "busy", "-n", 10, "--output-tokens", 1, "--json", "--warmup", 0)
    r = rows(p)[0]
    expect("statuses", (r["good"], r["bad"], r["faults"]) == (5, 5, {"503": 5})
           and r["first_fault"] == "503: the queue is full" and r["refused_ms"]["count"] == 5, p)
    p = bench(server, "busy", "-n", 10, "--output-tokens", 1, "--warmup", 0)
    expect("statuses in words", "5 x status 503" in p.stdout and p.returncode == 0, p)
    narrow = Server()
    narrow.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1)  # of those that it takes: not all fits in
    threading.Thread(target=narrow.serve_forever, daemon=True).start()
    p = bench(narrow, "early", *small, "--input-tokens", 1 << 20, "--timeout", 20 * SLOW)
    expect("refused before all is sent", p.returncode == 1 and "status 413: too long" in p.stderr, p)
    for how in ("closing", "until_close"):
        p = bench(server, how, "-n", 6, "--output-tokens", 1, "--no-stream", "--json", "-c", 2)
        expect(how, p.returncode == 0 and rows(p)[0]["good"] == 6, p)


def refusals(server):
    def says(words, *options):
        p = subprocess.run([TANDEM, "bench", "serve", *options], capture_output=True, text=True,
                           stdin=subprocess.DEVNULL, check=False, timeout=60 * SLOW)
        expect(" ".join(options), p.returncode in (1, 2) and words in p.stderr
               and p.stderr.count("\n") == 1, p)

    says("https is not spoken", "--url", "https://127.0.0.1")
    says("no http:// address", "--url", "ftp://127.0.0.1")
    says("Connection refused", "--url", "http://127.0.0.1:9")
    says("port", "--url", "http://127.0.0.1:99999")
    says("--concurrency", "--concurrency", "1,x")
    says("--concurrency", "--concurrency", "0")
    says("--shared-prefix", "--shared-prefix", "500")
    says("chat takes words", "--endpoint", "chat", "--prompt", "ids")
    says("--api-key", "--api-key", "a\r\nX: y")
    port = server.server_address[1]
    says("unexpected argument", f"http://127.0.0.1:{port}")


def main():
    server = Server()
    threading.Thread(target=server.serve_forever, daemon=True).start()
    for part in (streams, in_time, same_seed, endpoints, rates, ends, refusals):
        part(server)
    return cases.end()


if __name__ == "__main__":
    sys.exit(main())
