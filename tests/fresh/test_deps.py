#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""deps.sh on machines that are made of a few small programs: who is neither root nor has sudo gets the
whole line to be typed; what is missing is asked of the archive by a name that it has.

Faults they can catch: a line of which a log's end is shown; a package of a version that the distribution
does not have; apt-get called by somebody who may not.

Standard library only."""
import pathlib
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/lib"))
from serving import Cases, scratch  # noqa: E402

TOOLS = ("bash", "env", "echo", "xargs", "sort", "dirname", "mkdir", "tail", "grep", "cat", "uname", "touch", "make", "xz")


def machine(tmp, **programs):
    """A tree with the script, and a folder of programs."""
    (tmp / "tests/fresh").mkdir(parents=True)
    shutil.copy(ROOT / "tests/fresh/deps.sh", tmp / "tests/fresh/deps.sh")
    own = tmp / "bin"
    own.mkdir()
    for tool in TOOLS:
        (own / tool).symlink_to(shutil.which(tool))
    for name, text in {"id": "echo 1000", "pkg-config": "exit 1", "apt-get": "touch called; exit 1",
                       "apt-cache": "exit 0", **programs}.items():
        (own / name.replace("_", "-")).write_text(f"#!{shutil.which('bash')}\n{text}\n")
        (own / name.replace("_", "-")).chmod(0o755)
    return own


def deps(tmp, *sets, **env):
    return subprocess.run([tmp / "tests/fresh/deps.sh", *sets], capture_output=True, text=True,
                          env={"PATH": str(tmp / "bin"), **env}, check=False)


def whole_line(tmp):
    machine(tmp)
    said = deps(tmp, "build", "test")
    line = said.stderr.strip()
    assert said.returncode != 0 and "\n" not in line, said
    assert "As root: apt-get install --no-install-recommends " in line, said
    for package in ("gcc", "libcjson-dev", "libjemalloc-dev", "libcmocka-dev", "python3-venv"):
        assert f" {package}" in line, (package, said)
    assert not (tmp / "called").exists()


def other_version(tmp):
    own = machine(tmp, apt_cache='[ "$2" != clang-format-14 ]')
    said = deps(tmp, "lint", DEPS="check")
    assert "clang-format " in said.stdout.replace("\n", " ") and "clang-format-14" not in said.stdout, said
    (own / "apt-cache").write_text(f"#!{shutil.which('bash')}\nexit 0\n")
    assert "clang-format-14" in deps(tmp, "lint", DEPS="check").stdout
    for name in ("clang-format", "python3", "git"):
        (own / name).symlink_to(shutil.which("true"))
    assert "nothing is missing" in deps(tmp, "lint", DEPS="check").stdout


def main():
    cases = Cases()
    for case in (whole_line, other_version):
        with scratch() as tmp:
            cases.run(case.__name__.replace("_", " "), lambda c=case, t=tmp: c(t))
    return cases.end()


if __name__ == "__main__":
    sys.exit(main())
