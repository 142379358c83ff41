#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Answers of `tandem chat` on terminals of 80, 60 and 20 columns, as tmux shows them: words are whole, code is left to
the terminal, and a terminal that is resized while an answer comes has whole words behind it.

Faults they can catch: a word that is broken, lost or shown twice; code that has newlines which the model did not write;
wide characters that are counted as narrow ones; a width that is asked once; newlines in what is no terminal.

Standard library only; without tmux nothing is looked at."""
import http.server
import json
import pathlib
import shlex
import shutil
import subprocess
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from shell import CLEAN, HANG, Shell, reply  # noqa: E402
from serving import BIN, Cases  # noqa: E402

WIDTHS = (80, 60, 20)
CODE = "for (size_t i = 0; i < n; i++) total += weight[i] * value[i]; /* a line that no terminal of these has room for */"
PROSE = ("# What **wraps**, and what does not\n\nEach word of `an answer` stands whole in its line, **however narrow the terminal "
         "is**, and what a line has no room for begins the next.\n\n"
         "- see https://example.org/a/page/of/a/rather/long/name/that-is-one-word.html for more\n")
WIDE = "漢字は二桁を占める" * 8
ANSWER = f"{PROSE}```c\n{CODE}\n```\n{WIDE}\nand that is 👍 all that there is to be said of it"


class Told(http.server.BaseHTTPRequestHandler):
    """A server that answers in pieces of some characters; behind a None it waits until it is told to go on."""

    def do_GET(self):
        self.wfile.write(reply(200, '{"id": "m"}'))
        self.close_connection = True

    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        self.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n")
        for piece in self.server.pieces:
            if piece is None:
                assert self.server.go.wait(HANG)
            else:
                self.wfile.write(f"data: {json.dumps({'choices': [{'delta': {'content': piece}}]})}\n\n".encode())
        self.wfile.write(b"data: [DONE]\n\n")
        self.close_connection = True

    def log_message(self, *_):
        pass


class Server(http.server.ThreadingHTTPServer):
    def __init__(self, pieces):
        super().__init__(("127.0.0.1", 0), Told)
        self.pieces, self.go = pieces, threading.Event()
        self.url = f"http://127.0.0.1:{self.server_port}"
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def __exit__(self, *args):
        self.shutdown()
        super().__exit__(*args)


def pieces(text, size):
    return [text[i:i + size] for i in range(0, len(text), size)]


def wrapped(line, columns):
    """The last column is left empty, but where the terminal breaks a word that is longer than a line."""
    lines = [""]
    for word in line.split(" "):
        if lines[-1] and len(lines[-1]) + 1 + len(word) < columns:
            lines[-1] += " " + word
        else:
            lines = lines[:-1] if lines == [""] else lines
            lines += [word] if len(word) < columns else pieces(word, columns)
    return lines


def expected(text, columns):
    """The lines that a terminal shows."""
    lines, is_code = [], False
    for line in text.split("\n"):
        if is_code and line != "```":
            lines += [part.rstrip() for part in pieces(line, columns)]
        else:
            lines += pieces(line, (columns - 1) // 2) if line == WIDE else wrapped(line, columns)
        is_code = is_code != line.startswith("```")
    return lines


class Pane:
    """A chat in a pane of tmux."""

    def __init__(self, url, columns):
        self.name = f"tandem-wrap-{columns}"
        self.env = {**CLEAN, "TERM": "xterm", "LC_ALL": "C.UTF-8"}
        typed = shlex.join([str(pathlib.Path(BIN).resolve()), "chat", "hello", "--model", "m", "--url", url])
        self.tmux("new-session", "-d", "-x", str(columns), "-y", "80", f"{typed}; echo THE END; cat")

    def tmux(self, *words):
        return subprocess.run(["tmux", "-u", "-L", self.name, "-f", "/dev/null", *words], env=self.env, check=True,
                              capture_output=True, text=True, timeout=HANG).stdout

    def until(self, text):
        """The lines, when the text is among what is shown."""
        end = time.monotonic() + HANG
        while text not in (screen := self.tmux("capture-pane", "-p")):
            assert time.monotonic() < end, screen
            time.sleep(0.05)
        return [line.rstrip() for line in screen.split("\n")]

    def resize(self, columns):
        self.tmux("resize-window", "-x", str(columns))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.tmux("kill-server")


def shown():
    for columns in WIDTHS:
        for size in (1, 7, 1000):
            with Server(pieces(ANSWER, size)) as server, Pane(server.url, columns) as pane:
                lines = pane.until("THE END")
                want = expected(ANSWER, columns)
                assert lines[:len(want) + 1] == [*want, "THE END"], (columns, size, "\n".join(lines))


def resized():
    """Narrower, or wider, in the middle of a word: those that come behind it are whole in lines of the new width."""
    first = "some words of an answer that is not ready when the terminal is made nar"
    rest = " of which every word is to be whole whatever the terminal makes of those that it had before" * 2
    for before, behind in ((80, 40), (40, 80)):
        with Server([*pieces(first, 3), None, *pieces("row" + rest, 3)]) as server, Pane(server.url, before) as pane:
            pane.until(" nar\n")
            pane.resize(behind)
            server.go.set()
            lines = [line for line in pane.until("THE END") if line and line != "THE END"]
            words = rest.split()
            assert " ".join(lines).split()[-len(words):] == words, lines
            assert max(len(line) for line in lines[-2:]) > 39 or behind == 40, lines
            assert all(len(line) < behind for line in lines[-2:]), lines


def not_wrapped():
    with Server(pieces(ANSWER, 5)) as server:
        assert Shell(server.url).good("chat", "hello", "--model", "m").out == ANSWER + "\n"


def main():
    cases = Cases()
    cases.run("no terminal", not_wrapped)
    if shutil.which("tmux"):
        cases.run("whole words", shown)
        cases.run("resized", resized)
    else:
        cases.skip("whole words", "tmux is not here")
    return cases.end()


if __name__ == "__main__":
    sys.exit(main())
