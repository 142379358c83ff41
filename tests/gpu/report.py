# SPDX-License-Identifier: Apache-2.0
"""What the scripts of this folder share: the build that they run, commands with a limit of time in all,
and a report. Standard library only."""
import json
import os
import pathlib
import platform
import subprocess
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("TANDEM_BUILD", "build/release"))
OUT = pathlib.Path(os.environ.get("OUT", "build/gpu"))


class Report:
    """Steps one after another until the time is up; every line is on the screen and in the file at
    once, so that a run that is cut short has told what it saw."""

    def __init__(self, name, minutes):
        OUT.mkdir(parents=True, exist_ok=True)
        self.file = open(OUT / f"{name}.txt", "w", encoding="utf-8")
        self.end = time.monotonic() + minutes * 60
        self.passed = self.failed = self.left_out = 0
        self.figures = {}
        self.name = name
        self.say(f"# {name}, {time.strftime('%Y-%m-%d %H:%M:%S')}, {platform.platform()}")

    def say(self, text):
        print(text, flush=True)
        self.file.write(text + "\n")
        self.file.flush()

    def left(self):
        return self.end - time.monotonic()

    def run(self, *words, most=120, env=None):
        """A command's status and what it said; status 124 when its time was up."""
        try:
            p = subprocess.run(list(map(str, words)), cwd=ROOT, capture_output=True, text=True,
                               errors="replace", check=False, stdin=subprocess.DEVNULL,
                               timeout=max(1, min(most, self.left())),
                               env={**os.environ, "TANDEM_BUILD": str(BUILD),
                                    "TANDEM_BIN": str(BUILD / "tandem"), **(env or {})})
            return p.returncode, p.stdout, p.stderr
        except subprocess.TimeoutExpired as late:
            return 124, str(late.stdout or ""), f"its time was up: {late}"
        except OSError as fault:
            return 127, "", str(fault)

    def step(self, name, *words, most=120, least=5, env=None, lines=12):
        """A command that is good when its status is 0."""
        if self.left() < least:
            self.left_out += 1
            self.say(f"left out  {name}: the time is up")
            return ""
        began = time.monotonic()
        status, out, err = self.run(*words, most=most, env=env)
        good = status == 0
        self.passed, self.failed = self.passed + good, self.failed + (not good)
        self.say(f"{'ok  ' if good else 'FAIL'}      {name} ({time.monotonic() - began:.1f} s)"
                 + ("" if good else f", status {status}"))
        for line in ("" if good else out + err).splitlines()[-lines:]:
            self.say("          | " + line[:300])
        return out

    def figure(self, name, value, note=""):
        self.figures[name] = value
        self.say(f"figure    {name} = {value} {note}")

    def close(self):
        with open(OUT / f"{self.name}.json", "w", encoding="utf-8") as f:
            json.dump({"figures": self.figures, "passed": self.passed, "failed": self.failed,
                       "left_out": self.left_out}, f, indent=1)
        self.say(f"{self.passed} passed, {self.failed} failed"
                 + (f", {self.left_out} left out" if self.left_out else ""))
        return self.failed > 0


def describe(r):
    """The machine, first of all."""
    for words in (("nvidia-smi", "--query-gpu=name,driver_version,memory.total,clocks.max.sm",
                   "--format=csv"), ("nproc",), (BUILD / "tandem", "doctor")):
        _, out, err = r.run(*words, most=30)
        for line in (out + err).splitlines():
            r.say("          | " + line)
