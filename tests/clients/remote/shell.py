# SPDX-License-Identifier: Apache-2.0
"""The program as one types it: with its output caught, on a terminal of a given size, or before a
server that is none. Standard library only."""
import contextlib
import fcntl
import os
import pathlib
import pty
import re
import select
import signal
import socket
import struct
import subprocess
import sys
import termios
import threading

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "lib"))
from serving import BIN, SLOW  # noqa: E402

CLEAN = {k: v for k, v in os.environ.items()
         if not k.startswith("TANDEM_") and k not in ("NO_COLOR", "COLUMNS", "TERM", "XDG_STATE_HOME", "HOME")}
HANG = 120 * SLOW


class Said:
    """What a command left."""

    def __init__(self, status, out, err):
        self.status, self.out, self.err = status, out, err

    @property
    def rows(self):
        """Cells of the lines, as a program reads them."""
        return [line.split("\t") for line in self.out.splitlines()]

    def __repr__(self):
        return f"status {self.status}\n{self.out[-2000:]}\n{self.err[-2000:]}"


class Shell:
    """The program with an environment of its own, and a server that it is told of."""

    def __init__(self, url=None, **env):
        self.env = {**CLEAN, **({"TANDEM_URL": url} if url else {}), **env}

    def popen(self, *words, **more):
        return subprocess.Popen([BIN, *map(str, words)], env=self.env, text=True, **{
            "stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE,
            **more})

    def __call__(self, *words, text=None):
        p = self.popen(*words, stdin=subprocess.PIPE)
        out, err = p.communicate(text, timeout=HANG)
        return Said(p.returncode, out, err)

    def good(self, *words, **more):
        said = self(*words, **more)
        assert said.status == 0, (words, said)
        return said

    def bad(self, status, pattern, *words, **more):
        """It fails, and says so in one line that has the pattern and no control character."""
        said = self(*words, **more)
        last = said.err.splitlines()[-1:] or [""]
        assert said.status == status and re.search(pattern, last[0]), (words, said)
        assert last[0].isprintable(), (words, last)
        return said


class Terminal:
    """A command on a terminal of its own; `screen` is all that it wrote."""

    def __init__(self, shell, *words, columns=80, rows=24, term="xterm"):
        size = struct.pack("HHHH", rows, columns, 0, 0)
        argv, env = [BIN, *map(str, words)], {**shell.env, "TERM": term}
        self.pid, self.fd = pty.fork()
        if self.pid == 0:  # its size is set before the command can ask for it
            fcntl.ioctl(0, termios.TIOCSWINSZ, size)
            os.execve(BIN, argv, env)
        self.screen, self.status = "", None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.status is None:
            os.kill(self.pid, signal.SIGKILL)
            self.end()
        os.close(self.fd)

    def more(self):
        """False when there is no more to come."""
        ready, _, _ = select.select([self.fd], [], [], HANG)
        assert ready, f"nothing comes: {self.screen[-2000:]!r}"
        try:
            got = os.read(self.fd, 65536)
        except OSError:  # the other end was closed
            return False
        self.screen += got.decode("utf-8", "replace")
        return bool(got)

    def until(self, pattern):
        """What was shown up to the pattern, which must come."""
        while True:
            m = re.search(pattern, self.screen)
            if m:
                seen, self.screen = self.screen[:m.end()], self.screen[m.end():]
                return seen
            assert self.more(), f"{pattern} did not come: {self.screen[-2000:]!r}"

    def type(self, text):
        os.write(self.fd, text.encode())

    def end(self):
        """The status it ended with; the rest is in `screen`."""
        if self.status is None:
            while self.more():
                pass
            self.status = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        return self.status


def drawn(screen):
    """What each line showed, over time: pieces between returns, newlines and erasures."""
    return [re.sub(r"\x1b\[[0-9;]*[a-zA-Z]", "", piece)
            for piece in re.split(r"\r\n|\r|\n", screen)]


def answer_one(connection, answer):
    """Reads a request whole (a socket that is closed over unread bytes takes back what it answered),
    and gives the answer, whatever was asked."""
    connection.settimeout(HANG)
    with connection.makefile("rb") as asked:
        n = 0
        while (line := asked.readline().lower()) not in (b"\r\n", b""):
            if line.startswith(b"content-length:"):
                n = int(line.split(b":")[1])
        if line and len(asked.read(n)) == n:
            connection.sendall(answer)


@contextlib.contextmanager
def impostor(answer):
    """A server that gives this answer to each connection's first request; its address. Its thread is
    gone before its socket is, whose number the next one may get."""
    over = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as s:
        def serve():
            while not over.is_set():
                connection, _ = s.accept()
                with connection, contextlib.suppress(OSError):
                    answer_one(connection, answer)
        t = threading.Thread(target=serve, daemon=True)
        t.start()
        try:
            yield f"http://127.0.0.1:{s.getsockname()[1]}"
        finally:
            over.set()
            socket.create_connection(s.getsockname()).close()
            t.join()


def reply(status, body, kind="application/json"):
    body = body.encode() if isinstance(body, str) else body
    return (f"HTTP/1.1 {status} X\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n"
            f"Connection: close\r\n\r\n").encode() + body
