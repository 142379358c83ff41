#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What commands show on terminals of 80 and of 60 columns: help, the page of each command, lists, `chat`'s /help,
`eval` beside tuned models, `ps`; on a terminal of our own, and in tmux where it is.

Faults they can catch: a line that is wider than the terminal, so that it breaks inside a word; an id that is cut,
which commands then refuse; a command or a model that a narrow terminal leaves out.

Standard library only."""
import json
import pathlib
import re
import shlex
import shutil
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from shell import CLEAN, HANG, Shell, Terminal, drawn  # noqa: E402
from serving import BIN, Cases, Tandem, scratch  # noqa: E402

MODEL = "tests/golden/models/llama_tied"
WIDTHS = (80, 60)
ROWS = "".join(json.dumps({"prompt": f"{i} is", "completion": f" {i}."}) + "\n" for i in range(12))
ASKED = """{"prompt": "One is", "completion": " one."}
{"prompt": "Two is", "choices": [" two.", " three."], "answer": 0}
{"text": "Once upon a time there was an owl."}
"""


def shown(sh, *words, columns, status=0):
    """The lines that a command leaves, none of which is wider than the terminal."""
    with Terminal(sh, *words, columns=columns) as t:
        assert t.end() == status, t.screen
        lines = [line.rstrip() for line in drawn(t.screen)]
    wide = [line for line in lines if len(line) > columns]
    assert not wide, f"{' '.join(map(str, words))}: {len(wide[0])} of {columns} columns: {wide[0]}"
    return lines


def commands():
    """What `tandem help` names, in a file: there each is a line."""
    return re.findall(r"^  tandem ([a-z]+(?: [a-z]+)?)\b", Shell()("help").out, re.M)


def helps():
    sh, names = Shell(), commands()
    assert len(names) > 30, names
    for columns in WIDTHS:
        text = "\n".join(shown(sh, "help", columns=columns))
        assert all(re.search(rf"^  tandem {n}\b", text, re.M) for n in names), text
        for name in names:
            words = (*name.split(), "--help")
            assert "".join("".join(shown(sh, *words, columns=columns)).split()) == "".join(Shell()(*words).out.split()), name
    return f"{len(names)} commands"


def lists(sh, job, model, file):
    """Ids stand whole, at every width at which they stand at all."""
    for columns in WIDTHS:
        for words, wanted in ((("jobs",), job), (("models",), model), (("files",), file),
                              (("jobs", "checkpoints", job), model)):
            lines = shown(sh, *words, columns=columns)
            assert any(wanted in line.split() for line in lines), (words, columns, lines)
        text = "\n".join(shown(sh, "ps", "--once", columns=columns))
        assert "tied" in text, text


def talk(sh):
    for columns in WIDTHS:
        with Terminal(sh, "chat", columns=columns) as t:
            t.until("> ")
            t.type("/help\r")
            lines = [line.rstrip() for line in drawn(t.until("Ctrl-C stops an answer|stops an answer"))]
            assert all(len(line) <= columns for line in lines), lines
            assert all(any(line.startswith(c) for line in lines) for c in ("/model", "/set", "/tools", "/why", "/save",
                                                                           "/load", "/quit")), lines
            t.until(r"\x1b\[\?2004h")  # keys are read one by one again: before, the terminal takes this one for itself
            t.type("\x04")
            assert t.end() == 0, t.screen


def evaluated(tmp):
    """Models that have no room beside each other stand below."""
    (tmp / "rows.jsonl").write_text(ROWS)
    (tmp / "asked.jsonl").write_text(ASKED)
    subprocess.run([BIN, "train", "--model", MODEL, "--data", tmp / "rows.jsonl", "--out", tmp / "out", "--epochs", "1",
                    "--rank", "2"], check=True, capture_output=True)
    adapters = [w for n in ("first", "second", "third") for w in ("--adapter", f"{n}={tmp}/out/adapter")]
    sh = Shell(TMPDIR=str(tmp))
    for columns in WIDTHS:
        with Terminal(sh, "eval", MODEL, tmp / "asked.jsonl", *adapters, columns=columns) as t:
            assert t.end() == 0, t.screen
            lines = [line.rstrip() for line in drawn(t.screen)]
        table = lines[next(i for i, line in enumerate(lines) if " base" in line):]
        assert all(len(line) <= columns for line in table), table
        heads = [line.split() for line in table if "third" in line or " base" in line]
        assert [n for h in heads for n in h] == ["base", "first", "second", "third"], heads
        assert len(heads) == (1 if columns == 80 else 2), heads


def in_tmux(sh, job, model, file):
    """The same as a person sees it: a pane breaks what is too wide."""
    for columns in WIDTHS:
        tmux = ["tmux", "-L", f"tandem-test-{columns}", "-f", "/dev/null"]
        env = {**CLEAN, **sh.env, "TERM": "xterm"}
        typed = "; ".join(f"{shlex.quote(str(pathlib.Path(BIN).resolve()))} {w}" for w in ("jobs", "models", "files"))
        done = f"{shlex.join(tmux)} wait-for -S shown"
        subprocess.run([*tmux, "new-session", "-d", "-x", str(columns), "-y", "50", f"{typed}; {done}; cat"], env=env,
                       check=True, timeout=HANG)
        try:
            subprocess.run([*tmux, "wait-for", "shown"], env=env, check=True, timeout=HANG)
            screen = subprocess.run([*tmux, "capture-pane", "-p"], env=env, check=True, capture_output=True, text=True,
                                    timeout=HANG).stdout
        finally:
            subprocess.run([*tmux, "kill-server"], env=env, check=False, capture_output=True)
        words = set(screen.split())
        assert {job, model, file} <= words, screen


def main():
    cases = Cases()
    cases.run("help", helps)
    with scratch() as tmp:
        cases.run("eval", lambda: evaluated(tmp))
        with Tandem(MODEL, "--name", "tied", "--data-dir", tmp / "data", "--kv-memory", "8M", "--no-access-log") as server:
            sh = Shell(server.url, XDG_STATE_HOME=str(tmp))
            job = sh.good("tune", tmp / "rows.jsonl", "--epochs", 1, "--suffix", "narrow-terminals").out.strip()
            model = sh.good("jobs", "events", job, "--follow").out.strip()
            file = sh.good("files", "-n", 1).rows[0][0]
            cases.run("lists", lambda: lists(sh, job, model, file))
            cases.run("chat", lambda: talk(sh))
            if shutil.which("tmux"):
                cases.run("tmux", lambda: in_tmux(sh, job, model, file))
            else:
                cases.skip("tmux", "it is not here")
    return cases.end()


if __name__ == "__main__":
    sys.exit(main())
