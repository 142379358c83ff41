# SPDX-License-Identifier: Apache-2.0
"""What the scripts of this folder share: commands with a limit of time, sections of which none takes
another down, and a report that stands in its file as soon as it is known. Standard library only."""
import contextlib
import json
import os
import pathlib
import platform
import signal
import subprocess
import time
import traceback

from machine import cuda_environment

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("TANDEM_BUILD", "build/release"))
OUT = pathlib.Path(os.environ.get("OUT", "build/gpu")).resolve()
FAKE = os.environ.get("GPU") == "fake"
PLUG = (ROOT / BUILD / "tests/fake/cuda/plug.so").resolve()


class Report:
    """Sections one after another until the time is up; every line is on the screen and in the file at
    once, and the figures behind every section, so that a run that is cut short has told what it saw."""

    def __init__(self, name, minutes):
        OUT.mkdir(parents=True, exist_ok=True)
        self.file = open(OUT / f"{name}.txt", "w", encoding="utf-8")
        self.begin = time.monotonic()
        self.end = self.until = self.begin + minutes * 60
        self.passed = self.failed = self.left_out = 0
        self.figures, self.aims = {}, []
        self.name = name
        signal.signal(signal.SIGTERM, self.cut_short)
        self.say(f"# {name}, {time.strftime('%Y-%m-%d %H:%M:%S')}, {platform.platform()}")

    def cut_short(self, *_):
        raise SystemExit("ended from outside")

    def say(self, text):
        print(text, flush=True)
        self.file.write(text + "\n")
        self.file.flush()

    def left(self):
        return min(self.end, self.until) - time.monotonic()

    # ---- sections ----

    def section(self, title, most, fn, *args, least=10):
        """fn(self, *args) within `most` seconds; what goes wrong in it is told, and is no other's."""
        if self.end - time.monotonic() < least:
            self.leave_out(title, "the time is up")
            return
        began = time.monotonic()
        self.until = began + most
        self.say(f"---- {title} ({began - self.begin:.0f} s)")
        try:
            fn(self, *args)
        except Exception as fault:  # pylint: disable=broad-except
            self.failed += 1
            self.say(f"FAIL      {title}: {type(fault).__name__}: {fault}")
            self.quote(traceback.format_exc().splitlines()[-3:])
        finally:
            self.until = self.end
            self.write()

    def leave_out(self, what, why):
        self.left_out += 1
        self.say(f"left out  {what}: {why}")

    def quote(self, lines):
        for line in lines:
            self.say("          | " + line[:300])

    # ---- commands ----

    def run(self, *words, most=120, env=None):
        """A command's status and what it said; status 124 when its time was up, and then what it had
        said so far. What it started ends with it."""
        env = {**cuda_environment(), "TANDEM_BUILD": str(BUILD), "PYTHONUNBUFFERED": "1",
               "TANDEM_BIN": str(BUILD / "tandem"), **(env or {})}
        most = min(most, self.left())
        if most < 1:
            return 124, "", "no time was left for it"
        try:
            p = subprocess.Popen(list(map(str, words)), cwd=ROOT, stdin=subprocess.DEVNULL,
                                 stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                 errors="replace", env=env, start_new_session=True)
        except OSError as fault:
            return 127, "", str(fault)
        try:
            out, err = p.communicate(timeout=most)
            return p.returncode, out, err
        except subprocess.TimeoutExpired:
            end_group(p)
            out, err = p.communicate()
            return 124, out, err + f"\nits time was up after {most:.0f} s"
        except BaseException:
            end_group(p)
            raise

    def step(self, name, *words, most=120, least=5, env=None, lines=12):
        """A command that is good when its status is 0."""
        if self.left() < least:
            self.leave_out(name, "the time is up")
            return ""
        began = time.monotonic()
        status, out, err = self.run(*words, most=most, env=env)
        self.verdict(f"{name} ({time.monotonic() - began:.1f} s)"
                     + (f", status {status}" if status else ""), status == 0, out + err, lines)
        return out

    def verdict(self, name, good, said="", lines=6):
        self.passed, self.failed = self.passed + bool(good), self.failed + (not good)
        self.say(f"{'ok  ' if good else 'FAIL'}      {name}")
        self.quote([] if good else said.splitlines()[-lines:])

    # ---- figures ----

    def figure(self, name, value, note=""):
        self.figures[name] = value
        self.say(f"figure    {name} = {value} {note}".rstrip())

    def aim(self, name, value, aim, unit, at_most=False):
        """What is aimed for, and whether it was reached; value None: not measured."""
        reached = value is not None and (value <= aim if at_most else value >= aim)
        self.aims.append({"name": name, "value": value, "aim": aim, "unit": unit,
                          "at_most": at_most, "reached": reached})

    def show_aims(self):
        self.say("---- aims")
        for a in self.aims:
            word = "pass" if a["reached"] else "open" if a["value"] is None else "short"
            value = "not measured" if a["value"] is None else f"{a['value']:.3g} {a['unit']}"
            self.say(f"aim {word:<5} {a['name']}: {value}, aim {'at most' if a['at_most'] else 'at least'}"
                     f" {a['aim']:g} {a['unit']}")

    def write(self):
        path = OUT / f"{self.name}.json"
        new = path.with_suffix(".new")
        new.write_text(json.dumps({"figures": self.figures, "aims": self.aims, "passed": self.passed,
                                   "failed": self.failed, "left_out": self.left_out}, indent=1))
        new.replace(path)

    def close(self):
        if self.aims:
            self.show_aims()
        self.write()
        self.say(f"{self.passed} passed, {self.failed} failed"
                 + (f", {self.left_out} left out" if self.left_out else "")
                 + f", {time.monotonic() - self.begin:.0f} s")
        return self.failed > 0


def end_group(p):
    """A server that a script started holds the GPU's memory until it is gone too."""
    with contextlib.suppress(OSError):
        os.killpg(p.pid, signal.SIGKILL)


def lines_of_json(text):
    return [json.loads(line) for line in text.splitlines() if line.startswith("{")]


def gpu_environment():
    """Of programs that are to take the GPU, or the twin of one."""
    if FAKE:
        return {"TANDEM_CUDA_PLUG": str(PLUG), "TANDEM_NCCL": str(PLUG), "TANDEM_DEVICE": "cuda"}
    return {"TANDEM_DEVICE": "cuda", "TEST_GPU": "1",
            "TANDEM_CUDA_KERNELS": str((ROOT / BUILD / "libtandem_cuda.so").resolve())}


def describe(r):
    """The machine, first of all."""
    for words in (("nvidia-smi", "--query-gpu=name,driver_version,memory.total,memory.used,clocks.sm,"
                   "clocks.max.sm,clocks.mem,power.limit", "--format=csv"),
                  ("nproc",), ("free", "-g"), ("df", "-h", "/dev/shm", "/tmp"),
                  (BUILD / "tandem", "doctor")):
        status, out, err = r.run(*words, most=30, env=gpu_environment())
        r.quote((out + (err if status else "")).splitlines())
    found = {k: v for k, v in cuda_environment().items() if k in ("TANDEM_NCCL", "LD_LIBRARY_PATH")}
    r.quote(f"{k}={v}" for k, v in found.items())
