# SPDX-License-Identifier: Apache-2.0
"""Processes that share something, as launchers start them: by hand over sockets, or by mpirun.
Standard library only."""
import contextlib
import http.client
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import time

from serving import BIN, SLOW, Tandem, log_text

BUILD = pathlib.Path(os.environ.get("TANDEM_BUILD", "build/" + os.environ.get("TEST_MODE", "release")))
SPEAK = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "MASTER_SECRET_FILE", "LWS_", "SLURM_", "PMI", "OMPI_")
ALONE = {k: v for k, v in os.environ.items() if not k.startswith(SPEAK)}
# what an MPI leaves lying at its end, and the order of its own locks, are not ours
ALONE["ASAN_OPTIONS"] = ALONE.get("ASAN_OPTIONS", "") + ":detect_leaks=0"
FALL_S = 0.5  # so long a server that has lost its model says so: FALL_US of server/server.c
MPI_ENV = {"TSAN_OPTIONS": ALONE.get("TSAN_OPTIONS", "") + ":detect_deadlocks=0"}


def has_mpi():
    return bool(shutil.which("mpirun") and list(BUILD.glob("libtandem_mpi.so")))


def held_port():
    """A socket at a port of this host that nobody else is given while it is open: the system hands out
    none that is bound. Who is told the number can listen at it all the same, as nobody does."""
    s = socket.socket()
    s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    s.bind(("127.0.0.1", 0))
    return s


class Sockets:
    """n processes of one line, each told its place; `last`: what the last one's line has more. Of
    `ranks` alone, where some are to be started later."""

    name = "sockets"

    def __init__(self, words, n, ranks=None, last=(), **env):
        self.log, self.process, self.held = [], [], held_port()
        self.port = self.held.getsockname()[1]
        place = {"WORLD_SIZE": str(n), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(self.port)}
        self.n, self.words, self.last, self.env = n, words, last, {**ALONE, **place, **env}
        for r in range(n) if ranks is None else ranks:
            self.start(r)

    def start(self, rank):
        more = self.last if len(self.process) == self.n - 1 else ()
        self.log.append(tempfile.TemporaryFile("w+b"))
        self.process.append(subprocess.Popen(
            [*map(str, self.words), *map(str, more)], stdin=subprocess.DEVNULL, stdout=self.log[-1],
            stderr=self.log[-1], env={**self.env, "RANK": str(rank)}))

    def pids(self):
        return [p.pid for p in self.process]

    def wait(self, seconds, but=None):
        """Every status; what is not over by then is killed, and has None. Rank `but` is not waited
        for."""
        end, status = time.monotonic() + seconds, {}
        for r, p in sorted(enumerate(self.process), key=lambda at: at[0] == but):
            try:
                status[r] = p.wait(0 if r == but else max(0, end - time.monotonic()))
            except subprocess.TimeoutExpired:
                status[r] = None
        self.kill()
        return [status[r] for r in range(len(self.process))]

    def is_there(self, pid):
        return any(p.pid == pid and p.returncode is None for p in self.process)

    def kill(self):
        for p in self.process:
            if p.poll() is None:
                p.kill()
                p.wait()

    def said(self, rank=None):
        text = []
        for r, log in enumerate(self.log):
            if rank is None or r == rank:
                text.append(log_text(log))
        return "".join(text)


class Mpi:
    """n processes of one line, which mpirun starts and ends."""

    name = "MPI"

    def __init__(self, words, n, **env):
        root = ["--allow-run-as-root"] if os.geteuid() == 0 else []
        self.n, self.log = n, tempfile.TemporaryFile("w+b")
        self.run = subprocess.Popen(
            ["mpirun", *root, "--oversubscribe", "-np", str(n), *map(str, words)],
            stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log,
            env={**ALONE, **MPI_ENV, **env})

    def rank_of(self, pid):
        """None: it is none yet, or no more."""
        try:
            env = pathlib.Path(f"/proc/{pid}/environ").read_bytes()
        except OSError:
            return None
        m = re.search(rb"(?:^|\0)OMPI_COMM_WORLD_RANK=(\d+)", env)
        return int(m[1]) if m else None

    def living(self):
        """Their ids by their ranks."""
        children = []
        for task in pathlib.Path(f"/proc/{self.run.pid}/task").glob("*/children"):
            with contextlib.suppress(OSError):  # a thread that ends
                children += map(int, task.read_text().split())
        return {r: p for p in children if (r := self.rank_of(p)) is not None}

    def pids(self):
        """In the order of their ranks, once all are there."""
        end = time.monotonic() + 60 * SLOW
        while time.monotonic() < end and self.run.poll() is None:
            found = self.living()
            if len(found) == self.n:
                return [found[r] for r in range(self.n)]
            time.sleep(0.002)
        raise AssertionError("mpirun did not start them: " + self.said())

    def wait(self, seconds):
        """mpirun's status alone."""
        try:
            return [self.run.wait(seconds)]
        except subprocess.TimeoutExpired:
            self.kill()
            return [None]

    def is_there(self, pid):
        return self.run.returncode is None and pathlib.Path(f"/proc/{pid}").exists()

    def kill(self):
        if self.run.poll() is None:
            for pid in self.living().values():
                with contextlib.suppress(ProcessLookupError):  # it went meanwhile
                    os.kill(pid, signal.SIGKILL)
            self.run.kill()
            self.run.wait()

    def said(self, rank=None):
        return log_text(self.log)


class Shared(Tandem):
    """A `tandem serve` over n processes; what Tandem asks is asked of rank 0."""

    def __init__(self, kind, n, model, *options, waits=True):
        words = [BIN, "serve", model, "--port", 0, "--drain-delay", 0, "--threads", 1, *options]
        self.group = kind(words, n)
        self.bound = None
        self.log = self.group.log[0] if kind is Sockets else self.group.log
        self.process = self.group.process[0] if kind is Sockets else self.group.run
        try:
            if waits:
                self.wait_ready(60 * SLOW)
        except AssertionError:
            self.group.kill()
            raise

    def __exit__(self, kind, *_):
        try:
            if kind is None:
                self.end()
        finally:
            self.group.kill()

    def hear_fall(self, since, seconds):
        """Asks until nobody answers. That its model is lost it says for FALL_S: 503, if we came in time,
        who had asked last at `since`. Whether that is so, and what was seen."""
        said, end = set(), time.monotonic() + seconds
        while (asked := time.monotonic()) < end:
            try:
                said.add(self.get("/readyz").status)
                since = asked
            except (OSError, http.client.HTTPException):
                break
            time.sleep(FALL_S / 20)  # the ranks want the cores, too
        missed = time.monotonic() - since
        return 503 in said or missed >= FALL_S, (said, missed)

    def end(self, seconds=300):
        """SIGTERM to rank 0 ends all, and well."""
        os.kill(self.group.pids()[0], signal.SIGTERM)
        status = self.group.wait(seconds * SLOW)
        assert not any(status), (status, self.group.said())
