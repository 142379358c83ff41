#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Ranks that are processes with a GPU each, over NCCL: played over the host's memory (tests/fake/cuda),
for NCCL as for CUDA; started by hand over sockets, and by mpirun where there is one. What is generated
and trained must be, to the last byte, what threads on the CPU make of it. A process that is killed at any
moment, or a follower that is stopped, ends the others, with a line that names it or says what they
missed; and so does one whose collectives are never reached.

Catches: an id that is not the one that all join with; ranks that take the same GPU; a wait for the GPU
that does not look whether the others live; sums in another order than the ranks'; a step that is kept
without its collectives."""
import os
import pathlib
import random
import re
import signal
import struct
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "lib"))
from ranks import Mpi, Sockets, has_mpi  # noqa: E402
from serving import BIN, SLOW, Cases, make_model, scratch  # noqa: E402
from twin import MODELS, PLUG, digest, said, tandem, told, write_rows  # noqa: E402

FULL = os.environ.get("TEST_ATTACK") == "full"
HANG_S = 90  # what is missed is told within 10 s of a machine that has time
ENV = {"TANDEM_CUDA_PLUG": PLUG, "TANDEM_NCCL": PLUG, "FAKE_CUDA_DEVICES": "4", "TANDEM_DEVICE": "cuda",
       "TANDEM_KERNELS": "ref"}
cases = Cases()
check = cases.check


def started(kind, n, words, **env):
    """A group, and how its ranks ended."""
    group = kind([BIN, *words], n, **ENV, **env)
    return group, group.wait(120 * SLOW)


def run_words(family, n_new=6):
    return ["run", MODELS / family, "--ids", "3,4,5", "-n", n_new, "--ignore-eos", "--threads", "1"]


def model(tmp):
    """One that a long text fits."""
    return tmp / "m" if (tmp / "m").exists() else make_model(tmp / "m", "--seed", 3, "--ctx", 4096)


def generate_the_same(tmp, kind):
    for family, n in (("llama_plain", 2), ("gpt2", 3))[:2 if kind is Sockets else 1]:
        want = tandem(*run_words(family), "--tp", n, device="cpu").stdout.strip()
        tell = tmp / f"{kind.name}-{family}-{n}"
        group, status = started(kind, n, run_words(family), FAKE_CUDA_TELL=f"{tell}-cuda",
                                FAKE_NCCL_TELL=f"{tell}-nccl")
        name = f"{kind.name}: {family} over {n}"
        check(name, want and not any(status) and want in group.said(), f"{status} {group.said()[-800:]}")
        graphs, calls = told(pathlib.Path(f"{tell}-cuda")), told(pathlib.Path(f"{tell}-nccl"))
        check(f"{name}: over NCCL, and kept", calls and calls[0] > 10 and graphs[2] > 0,
              f"{graphs} {calls}")


def train_the_same(tmp, kind):
    data = write_rows(tmp / "rows.jsonl")
    for name, n, way in (("two", 2, ["--rank", "4", "--tp", "2"]),
                         ("two and two", 4, ["--rank", "0", "--tp", "2", "--dp", "2"])
                         )[:2 if kind is Sockets else 1]:
        words = ["train", "--model", model(tmp), "--data", data, "--epochs", "1", "--batch", "4",
                 "--threads", "1", *way]
        cpu, gpu = tmp / f"{kind.name} {name} cpu", tmp / f"{kind.name} {name} gpu"
        p = tandem(*words, "--out", cpu, device="cpu")
        group, status = started(kind, n, [*words, "--out", gpu])
        check(f"{kind.name}: train over {name}", p.returncode == 0 and not any(status),
              f"{said(p)} {status} {group.said()[-800:]}")
        want, got = digest(cpu), digest(gpu)
        check(f"{kind.name}: train over {name}: same files", want and want == got, f"{want} {got}")


# ---- who is gone ----

def collectives(pid):
    """How many rank 0 has begun: its seat at the twin's table (nccl_table.c); -1: there is none yet."""
    try:
        for fd in pathlib.Path(f"/proc/{pid}/fd").iterdir():
            if "fake NCCL" in os.readlink(fd):
                with open(fd, "rb") as table:
                    return struct.unpack("ixxxxQ", table.read(16))[1]
    except (OSError, struct.error):
        pass
    return -1


def taken_away(tmp, n, how, who, after):
    """How the others ended, and what they said; None: they were over before."""
    group = Sockets([BIN, *run_words(model(tmp), 4000)], n, **ENV)
    try:
        end = time.monotonic() + 60 * SLOW
        while collectives(group.pids()[0]) < after and time.monotonic() < end and \
                group.process[0].poll() is None:
            time.sleep(0.001)
        pid = group.pids()[who]
        if group.process[who].poll() is not None:
            return None
        os.kill(pid, how)
        status = group.wait(HANG_S * SLOW, but=who)
        return status, group
    finally:
        group.kill()


def missed(tmp, rng):
    """One that is stopped is waited for while there is nothing that it must come to: so when steps run."""
    for how in (signal.SIGKILL, signal.SIGSTOP):
        first = 0 if how == signal.SIGKILL else 50
        for n, who in ((2, 1), (2, 0), (3, 1)) * (8 if FULL else 1):
            if how == signal.SIGSTOP and (who == 0 or n > 2 and not FULL):
                continue  # followers wait for rank 0's next step as long as it takes
            name = f"rank {who} of {n}, {how.name}"
            found = None
            for _ in range(5):  # until it was there to be taken away
                found = found or taken_away(tmp, n, how, who, first + rng.randrange(200))
            if not found:
                check(f"{name}: a moment", False, "it was always over before")
                continue
            status, group = found
            for r in set(range(n)) - {who}:
                lines = re.findall(r"^tandem run: .+$", group.said(r), re.M)
                check(f"{name}: rank {r} ends", status[r] in (0, 1, 2), f"{status} {group.said(r)}")
                check(f"{name}: rank {r} says why", status[r] == 0 or len(lines) == 1, group.said(r))


def never_reached():
    """The twin's call from which rank 1 stays away on the GPU alone: its process lives and answers."""
    group = Sockets([BIN, *run_words("llama_plain")], 2, ranks=[0], **ENV)
    group.env.update(FAKE_NCCL_FAIL="12", FAKE_NCCL_HOW="never")
    group.start(1)
    status, text = group.wait(HANG_S * SLOW), group.said()
    check("never reached: is told", all(s in (1, 2) for s in status) and "within 8.0 s" in text,
          f"{status} {text}")


def lost_copy(tmp):
    """The last that rank 0 copies to its GPU, of what a kept step reads, does not go there: the step is
    not given, and the others are told that it does not come, nor take the next for it."""
    def go(**env):
        group = Sockets([BIN, *run_words("llama_plain", 12)], 2, ranks=[1], **ENV)
        group.env.update(env)
        group.start(0)
        return group.wait(HANG_S * SLOW), group.said()

    status, text = go(FAKE_CUDA_TELL=str(tmp / "copies"))
    found = told(tmp / "copies")
    check("copies of rank 0", not any(status) and found and found[2] > 0, f"{status} {found} {text}")
    status, text = go(FAKE_CUDA_FAIL=str(found[-1]), FAKE_CUDA_HOW="copy")
    check("a lost copy: is told at once", all(s in (1, 2) for s in status) and "a copy" in text and
          "within 8.0 s" not in text, f"{status} {text}")


def main():
    with scratch() as tmp:
        for kind in (Sockets, Mpi) if has_mpi() else (Sockets,):
            generate_the_same(tmp, kind)
            train_the_same(tmp, kind)
        missed(tmp, random.Random(int(os.environ.get("TEST_SEED", "1"))))
        never_reached()
        lost_copy(tmp)
    return cases.end()


sys.exit(main())
