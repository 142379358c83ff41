#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What README.md and docs/*.md tell people to type, typed. The blocks that are fenced as ```sh are run in
order, a shell and a server for each page. A block without a language right behind one, or a quotation,
is what it prints, where `...` stands for anything. Of a block behind `<!-- not run: WHY -->` only the syntax is
read. In all code, indented too, every `tandem COMMAND --option` must be one that there is.

Faults they can catch: a command that was renamed, an option that is gone, a body that the server
refuses, an answer that looks otherwise by now.

Where a page runs, MODEL is a model, ADAPTER an adapter of it and CONFIG says how to train one;
localhost:8080 is a server of MODEL as `base` with a data directory and that folder as its folder of
adapters, the port at which ranks meet is a free one, and the examples are there.
README's server has the bundled model instead, where there is one. `tandem tune` is given a seed, so that
what a model has learnt does not hang on a draw. `tandem serve` starts on a port of its
own, must become ready, and is ended; `make` is not run, tests/fresh does that. The hub is a twin, whose Qwen/Qwen3-0.6B
is MODEL; a virtual environment of Python has a pip that installs nothing.

Standard library only."""
import json
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tests/lib"))
from hub import Hub  # noqa: E402
from ranks import held_port  # noqa: E402
from serving import BIN, MODE, SLOW, Cases, Tandem, few_facts, make_model, scratch  # noqa: E402

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
FENCE = re.compile(r"(?:<!-- not run: ([^>]+) -->\n)?^```(\w*)\n(.*?)^```$", re.M | re.S)
QUOTE = re.compile(r"\n*((?:^> .*\n)+)", re.M)
BUNDLED = ROOT / "examples/tiny/model"
FACTS, SAID = 10, 12  # the fewest that a job takes, and half of what each row says: a twelfth of the time
SECONDS = 600 * SLOW

# A request that is refused fails its block; a page's `tandem serve` does not stay.
PRELUDE = """set -euo pipefail
curl() { command curl --fail-with-body --no-progress-meter "$@"; }
make() { :; }
python3() {
    [ "${1:-} ${2:-}" = "-m venv" ] || { command python3 "$@"; return; }
    mkdir -p "$3/bin" && printf '#!/bin/bash\n[ "$1" = install ] && [ $# -gt 1 ]\n' >"$3/bin/pip" && chmod 755 "$3/bin/pip"
}
"""
SERVE = """#!/bin/bash
set -u
[ "${1:-}" = tune ] && set -- "$@" --seed 1
[ "${1:-}" = serve ] || exec %(bin)s "$@"
log=$(mktemp)
%(bin)s "$@" --port 0 --drain-delay 0 --kv-memory 16M 2>"$log" &
server=$!
until grep -q ' ready ' "$log"; do
    kill -0 $server 2>/dev/null || { cat "$log" >&2; exit 1; }
    sleep 0.05
done
kill $server
wait $server
"""


class Block:
    """A fenced block of a page: what is typed, what it shows, and why it is not run."""

    def __init__(self, text, why):
        self.text, self.why, self.shows = text, why, None


def blocks(page):
    out, end = [], 0
    text = page.read_text()
    for m in FENCE.finditer(text):
        if m[2] in ("sh", "bash"):
            out.append(Block(m[3], m[1]))
            quoted = QUOTE.match(text, m.end())
            out[-1].shows = re.sub("^> ", "", quoted[1], flags=re.M) if quoted else None
        elif out and not m[2] and not text[end:m.start()].strip():
            out[-1].shows = m[3]
        end = m.end()
    return out


def train(tmp):
    """A model, an adapter of it, and a configuration that trains another."""
    rows = [{"prompt": f"{i} is", "completion": f" {i}."} for i in range(12)]
    (tmp / "rows.jsonl").write_text("".join(json.dumps(r) + "\n" for r in rows))
    make_model(tmp / "MODEL", "--ctx", 512)
    subprocess.run([BIN, "train", "--model", tmp / "MODEL", "--data", tmp / "rows.jsonl", "--out",
                    tmp / "out", "--epochs", "1", "--rank", "2"], check=True,
                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    (tmp / "out/adapter").rename(tmp / "ADAPTER")
    (tmp / "CONFIG").write_text(f"model = MODEL\ndata = {tmp}/rows.jsonl\nout = trained\nrank = 2\n")


def folder(page, tmp):
    """Where a page's blocks are run: what pages speak of, copied, since blocks write where they are."""
    where = tmp / page.stem
    (where / "bin").mkdir(parents=True)
    for name in ("MODEL", "ADAPTER"):
        shutil.copytree(tmp / name, where / name)
    shutil.copy(tmp / "CONFIG", where)
    for name in ("examples", "clients/examples"):
        if (ROOT / name).exists():
            shutil.copytree(ROOT / name, where / name)
    facts = where / "examples/tiny/facts.jsonl"
    if facts.exists():
        facts.write_text(few_facts(facts, FACTS, SAID))
    (where / "build").mkdir()
    for name in ("bin/tandem", "build/tandem"):
        (where / name).write_text(SERVE % {"bin": shlex.quote(str(ROOT / BIN))})
        (where / name).chmod(0o755)
    return where


def hub_of(model):
    return Hub({p.name: p.read_bytes() for p in sorted(model.iterdir())}, repo="Qwen/Qwen3-0.6B")


def typed(page, found, where, server, ranks_meet, hub):
    """Runs the blocks; returns what each printed."""
    script = PRELUDE + "".join(f"printf '\\n@@ {i}\\n' | tee /dev/stderr\n{b.text}\n"
                               for i, b in enumerate(found))
    script = script.replace("localhost:8080", f"localhost:{server.port}")
    script = script.replace("MASTER_PORT=29500", f"MASTER_PORT={ranks_meet.getsockname()[1]}")
    env = {k: v for k, v in os.environ.items() if not k.startswith("TANDEM_")}
    env |= {"PATH": f"{where}/bin:{env['PATH']}", "HOME": str(where), "NO_COLOR": "1",
            "TANDEM_URL": server.url, "TMPDIR": str(where),
            **hub.env(where / "hub")}
    p = subprocess.run(["bash", "-c", script], cwd=where, env=env, stdin=subprocess.DEVNULL,
                       stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False,
                       timeout=SECONDS)
    printed = re.split(r"\n@@ \d+\n", p.stdout)[1:]
    if p.returncode != 0:
        fault = p.stderr.rsplit("@@ ", 1)[-1]
        raise AssertionError(f"{page.name}: {found[len(printed) - 1].text}prints {printed[-1]!r}, "
                             f"{fault!r} and ends with {p.returncode}")
    return printed


def fits(shown, printed):
    """`...` is anything; white space may be laid out otherwise."""
    parts = [r"\s*".join(map(re.escape, part.split())) for part in shown.split("...")]
    return re.fullmatch(r"\s*.*?\s*".join(parts), printed.strip(), re.S)


def page_runs(page, tmp):
    found = blocks(page)
    for b in found:
        p = subprocess.run(["bash", "-n"], input=b.text, text=True, capture_output=True, check=False)
        assert p.returncode == 0, f"{page.name}: {b.text}{p.stderr}"
    runs = [b for b in found if not b.why]
    if not runs:
        return f"{len(found)} blocks, none to be run"
    where = folder(page, tmp)
    served = [BUNDLED, "--name", "tandem-tiny"] if page.name == "README.md" and BUNDLED.exists() else [
        tmp / "MODEL", "--name", "base"]
    with Tandem(*served, "--data-dir", tmp / f"{page.stem}.data", "--kv-memory", "64M",
                "--adapter-root", where, "--no-access-log") as server, held_port() as ranks_meet, \
            hub_of(tmp / "MODEL") as hub:
        printed = typed(page, runs, where, server, ranks_meet, hub)
    for b, said in zip(runs, printed):
        assert b.shows is None or fits(b.shows, said), f"{page.name}: {b.text}prints {said}"
    return f"{len(runs)} of {len(found)} blocks run"


def code(page):
    """Each line of code, and each piece of code in a line; continued lines as one."""
    text = page.read_text().replace("\\\n", " ")
    inside = False
    for line in text.splitlines():
        if line.startswith("```"):
            inside = not inside
        elif inside or line.startswith("    "):
            yield line
        else:
            yield from re.findall(r"`([^`]+)`", line)


def helps():
    """Command -> the text of its --help."""
    listed = subprocess.run([BIN, "help"], stdout=subprocess.PIPE, text=True, check=True).stdout
    names = re.findall(r"^  tandem ([a-z]+(?: [a-z]+)?)\b", listed, re.M)
    return {n: subprocess.run([BIN, *n.split(), "--help"], stdout=subprocess.PIPE, text=True,
                              check=True).stdout for n in names}


def options_exist():
    known, n = helps(), 0
    for page in PAGES:
        for line in code(page):
            for call in re.findall(r"(?:^|[\s/;(|])tandem ([a-z]+(?!\S)[^;|>)#]*)", line):
                words = call.split()
                name = " ".join(words[:2]) if " ".join(words[:2]) in known else words[0]
                if name not in known and any(k.startswith(name + " ") for k in known):
                    continue  # a family of commands
                assert name in known, f"{page.name}: no command in {line!r}"
                for option in re.findall(r"(?<!\S)\[?(--[a-z][a-z-]*)", call):
                    assert option == "--help" or re.search(rf"{option}\b(?!-)", known[name]), \
                        f"{page.name}: tandem {name} has no {option}: {line!r}"
                    n += 1
    return f"{n} options of {len(known)} commands"


def main():
    cases = Cases()
    if MODE != "release":
        cases.skip("the pages", "they are typed to the release build")
        return cases.end()
    cases.run("options exist", options_exist)
    with scratch() as tmp:
        train(tmp)
        for page in PAGES:
            if page.stem not in ("operator", "tutorial-operator"):  # a machine is played: test_operator.py
                cases.run(page.name, lambda p=page: page_runs(p, tmp))
    return cases.end()


if __name__ == "__main__":
    sys.exit(main())
