#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Puts small faults into the program, one at a time, and says which of them the tests see.

    make mutate ARGS="[--n N] [--seed N] [--changed | --only PREFIX] [--budget SECONDS] [--keep FILE [--go-on]] [-j N]"

A sample is drawn by the seed from all the places of api/, clients/, engine/ and server/ where
tests/mutate/operators.py can make a fault (kernels have a reference beside them, and are held to it). The
file with the fault is compiled, and linked before the library into the tests nearest to it: those that saw another
fault of the file, the one that mirrors it, what near.txt says of the file itself, tests of its folder, those that
saw a fault of the folder, those from which it is the fewest calls away, then the rest of near.txt, until one
fails or the budget of seconds is spent. A test counts only if it passes without the fault, which is looked at once it
has failed with one; it is stopped at its first failure. What does not compile, or compiles to the same code, is
drawn again. All runs in a box (box.c) that can change files of its own alone. What tests are made of is compiled
quickly rather than well, and kept in build/mutate until a header changes; how long they took stands there too.

Who draws by the same seed from a tree that differs a little has the same faults but for those of the difference.

The last line is the figure; above it stand those that survived, to be explained, or seen by a better test."""
import argparse
import collections
import concurrent.futures
import contextlib
import filecmp
import hashlib
import json
import os
import pathlib
import re
import resource
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(HERE))
from operators import mutants  # noqa: E402

FOLDERS = ("api", "clients", "engine", "server")
LEAVES_OUT = ("engine/device/cuda/", "engine/comm/mpi.c", "clients/cli/main.c")
MEMORY = 20 << 30
NEAR_MOST = 8  # C tests that reach the file
LONG = 60  # seconds by the clock, of a test that was not timed yet
QUICK = ["-O0", "-g0", "-U_FORTIFY_SOURCE"]  # which wants more than that
LINKER = ["-fuse-ld=lld"] if shutil.which("ld.lld") else []  # less than half the time
TOOLS = ("comm_rank", "grammar_sample", "st_verdict")  # of tests/tools, that run what is tested
EMULATED = ("test_cuda_golden.c",)  # wants kernels that only make check-emu builds
LEAKS = ["-fsanitize=leak"]  # as make check's sanitizers see them
FAILED = re.compile(rb"\[  FAILED  \]|^FAIL ", re.M)


class Place:
    def __init__(self, path, text, mutant):
        self.path, self.text, (self.kind, self.begin, self.end, self.new) = path, text, mutant

    @property
    def changed(self):
        return self.text[:self.begin] + self.new + self.text[self.end:]

    @property
    def line(self):
        return self.text.count("\n", 0, self.begin) + 1

    @property
    def what(self):
        """All but the line, which moves."""
        old = " ".join(self.text[self.begin:self.end].split())
        return f"{self.path}: {self.kind}: {old[:60]} -> {self.new[:60]}"

    def __str__(self):
        return self.what.replace(": ", f":{self.line}: ", 1)


def tracked(only):
    names = subprocess.run(["git", "ls-files", "--", *[f"{x}/**.c" for x in FOLDERS]], cwd=ROOT, check=True,
                           capture_output=True, text=True).stdout.split()
    return [x for x in names if x.startswith(only) and not x.startswith(LEAVES_OUT)]


def changed_files():
    said = subprocess.run(["git", "diff", "--name-only", "main...HEAD"], cwd=ROOT, check=True, capture_output=True,
                          text=True).stdout.split()
    return set(said)


class Reach:
    """How many calls away a file is from what a test names: of two tests the one that comes sooner is nearer."""

    FAR = 5

    def __init__(self, build):
        self.calls, self.owner = {}, {}  # of objects by name: the symbols that they want; who has a symbol
        objects = [str(o.relative_to(build)) for x in FOLDERS for o in (build / x).rglob("*.o")]
        said = subprocess.run(["nm", "-A", "-g", *objects], cwd=build, check=True, capture_output=True, text=True).stdout
        for row in said.splitlines():
            where, kind, symbol = re.match(r"([^:]*):\s*[0-9a-f]*\s*(\w) (\S+)$", row).groups()
            wants = self.calls.setdefault(where, set())
            if kind == "U":
                wants.add(symbol)
            elif symbol != "main":
                self.owner.setdefault(symbol, []).append(where)

    def words(self, text, seen):
        """What a test names, itself or by what tests share."""
        words = set(re.findall(r"\w+", text))
        for name in re.findall(r'#include "(tests/[^"]*)\.h"', text):
            for path in (ROOT / f"{name}.h", ROOT / f"{name}.c"):
                if path not in seen and path.exists():
                    seen.add(path)
                    words |= self.words(path.read_text(encoding="utf-8"), seen)
        return words

    def of(self, text):
        """object: how far, and how many are as near."""
        words, far, depth = self.words(text, set()), {}, 0
        while words and depth < self.FAR:
            depth += 1
            new = {o for x in words for o in self.owner.get(x, ()) if o not in far}
            far.update((o, (depth, len(far) + len(new))) for o in new)
            words = set().union(*(self.calls[o] for o in new))
        return far


class Near:
    """Which tests are near to a file, the nearest first."""

    FAR = 4  # calls, and another folder counts as some

    def __init__(self, build):
        self.tests = {str(p.relative_to(ROOT)): p.read_text(encoding="utf-8")
                      for p in sorted((ROOT / "tests").glob("**/test_*.c"))
                      if "kernels" not in p.parts and p.name not in EMULATED}
        self.saw = collections.Counter()  # (file or folder, test): how many of its faults
        reach = Reach(build)
        self.far = {t: reach.of(text) for t, text in self.tests.items()}
        rows = [x.split() for x in (HERE / "near.txt").read_text(encoding="utf-8").splitlines()
                if x and not x.startswith("#")]
        self.rows = {row[0]: row[1:] for row in rows}
        assert all((ROOT / x).is_file() for row in rows for x in row[1:]), "near.txt names what there is not"

    def of(self, path):
        stem, folder = pathlib.PurePath(path).stem, str(pathlib.PurePath(path).parent)
        mirror = [t for t in self.tests if t.startswith(f"tests/{folder}/test_{stem}.")]

        def how_far(t):
            depth, n = self.far[t][f"{folder}/{stem}.o"]
            there = pathlib.PurePath(t).parts[1:-1]
            return depth + (there != tuple(folder.split("/"))) + 2 * (there[0] != folder.split("/")[0]), n
        reaching = sorted((t for t in self.tests if f"{folder}/{stem}.o" in self.far[t]), key=how_far)
        reaching = [t for t in reaching if how_far(t)[0] <= self.FAR]
        scripts = [str(p.relative_to(ROOT)) for p in sorted((ROOT / "tests" / folder).glob("test_*.py"))
                   if folder != "server" and 'BUILD / "tests" /' not in p.read_text(encoding="utf-8")]
        rows = {x: self.rows[x] for x in sorted(self.rows, key=len, reverse=True) if path.startswith(x)}
        own = [t for x, row in rows.items() if x.startswith(f"{folder}/") for t in row]
        rows = [t for row in rows.values() for t in row]
        every = dict.fromkeys(mirror + own + reaching[:NEAR_MOST] + rows + scripts[:3])

        def rank(t):
            is_beside = t.startswith(f"tests/{folder}/") and t.endswith(".c")
            classes = (self.saw[path, t] > 0, t in mirror, t in own, is_beside, self.saw[folder, t] > 0, t.endswith(".c"))
            return classes.index(True) if True in classes else len(classes)
        return sorted(every, key=rank)

    def has_seen(self, path, test):
        self.saw[path, test] += 1
        self.saw[str(pathlib.PurePath(path).parent), test] += 1


class Unlinked(Exception):
    """A twin of tests/fake stands for what a fault's file needs more of: such a test cannot be run with it."""


class Shelf:
    """What stays from run to run, as long as compiler, flags and headers do: objects of tests, and the seconds that
    tests took."""

    def __init__(self, words):
        sums = hashlib.sha256(" ".join(words).encode())
        for name in subprocess.run(["git", "ls-files", "-co", "--exclude-standard", "--", "*.h", "*.def"], cwd=ROOT,
                                   check=True, capture_output=True, text=True).stdout.split():
            sums.update((ROOT / name).read_bytes() if (ROOT / name).exists() else b"")
        self.at = ROOT / "build/mutate" / sums.hexdigest()[:16]
        self.times = ROOT / "build/mutate/seconds.json"
        for old in ROOT.glob("build/mutate/*/"):
            if old != self.at:
                shutil.rmtree(old)
        self.at.mkdir(parents=True, exist_ok=True)

    def object(self, source):
        text = hashlib.sha256((ROOT / source).read_bytes()).hexdigest()[:16]
        return self.at / f"{source.replace('/', '-')}-{text}.o"

    def seconds(self):
        return json.loads(self.times.read_text(encoding="utf-8")) if self.times.exists() else {}

    def put_seconds(self, took):
        self.times.write_text(json.dumps(took, indent=0, sort_keys=True), encoding="utf-8")


class Bench:
    """Compiles, links and runs, in folders of its own."""

    def __init__(self, opt):
        self.opt, self.build = opt, ROOT / "build/release"
        self.cc, self.cflags, self.libs = (os.environ[x].split() for x in ("MUTATE_CC", "MUTATE_CFLAGS", "MUTATE_LIBS"))
        self.objects = tempfile.TemporaryDirectory(prefix="tandem-mutate-")
        self.kept = pathlib.Path(self.objects.name)  # the build, as it is now: who builds meanwhile does not matter
        for name in ("libtandem.a", "libfake.a", "clients/cli/main.o", "tests/mutate/box"):
            shutil.copy(self.build / name, self.kept)
        self.base, self.lock, self.locks, self.near = {}, threading.Lock(), {}, Near(self.build)
        self.leaky = set()  # tests, without a fault
        self.shelf = Shelf([*self.cc, *self.cflags, *QUICK])
        self.took = self.shelf.seconds()  # of tests: of a run to its end, of a core and of the clock

    def compile(self, source, to, *more):
        return subprocess.run([*self.cc, *self.cflags, *more, "-c", source, "-o", to], cwd=ROOT, capture_output=True,
                              check=False).returncode == 0

    def compile_text(self, text, path, to):
        """As if it stood in the tree: what is the same code is the same object."""
        source = to.with_name(pathlib.PurePath(path).name)
        source.write_text(text, encoding="utf-8")
        return self.compile(str(source), str(to), f"-ffile-prefix-map={source.parent}={pathlib.PurePath(path).parent}")

    def link(self, objects, to, *more):
        """By the compiler's own linker where the quick one takes more of the library than twins leave room for."""
        for linker in (LINKER, []):
            p = subprocess.run([*self.cc, *self.cflags, *linker, *objects, str(self.kept / "libtandem.a"), *self.libs,
                                *more, "-o", str(to)], cwd=ROOT, capture_output=True, text=True, check=False)
            if not p.returncode:
                return
        raise Unlinked(p.stderr[-2000:])

    def object(self, source):
        """Of a test, or of what tests share; compiled once."""
        with self.lock:
            mine = self.locks.setdefault(source, threading.Lock())
        to = self.shelf.object(source)
        with mine:
            if not to.exists():
                new = self.kept / to.name
                assert self.compile(source, str(new), *QUICK), source
                shutil.move(new, to)
        return str(to)

    def program(self, test, fault, box):
        """The words that run a test; fault: an object, or None."""
        extra = [fault] if fault else []
        shared = [self.object(f"tests/lib/{x.name}") for x in sorted((ROOT / "tests/lib").glob("*.c"))]
        if test.endswith(".c"):
            at = box / test[:-2]
            at.parent.mkdir(parents=True, exist_ok=True)
            (box / "tests/tools").mkdir(exist_ok=True)
            with contextlib.suppress(FileExistsError):  # tests look for it above themselves
                (box / "tests/tools/make_model").symlink_to(self.build / "tests/tools/make_model")
            fake = [str(self.kept / "libfake.a")] if '"tests/fake/' in self.near.tests[test] else []
            self.link([self.object(test), *shared, *extra, *fake], at, "-lcmocka", *LEAKS)
            return [str(at)], {}
        tree = box / "tree"  # beside TMPDIR, which tests take for no part of it
        if not (tree / "build/tandem").exists():
            (tree / "build/tests/tools").mkdir(parents=True)
            (tree / "examples").symlink_to(ROOT / "examples")  # the program looks for it above itself
            tests = self.build / "tests"
            for x in [*(x for x in self.build.iterdir() if x.name not in ("tandem", "tests")), *tests.glob("[!t]*"),
                      *(tests / "tools").iterdir()]:
                (tree / "build" / x.relative_to(self.build)).symlink_to(x)
            self.link([str(self.kept / "main.o"), *extra], tree / "build/tandem")
        for x in TOOLS if test.startswith("tests/engine/") else ():
            if (at := tree / "build/tests/tools" / x).is_symlink():
                at.unlink()
                self.link([self.object(f"tests/tools/{x}.c"), *shared, *extra], at, "-lcmocka")
        return [sys.executable, "-S", test], {"TANDEM_BUILD": str(tree / "build"), "TANDEM_BIN": str(tree / "build/tandem")}

    @staticmethod
    def has_failed(p, out):
        """Whether it said so; else it has ended."""
        said, pid, looks = b"", os.pidfd_open(p.pid), [out]
        with contextlib.ExitStack() as at_end:
            at_end.callback(os.close, pid)
            while True:
                ready, _, _ = select.select([*looks, pid], [], [])
                if out in ready:
                    more = os.read(out, 65536)
                    looks = looks if more else []
                    said = said[-64:] + more
                    if FAILED.search(said):
                        return True
                elif pid in ready:
                    return False

    def run(self, test, fault, box, seconds):
        """Whether it passed, and the seconds that it took, of a core and of the clock."""
        words, env = self.program(test, fault, box)
        tmp, began = box / "tmp", time.monotonic()
        leaks = f"allocator_may_return_null=1:detect_leaks={int(test not in self.leaky)}"
        shutil.rmtree(tmp, ignore_errors=True)
        tmp.mkdir()
        data = os.environ.get("TANDEM_TEST_DATA", str(ROOT.parent / "shared/data"))
        p = subprocess.Popen(
            [self.kept / "box", box, *words], cwd=ROOT, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True,
            env={**os.environ, "TMPDIR": str(tmp), "TEST_MODE": "release", "TANDEM_TEST_DATA": data, "TEST_SEED": "1",
                 "LSAN_OPTIONS": leaks, **env},
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY)))
        late = threading.Timer(seconds, os.killpg, (p.pid, signal.SIGKILL))
        late.start()
        has_failed = self.has_failed(p, p.stdout.fileno())
        late.cancel()
        os.killpg(p.pid, signal.SIGKILL)  # what it left; its number is its own until it is waited for
        _, status, used = os.wait4(p.pid, 0)
        p.returncode = os.waitstatus_to_exitcode(status)
        p.stdout.close()
        took = used.ru_utime + used.ru_stime, time.monotonic() - began
        good = not has_failed and p.returncode == 0
        if good:
            self.took[test] = took
        return good, *took

    def baseline(self, test):
        """The seconds that it takes without a fault, of a core and of the clock; None: it does not pass here."""
        with self.lock:
            mine = self.locks.setdefault(f"{test} as a whole", threading.Lock())
        with mine, tempfile.TemporaryDirectory(prefix="tandem-mutate-") as box:
            if test not in self.base:
                good, *took = self.run(test, None, pathlib.Path(box), 300)
                if not good and test.endswith(".c"):
                    self.leaky.add(test)
                    good, *took = self.run(test, None, pathlib.Path(box), 300)
                self.base[test] = took if good else None
                if not good:
                    print(f"not used: {test} does not pass in the box", flush=True)
            return self.base[test]

    def sees(self, test, fault, box):
        """Whether it fails with the fault, and passes without it; and the seconds of a core that it took with it.
        Most tests pass with most faults, and need no run without it."""
        known, leaks = self.took.get(test), test in self.leaky
        limit = 30 + 5 * known[1] if known else LONG
        good, used, clock = self.run(test, fault, box, limit)
        base = None if good else self.baseline(test)
        if base and (clock >= limit or leaks != (test in self.leaky)):  # others may have held it up
            good, more, _ = self.run(test, fault, box, max(limit, 30 + 5 * base[1]))
            used += more
        return base is not None and not good, used

    def killer(self, place):
        """The test that sees the fault, None: none does; "": there is no fault to see."""
        with tempfile.TemporaryDirectory(prefix="tandem-mutate-") as at:
            box, built = pathlib.Path(at), self.build / pathlib.PurePath(place.path).with_suffix(".o")
            plain, fault = box / "plain.o", box / "fault.o"
            if not self.compile_text(place.changed, place.path, fault) or filecmp.cmp(built, fault, shallow=False):
                return ""
            spent = 0
            for test in self.near.of(place.path):
                took = self.took.get(test, (0, 0))
                if spent >= self.opt.budget or (spent and spent + took[0] > self.opt.budget):
                    continue
                with contextlib.suppress(Unlinked):
                    is_seen, used = self.sees(test, str(fault), box)
                    if is_seen:
                        return test
                    spent += used
            self.compile_text(place.text, place.path, plain)
            return "" if filecmp.cmp(plain, fault, shallow=False) else None


def draw(opt):
    names = tracked(opt.only)
    if opt.changed:
        names = [x for x in names if x in changed_files()]
    texts = {x: (ROOT / x).read_text(encoding="utf-8") for x in names}
    every = [Place(x, text, m) for x, text in texts.items() for m in mutants(text)]
    alike, rank = collections.Counter(), {}
    for x in every:
        words = f"{opt.seed} {alike[x.what]} {x.what}"
        rank[id(x)] = hashlib.sha256(words.encode()).digest()
        alike[x.what] += 1
    return sorted(every, key=lambda x: rank[id(x)])


def told(place, by):
    return f"killed   {place}, by {by}" if by else f"SURVIVED {place}"


def kept(path, every):
    """Of an earlier run's file: (place, the test that saw it; None: none did), as far as it still stands."""
    at, rows = collections.defaultdict(list), []
    for x in every:
        at[x.what].append(x)
    for row in pathlib.Path(path).read_text(encoding="utf-8").splitlines() if path and os.path.exists(path) else ():
        how, name, line, rest = re.match(r"(killed  |SURVIVED) ([^:]+):(\d+): (.*)", row).groups()
        what, _, by = rest.rpartition(", by ") if how == "killed  " else (rest, "", None)
        if not (same := at[f"{name}: {what}"]):
            print(f"gone: {row}")
            continue
        place = min(same, key=lambda x: abs(x.line - int(line)))
        same.remove(place)
        rows.append((place, by))
    return rows


def main():
    ap = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    ap.add_argument("--n", type=int, default=200)
    ap.add_argument("--seed", type=int, default=1)
    ap.add_argument("--changed", action="store_true", help="files that differ from branch main")
    ap.add_argument("--only", default="", help="files whose path begins so")
    ap.add_argument("--budget", type=float, default=60, help="seconds of a core, of tests for each fault")
    ap.add_argument("--minutes", type=float, default=1e9, help="no fault is begun behind them")
    ap.add_argument("--keep", help="a file of what was found, that a later run goes on from: it looks again at what "
                    "survived, then draws more")
    ap.add_argument("--go-on", action="store_true", help="what survived before is not looked at again")
    ap.add_argument("-j", type=int, default=1)
    opt = ap.parse_args()
    bench, every, end = Bench(opt), draw(opt), time.monotonic() + 60 * opt.minutes
    rows = kept(opt.keep, every)
    before = {id(place) for place, _ in rows}
    for place, by in rows:
        if by:
            bench.near.has_seen(place.path, by)
    places = iter([*rows, *((x, None) for x in every if id(x) not in before)])
    seen, survived, lock = [], [], threading.Lock()
    left = {id(place): told(place, by) for place, by in rows}

    def work():
        while time.monotonic() < end:
            with lock:
                place, by = next(places, (None, None)) if len(seen) < opt.n else (None, None)
            if place is None:
                return
            if not by and not (opt.go_on and id(place) in before):
                by = bench.killer(place)
            with lock:
                if by == "" or len(seen) >= opt.n:
                    continue
                seen.append(told(place, by))
                left.pop(id(place), None)
                print(seen[-1], flush=True)
                if opt.keep:
                    every_row = "".join(f"{x}\n" for x in [*seen, *left.values()])
                    pathlib.Path(opt.keep).write_text(every_row, encoding="utf-8")
                if by:
                    bench.near.has_seen(place.path, by)
                else:
                    survived.append(place)
                bench.shelf.put_seconds(bench.took)
    with concurrent.futures.ThreadPoolExecutor(opt.j) as pool:
        for job in [pool.submit(work) for _ in range(opt.j)]:
            job.result()
    bench.shelf.put_seconds(bench.took)
    print(*(f"SURVIVED {x}" for x in survived), sep="\n")
    n = len(seen)
    print(f"{n - len(survived)} of {n} faults seen ({100 * (n - len(survived)) / max(1, n):.0f}%), of {len(every)} "
          f"that can be made, seed {opt.seed}")


if __name__ == "__main__":
    main()
