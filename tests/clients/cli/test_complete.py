#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`tandem completion` and `tandem man`: what each shell offers, asked of the shell itself where it is
installed, and the page as groff reads it.

Faults they can catch: a command or flag that help has and a shell or the page has not; a quote in a
help text that breaks a script; a second word taken for a file; values of a choice that are not offered.

Standard library only."""
import os
import pathlib
import re
import shutil
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "lib"))
from serving import BIN, Cases, scratch  # noqa: E402

# what is typed, what must be offered, what must not
OFFERS = (
    (["tandem", "se"], {"serve"}, {"tune"}),
    (["tandem", "b"], {"bench"}, {"serve"}),
    (["tandem", "jobs", "c"], {"cancel", "checkpoints"}, {"get", "clients"}),
    (["tandem", "bench", ""], {"engine", "serve", "train"}, {"cancel"}),
    (["tandem", "jobs", "events", "--fo"], {"--follow"}, {"--limit"}),
    (["tandem", "jobs", "--l"], {"--limit"}, {"--follow"}),
    (["tandem", "serve", "--quantize", ""], {"int8", "bf16"}, {"serve"}),
    (["tandem", "tune", "rows.jsonl", "--ep"], {"--epochs"}, set()),
    (["tandem", "files", "upload", "row"], {"rows.jsonl"}, set()),
    (["tandem", "tune", "row"], {"rows.jsonl"}, set()),
)


def said(*words):
    return subprocess.run([os.path.abspath(BIN), *words], check=True, capture_output=True,
                          text=True).stdout


def commands():
    """Name -> its flags, as help shows them."""
    names = re.findall(r"^  tandem ([a-z ]*[a-z])", said("help"), re.M)
    return {n: set(re.findall(r"^  (?:    |-., )--(?:\[no-\])?([\w-]+)", said(*n.split(), "--help"),
                              re.M)) for n in names}


def bash(tmp, words):
    """The script in a shell of its own, and the function asked as readline would."""
    code = ('source "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _tandem; '
            'printf "%s\\n" "${COMPREPLY[@]}"')
    return set(subprocess.run(["bash", "-c", code, "bash", tmp / "bash", *words], check=True, cwd=tmp,
                              capture_output=True, text=True).stdout.split("\n"))


def fish(tmp, words):
    code = f"source {tmp / 'fish'}; complete -C '{' '.join(words)}'"
    out = subprocess.run(["fish", "--no-config", "-c", code], check=True, cwd=tmp,
                         capture_output=True, text=True,
                         env={**os.environ, "HOME": str(tmp)}).stdout
    return {line.split("\t")[0] for line in out.splitlines()}


def zsh(tmp, words):
    """With twins of the functions that would draw: what they are told is what would be offered."""
    code = ('compdef() { }; _describe() { print -l -- ${${(P)4}%%:*} }; '
            '_arguments() { print -l -- "$@" }; src=$1; shift; source $src; '
            'words=("$@"); CURRENT=$#; _tandem')
    out = subprocess.run(["zsh", "-f", "-c", code, "zsh", tmp / "zsh", *words], check=True, cwd=tmp,
                         capture_output=True, text=True).stdout
    offered = set()
    for line in out.splitlines():
        flag = re.match(r"\*?(--?[\w-]+)\[", line)
        offered |= {flag[1] if flag else line}
        choice = re.search(r":one of:\((.*)\)$", line)
        if choice and flag and flag[1] == words[-2]:
            offered |= set(choice[1].split())
        if line == "*:file:_files":
            offered |= set(os.listdir(tmp))
    return {w for w in offered if w.startswith(words[-1])}


def offers(ask, tmp):
    for words, wanted, unwanted in OFFERS:
        got = ask(tmp, words)
        assert wanted <= got and not unwanted & got, (words, sorted(got))
    return f"{len(OFFERS)} lines"


def all_there(script, flag):
    for name, flags in commands().items():
        for word in name.split():
            assert re.search(rf"\b{word}\b", script), name
        for f in flags - {"help"}:
            assert re.search(flag + re.escape(f) + r"\b", script), (name, f)


def page(tmp):
    text = said("man")
    all_there(text.replace("\\-", "-").replace("[no-]", ""), "--")
    for name in commands():
        assert f'.SS "tandem {name}' in text, name
    if not shutil.which("groff"):
        return "groff is not here to read it"
    (tmp / "page").write_text(text)
    p = subprocess.run(["groff", "-man", "-ww", "-Tascii", tmp / "page"], capture_output=True,
                       text=True)
    assert p.returncode == 0 and p.stderr == "", p.stderr[:1000]
    assert "EXIT STATUS" in re.sub(".\b", "", p.stdout)
    return None


def refused():
    p = subprocess.run([BIN, "completion", "tcsh"], capture_output=True, text=True)
    assert p.returncode == 2 and "none of bash, zsh, fish" in p.stderr, p


def main():
    cases = Cases()
    with scratch() as tmp:
        (tmp / "rows.jsonl").write_text("")
        for name, ask, flag in (("bash", bash, "--"), ("zsh", zsh, "--"), ("fish", fish, "-l ")):
            script = said("completion", name)
            (tmp / name).write_text(script)
            cases.run(f"{name} has all", lambda s=script, f=flag: all_there(s, f))
            if shutil.which(name):
                cases.run(f"{name} offers", lambda a=ask: offers(a, tmp))
            else:
                cases.skip(f"{name} offers", f"{name} is not here")
        cases.run("the manual page", lambda: page(tmp))
        cases.run("another shell", refused)
    return cases.end()


if __name__ == "__main__":
    sys.exit(main())
