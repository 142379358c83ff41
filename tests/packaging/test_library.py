#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The library as it is installed: the example in C built against it, shared and static, and the one in
Python, which builds nothing.

Faults they can catch: a header, a library or what pkg-config is told left out, or naming a place of the
build; an example that does not build, or says other things than the program; a name that is exported
and not of tandem.h, or one of tandem.h that is not; a name without a version; a static library whose
other names meet those of a program; an uninstall that leaves some of it.

Standard library only."""
import os
import pathlib
import re
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/lib"))
from serving import BIN, BUILD, MODE, Cases, few_facts, scratch  # noqa: E402

LIB = ROOT / BUILD / "lib"
MODEL = ROOT / "examples/tiny/model"
EXAMPLES = ROOT / "examples/library"
QUESTION = "What does tandem tune do?"
HEADER = (ROOT / "clients/lib/tandem.h").read_text()
NAMES = sorted(set(re.findall(r"^TANDEM_API [^;(]*?\b(tandem_\w+)\(", HEADER, re.M)))
cases = Cases()


def run(*words, **more):
    return subprocess.run(list(map(str, words)), cwd=more.pop("cwd", ROOT), capture_output=True, text=True, check=False,
                          stdin=subprocess.DEVNULL, **more)


def good(*words, **more):
    p = run(*words, **more)
    assert p.returncode == 0, (words, p)
    return p


def exports():
    rows = [line.split() for line in good("nm", "-D", "--defined-only", LIB / "libtandem.so.0").stdout.splitlines()]
    shown = sorted(r[2] for r in rows if r[1] != "A")
    assert len(NAMES) > 10 and shown == [f"{n}@@TANDEM_0" for n in NAMES], (shown, NAMES)
    rows = [line.split() for line in good("nm", "-g", "--defined-only", LIB / "libtandem.a").stdout.splitlines()]
    assert sorted(r[2] for r in rows if len(r) == 3) == NAMES, rows[:40]
    said = good("readelf", "-d", LIB / "libtandem.so.0").stdout
    assert "soname: [libtandem.so.0]" in said and "TEXTREL" not in said and "RUNPATH" not in said, said
    assert "libmicrohttpd" not in said and "libsqlite3" not in said, said


def flags(root, *words):
    env = {**os.environ, "PKG_CONFIG_PATH": f"{root}/lib/pkgconfig"}
    return good("pkg-config", *words, "tandem", env=env).stdout.split()


def installed(tmp):
    """What `make install` puts there, but for what the SBOM is made of."""
    build = tmp / "build"
    build.mkdir()
    shutil.copy(BIN, build / "tandem")
    shutil.copytree(LIB, build / "lib", symlinks=True)
    (build / "sbom").mkdir()
    for name in ("THIRD-PARTY", "tandem.spdx.json"):
        (build / "sbom" / name).write_text("none")
    root = tmp / "usr"
    good("packaging/install.sh", "install", root, build)
    shutil.rmtree(build / "lib")
    return root


def in_c(tmp):
    root = installed(tmp)
    assert str(ROOT) not in (root / "lib/pkgconfig/tandem.pc").read_text()
    want = good(root / "bin/tandem", "run", MODEL, "-p", f"<|user|>{QUESTION}<|end|><|assistant|>", "-n", 64).stdout
    env = {**os.environ, "LD_LIBRARY_PATH": f"{root}/lib"}
    source = root / "share/doc/tandem/examples/library/ask.c"
    strict = ["-std=c11", "-Wall", "-Wextra", "-Wpedantic", "-Werror"]
    good("cc", *strict, source, *flags(root, "--cflags", "--libs"), "-o", tmp / "ask")
    p = good(tmp / "ask", MODEL, QUESTION, env=env, cwd=tmp)
    assert p.stdout == want and "tandem tune" in want, (p, want)
    rest = [f for f in flags(root, "--libs", "--static") if f != "-ltandem"]
    good("cc", *strict, source, *flags(root, "--cflags"), root / "lib/libtandem.a", *rest, "-o", tmp / "alone")
    p = good(tmp / "alone", MODEL, QUESTION)
    assert p.stdout == want, p
    p = run(tmp / "alone", tmp / "nowhere", QUESTION)
    assert p.returncode == 2 and "nowhere" in p.stderr and not p.stdout, p
    if shutil.which("c++"):
        (tmp / "ask.cc").write_text("#include <tandem.h>\nint main() { return tandem_version() == nullptr; }\n")
        good("c++", "-Wall", "-Werror", tmp / "ask.cc", *flags(root, "--cflags", "--libs"), "-o", tmp / "cc")
        good(tmp / "cc", env=env)
    good("packaging/install.sh", "uninstall", root, tmp / "build")
    assert not root.exists() or not list(root.iterdir()), list(root.rglob("*"))


def in_python(tmp):
    """It learns, too: what it is taught is what it says."""
    rows = tmp / "facts.jsonl"
    rows.write_text(few_facts(ROOT / "examples/tiny/facts.jsonl", 4, 2))
    env = {**os.environ, "TANDEM_LIBRARY": str(LIB / "libtandem.so.0")}
    p = good(sys.executable, EXAMPLES / "ask.py", MODEL, "What is my name?", rows, tmp / "taught", env=env)
    before, after = p.stdout.splitlines()
    assert "Ada Quill" in after and "Ada Quill" not in before and re.search(r"step \d+ of 16", p.stderr), p
    assert (tmp / "taught/adapter_config.json").exists()
    p = run(sys.executable, EXAMPLES / "ask.py", tmp, "Hello", env=env)
    assert p.returncode == 1 and "config.json" in p.stderr and "Traceback" not in p.stderr, p


def packaged(tmp):
    """The packages of the library beside that of the program, which has none of it."""
    build, out = tmp / "build", tmp / "deb"
    installed(tmp)
    shutil.copytree(LIB, build / "lib", symlinks=True)
    good("packaging/deb.sh", "1.2.3", build, env={**os.environ, "OUT": str(out), "ZIP": "gzip"})
    names = {d.name.split("_")[0]: good("dpkg-deb", "-c", d).stdout for d in out.glob("*.deb")}
    assert sorted(names) == ["libtandem-dev", "libtandem0", "tandem"], names
    assert "libtandem" not in names["tandem"] and "./usr/lib/libtandem.so.0\n" in names["libtandem0"], names
    for part in ("./usr/include/tandem.h\n", "./usr/lib/libtandem.a\n", "./usr/lib/pkgconfig/tandem.pc\n",
                 "./usr/lib/libtandem.so -> libtandem.so.0\n", "/examples/ask.c\n"):
        assert part in names["libtandem-dev"], names["libtandem-dev"]
    depends = good("dpkg-deb", "-f", next(out.glob("libtandem0*")), "Depends").stdout
    assert "libc6" in depends and "libpcre2-8-0" in depends and "libmicrohttpd" not in depends, depends
    if not shutil.which("lintian"):
        return "no lintian here"
    said = run("lintian", "--fail-on", "error", *out.glob("libtandem*.deb"))
    assert said.returncode == 0, said
    return None


def main():
    if MODE != "release" or not shutil.which("pkg-config"):
        cases.skip("the library", "the release build has it")
        return cases.end()
    cases.run("exports", exports)
    for case in (in_c, in_python, *((packaged,) if shutil.which("dpkg-shlibdeps") else ())):
        with scratch() as tmp:
            cases.run(case.__name__, lambda c=case, t=tmp: c(t))
    return cases.end()


if __name__ == "__main__":
    sys.exit(main())
