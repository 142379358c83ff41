#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`tandem train` over ranks: threads (--tp, --dp) against one rank, processes (mpirun) against
threads, a GPU's twin against the CPU; stopped at one size and gone on with at another; and killed: of
processes any one at any moment, after which all end within ten seconds, and the same command goes on
with the same losses. A few moments; TEST_FAULTS=full: fifty. Says so, and passes nothing of it, where
there is no MPI.

Catches: a rank that trains something else, or was told to, an adapter or a model that is one rank's
part, a checkpoint that only its own size can read, a process that is left behind."""
import contextlib
import json
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "lib"))
from ranks import Sockets  # noqa: E402
from serving import SLOW, Cases  # noqa: E402

TANDEM = os.environ.get("TANDEM_BIN", "build/tandem")
MODEL = pathlib.Path("tests/golden/models/llama_tied")
FULL = os.environ.get("TEST_FAULTS") == "full"
HANG_S, END_S = 120 * SLOW, 10
# what an MPI leaves lying at its end is not ours
os.environ["ASAN_OPTIONS"] = os.environ.get("ASAN_OPTIONS", "") + ":detect_leaks=0"
ROOT = ["--allow-run-as-root"] if os.geteuid() == 0 else []
cases = Cases()
expect = cases.check


def has_mpi():
    plug = pathlib.Path(TANDEM).resolve().parent / "libtandem_mpi.so"
    return bool(shutil.which("mpirun")) and plug.exists()


def mpirun(n):
    return ["mpirun", *ROOT, "--oversubscribe", "-np", str(n)] if n else []


def words(tmp, out, *more, n_mpi=0, epochs=6, rank=4):
    return [*mpirun(n_mpi), TANDEM, "train", "--model", MODEL, "--data", tmp / "rows.jsonl",
            "--out", tmp / out, "--epochs", epochs, "--batch", "4", "--lr", "5e-3" if rank else "1e-3",
            "--rank", rank, "--quantize", "f32", "--checkpoint-steps", "2", "--threads",
            "2" if not n_mpi else "1", *more]


def train(*args, **kw):
    p = subprocess.run([*map(str, words(*args, **kw))], capture_output=True, text=True,
                       stdin=subprocess.DEVNULL, check=False, timeout=HANG_S)
    expect(f"{args[1:]} {kw}", p.returncode == 0, p.stderr[-600:])
    return p


def losses(tmp, out):
    """By step; of a step that was taken again the later one."""
    lines = (tmp / out / "steps.csv").read_text().splitlines()[1:]
    return {int(s.split(",")[0]): float(s.split(",")[1]) for s in lines}


def is_near(a, b):
    return a.keys() == b.keys() and all(abs(a[k] - b[k]) <= 1e-5 * b[k] + 1e-6 for k in b)


def file_of(tmp, out, rank=4):
    return (tmp / out / ("adapter/adapter_model.safetensors" if rank else
                         "model/model.safetensors")).read_bytes()


def as_threads(tmp):
    for rank in (4, 0):
        train(tmp, f"one{rank}", rank=rank, epochs=2)
        want = losses(tmp, f"one{rank}")
        for size in (("--tp", "2"), ("--dp", "2"), ("--tp", "2", "--dp", "2")):
            out = f"r{rank}" + "".join(size)
            train(tmp, out, *size, rank=rank, epochs=2)
            got = losses(tmp, out)
            expect(f"losses of {out}", is_near(got, want), f"{got} {want}")
            expect(f"whole file of {out}",
                   len(file_of(tmp, out, rank)) == len(file_of(tmp, f"one{rank}", rank)))
    p = subprocess.run([*map(str, words(tmp, "none", "--tp", "9", "--dp", "9"))],
                       capture_output=True, text=True, check=False)
    expect("too many ranks", p.returncode == 2 and "at most 64" in p.stderr, p.stderr)


def stopped(tmp, out, *size):
    """Is told to stop, as by Ctrl-C, before its end; a machine that is slow to tell tries again."""
    for _ in range(20):
        shutil.rmtree(tmp / out, ignore_errors=True)
        with subprocess.Popen([*map(str, words(tmp, out, *size))], stderr=subprocess.PIPE,
                              text=True) as q:
            for line in q.stderr:
                if line.startswith("step 5/"):
                    q.send_signal(signal.SIGINT)
            q.wait()
        expect(f"{out} stopped", q.returncode == 0, str(q.returncode))
        if not (tmp / out / "adapter").exists():
            return True
    print(f"skipped: {out} was always at its end before it could be stopped")
    return False


def other_sizes(tmp):
    train(tmp, "straight", "--tp", "2")
    want = losses(tmp, "straight")
    for size in ((), ("--tp", "2"), ("--tp", "4"), ("--dp", "2")):
        out = "stopped" + "".join(size)
        if not stopped(tmp, out, "--tp", "2"):
            continue
        p = train(tmp, out, *size)
        expect(f"{out} goes on", "going on behind step" in p.stderr, p.stderr[:300])
        expect(f"losses of {out}", is_near(losses(tmp, out), want))
        if size == ("--tp", "2"):
            expect("the same bits at the same size",
                   file_of(tmp, out) == file_of(tmp, "straight"))


def with_codes(tmp):
    """AdamW's moments in 8 bits: a rank has those of its share, and goes on from them to the bit. They are
    rounded by draws of their places, which a tensor group's ranks count for themselves: its losses are near."""
    more = ("--optimizer", "adamw_8bit")
    for rank in (4, 0):
        train(tmp, f"codes{rank}", *more, rank=rank, epochs=2)
        want = losses(tmp, f"codes{rank}")
        for size, far in ((("--tp", "2"), 0.02), (("--dp", "2"), 1e-3)):
            out = f"codes{rank}" + "".join(size)
            train(tmp, out, *size, *more, rank=rank, epochs=2)
            got = losses(tmp, out)
            expect(f"losses of {out}", got.keys() == want.keys() and
                   all(abs(got[k] - want[k]) <= far * want[k] for k in want), f"{got} {want}")
    for size in (("--tp", "2"), ("--dp", "2")):
        straight, out = "codes-straight" + "".join(size), "codes-stopped" + "".join(size)
        train(tmp, straight, *size, *more)
        if stopped(tmp, out, *size, *more):
            train(tmp, out, *size, *more)
            expect(f"{out} has the bits of one that was not", file_of(tmp, out) == file_of(tmp, straight))


def as_processes(tmp):
    for name, size, n in (("two", (), 2), ("shared", ("--tp", "2"), 2)):
        train(tmp, f"threads-{name}", *(size or ("--dp", "2")), epochs=2)
        train(tmp, name, *size, n_mpi=n, epochs=2)
        expect(f"{name}: processes = threads",
               file_of(tmp, name) == file_of(tmp, f"threads-{name}"))
    p = subprocess.run([*map(str, words(tmp, "odd", "--tp", "3", n_mpi=2))], capture_output=True,
                       text=True, check=False, timeout=HANG_S)
    said = [s for s in p.stderr.splitlines() if s.startswith("tandem train")]
    expect("sizes that do not fit", p.returncode != 0 and len(said) == 1, p.stderr[-600:])


def told_differently(tmp):
    """Over sockets, which need nothing: another seed, and another file of rows, at the last."""
    few = tmp / "few.jsonl"
    few.write_text("".join((tmp / "rows.jsonl").read_text().splitlines(True)[:-1]))
    for name, more in (("seed", ("--seed", "7")), ("rows", ("--data", few))):
        group = Sockets(words(tmp, f"other-{name}", "--dp", "2"), 2, last=more)
        status = group.wait(HANG_S)
        expect(f"ranks of another {name}", status == [2, 2] and
               all("rank 1 has other options or other rows" in group.said(r) for r in (0, 1)),
               f"{status} {group.said()}")


def as_gpus(tmp):
    """Ranks whose device is the twin of a GPU, whose memory the host cannot read: the CPU's bits."""
    plug = pathlib.Path(TANDEM).resolve().parent / "tests/fake/cuda/plug.so"
    if not plug.exists():
        print("skipped: the GPU's twin is not built here")
        return
    for rank, size in ((4, ("--tp", "2")), (0, ("--dp", "2"))):
        for device in ("cpu", "cuda"):
            os.environ |= {"TANDEM_CUDA_PLUG": str(plug), "TANDEM_KERNELS": "ref"}
            train(tmp, f"{device}{rank}", *size, "--device", device, rank=rank, epochs=1)
        expect(f"{size}: the GPU's bits", file_of(tmp, f"cpu{rank}", rank) ==
               file_of(tmp, f"cuda{rank}", rank))
    del os.environ["TANDEM_CUDA_PLUG"], os.environ["TANDEM_KERNELS"]


def children(pid):
    """Processes below pid that are tandem."""
    found, left = [], [pid]
    while left:
        at = left.pop()
        try:
            more = pathlib.Path(f"/proc/{at}/task/{at}/children").read_text().split()
            name = pathlib.Path(f"/proc/{at}/comm").read_text().strip()
        except OSError:
            continue
        left += map(int, more)
        found += [at] if name == "tandem" else []
    return found


def is_gone(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z"
    except OSError:
        return True


def one_kill(command, rng):
    """Kills one of the processes that the command starts, at some moment; the seconds until all of
    them are gone, and what was said. A launcher may hang in its own end when a process is killed
    while it enters (Open MPI 4.1 does, in PMIx_server_finalize): that is not ours to wait for."""
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                          text=True) as q:
        time.sleep(rng.uniform(0.1, 1.0))
        ranks = children(q.pid)
        begin = time.monotonic()
        if ranks:
            with contextlib.suppress(ProcessLookupError):  # it was at its end meanwhile
                os.kill(rng.choice(ranks), signal.SIGKILL)
        while any(not is_gone(r) for r in ranks) and time.monotonic() < begin + HANG_S:
            time.sleep(0.02)
        took = time.monotonic() - begin
        try:
            said = q.communicate(timeout=END_S / 3)[1]
        except subprocess.TimeoutExpired:
            print("the launcher hangs behind its ranks' end")
            q.kill()
            said = q.communicate()[1]
    return took, said


def killed(tmp):
    """Of a tensor group, and of a data group, one process at some moment; then the same command goes
    on to the end."""
    rng = random.Random(9)
    moments, slowest = 50 if FULL else 3, 0
    for i in range(moments):
        size = (("--tp", "2"), ())[i % 2]
        out = "killed" + "".join(size)
        straight = "whole" + "".join(size)
        if i < 2:
            train(tmp, straight, *size, n_mpi=2)
        shutil.rmtree(tmp / out, ignore_errors=True)
        took, said = one_kill([*map(str, words(tmp, out, *size, n_mpi=2))], rng)
        slowest = max(slowest, took)
        expect(f"kill {i}: all end", took < HANG_S, said[-400:])
        p = train(tmp, out, *size, n_mpi=2)
        got, want = losses(tmp, out), losses(tmp, straight)
        expect(f"kill {i}: the same losses", got == want, f"{p.stderr[:300]} {got} {want}")
        expect(f"kill {i}: the same adapter", file_of(tmp, out) == file_of(tmp, straight))
    if FULL:
        expect("all end within 10 s", slowest < END_S, f"{slowest:.1f} s")
    print(f"{moments} kills, the slowest end after {slowest:.2f} s")


def main():
    with tempfile.TemporaryDirectory() as name:
        tmp = pathlib.Path(name)
        with open(tmp / "rows.jsonl", "w", encoding="utf-8") as f:
            for i in range(24):
                f.write(json.dumps({"messages": [
                    {"role": "user", "content": f"What is number {i}?"},
                    {"role": "assistant", "content": f"It is {i * 7 % 10}."}]}) + "\n")
        as_threads(tmp)
        other_sizes(tmp)
        with_codes(tmp)
        as_gpus(tmp)
        told_differently(tmp)
        if has_mpi():
            as_processes(tmp)
            killed(tmp)
        else:
            cases.skip("processes", "no MPI here (make deps SETS=mpi installs one)")
    return cases.end()


sys.exit(main())
