#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What people install, made of the program at hand by the scripts of packaging/.

Faults they can catch: a document, a licence or the model left out; a program that does not run where it
was installed; an uninstall that leaves something, or takes what is another's; a library that is linked
and not in the bill of materials, or without a licence; a package that lintian calls wrong.

Standard library only."""
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/lib"))
from serving import BIN, BUILD, MODE, Cases, scratch  # noqa: E402

ARCHIVES = sorted(p.name for p in (ROOT / "build/deps/lib").glob("*.a"))
PLUGS = sorted(map(str, pathlib.Path(BUILD).glob("libtandem_cuda.so")))


def run(*words, **more):
    return subprocess.run(list(map(str, words)), cwd=ROOT, capture_output=True, text=True, check=False, **more)


def good(*words, **more):
    p = run(*words, **more)
    assert p.returncode == 0, (words, p)
    return p


def sbom(out, archives=None):
    taken = ARCHIVES + (["libcudart_static.a"] if PLUGS else []) if archives is None else archives
    return run("packaging/sbom.sh", "1.2.3", out, " ".join(taken), BIN, *PLUGS)


def build_of(tmp):
    """A folder as the scripts take one: the program, and what it links."""
    build = tmp / "build"
    build.mkdir()
    shutil.copy(BIN, build / "tandem")
    p = sbom(build / "sbom")
    assert p.returncode == 0, p
    return build


def bill(tmp):
    p = sbom(tmp / "sbom")
    assert p.returncode == 0, p
    doc = json.loads((tmp / "sbom/tandem.spdx.json").read_text())
    packages = {x["name"]: x for x in doc["packages"]}
    needed = set(re.findall(r"NEEDED +(\S+)", good("objdump", "-p", BIN, *PLUGS).stdout))
    table = [line.split() for line in (ROOT / "packaging/libraries.txt").read_text().splitlines()
             if line and line[0] != "#"]
    for lib in sorted(needed) + ARCHIVES:
        row = next(r for r in table if lib.startswith(r[1]))
        assert packages[row[0]]["licenseDeclared"] == row[3].replace("_", " "), (lib, packages)
    ids = {x["SPDXID"] for x in doc["packages"]} | {"SPDXRef-DOCUMENT"}
    for r in doc["relationships"]:
        assert {r["spdxElementId"], r["relatedSpdxElement"]} <= ids, r
    notices = (tmp / "sbom/THIRD-PARTY").read_text()
    assert all(f"\n{name} " in notices for name in packages if name != "tandem"), notices[:500]
    first = (tmp / "sbom/tandem.spdx.json").read_bytes()
    sbom(tmp / "again")
    assert (tmp / "again/tandem.spdx.json").read_bytes() == first
    p = sbom(tmp / "none", ["libnobody.a"])
    assert p.returncode != 0 and "libnobody.a is linked" in p.stderr, p


def installed(tmp):
    build, root = build_of(tmp), tmp / "usr"
    mine = root / "bin/mine"
    mine.parent.mkdir(parents=True)
    mine.write_text("mine")
    good("packaging/install.sh", "install", root, build)
    doc = root / "share/doc/tandem"
    for name in ("LICENSE", "THIRD-PARTY", "tandem.spdx.json", "README.md", "CHANGELOG.md", "SECURITY.md",
                 "docs/operation.md", "docs/page.png", "docs/proxy/nginx.conf", "examples/tiny/facts.jsonl", "examples/clients/curl.sh"):
        assert (doc / name).stat().st_size > 0, name
    said = good(root / "bin/tandem", "run", "-p", "Hello", "-n", 2, env={"PATH": os.environ["PATH"]})
    assert said.stdout.strip(), said
    good("packaging/install.sh", "uninstall", root, build)
    left = [p for p in root.rglob("*") if p.is_file()]
    assert left == [mine], left
    assert [p.name for p in root.iterdir()] == ["bin"], list(root.iterdir())


def packages(tmp):
    build, out = build_of(tmp), tmp / "deb"
    good("packaging/deb.sh", "1.2.3", build, *PLUGS, env={**os.environ, "OUT": str(out), "ZIP": "gzip"})
    debs = sorted(out.glob("*.deb"))
    assert [d.name.split("_")[:2] for d in debs] == [["tandem-cuda", "1.2.3"]] * bool(PLUGS) + [["tandem", "1.2.3"]], debs
    names = good("dpkg-deb", "-c", debs[-1]).stdout
    for part in ("./usr/bin/tandem\n", "./etc/tandem.conf\n", "./usr/lib/systemd/system/tandem.service\n",
                 "./etc/logrotate.d/tandem\n", "./usr/share/doc/tandem/copyright\n", "./usr/share/tandem/tiny/model.safetensors\n"):
        assert part in names, (part, names)
    assert "libtandem_cuda" not in names
    depends = good("dpkg-deb", "-f", debs[-1], "Depends").stdout
    assert "libc6" in depends and "libpcre2-8-0" in depends, depends
    good(BIN, "serve", "--config", "packaging/tandem.conf", "--help")
    if not shutil.which("lintian"):
        return "no lintian here"
    said = run("lintian", "--fail-on", "error", *debs)
    assert said.returncode == 0, said
    return None


def options_are_known():
    """A line of the configuration that comes with it, also one that is commented out, is an option."""
    helped = good(BIN, "serve", "--help").stdout
    text = (ROOT / "packaging/tandem.conf").read_text()
    names = re.findall(r"^#?([a-z-]+) = ", text, re.M)
    assert len(names) > 3 and all(f"--{n} " in helped for n in names), names


def main():
    cases = Cases()
    if MODE != "release" or not shutil.which("objdump"):
        cases.skip("packages", "the release build is what is packed")
        return cases.end()
    cases.run("options are known", options_are_known)
    for case in (bill, installed, *((packages,) if shutil.which("dpkg-shlibdeps") else ())):
        with scratch() as tmp:
            cases.run(case.__name__, lambda c=case, t=tmp: c(t))
    return cases.end()


if __name__ == "__main__":
    sys.exit(main())
