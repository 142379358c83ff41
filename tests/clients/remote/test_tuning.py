#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Files, jobs, models and `tandem tune`, as one types them before a real server: jobs jobs_get
jobs_cancel jobs_pause jobs_resume jobs_events jobs_checkpoints files files_upload files_get
files_content files_delete models models_get models_delete tune.

Faults they can catch: an id that cannot be taken from stdout; a file that changes on its way, or is
held in memory whole; a status that does not tell how a job ended; Ctrl-C that ends a job, or leaves
one that nobody knows of; a follower that gives up because the server was restarted; a bar that is
wider than its terminal, or leaves its rest behind; escapes where no terminal or no colour is wanted;
a hyperparameter that is mistyped and ignored in silence; a list without end; a key that is not sent; a fault that says nothing, or says what a terminal would obey.

Standard library only."""
import json
import os
import pathlib
import re
import signal
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from shell import Shell, Terminal, drawn, impostor, reply  # noqa: E402
from serving import ENDLESS, MODE, Cases, Tandem, scratch  # noqa: E402

MODEL = "tests/golden/models/llama_tied"
LARGE = 48 << 20
KEY = "long-enough-key-of-a-test"


def rows(n):
    return "".join(json.dumps({"prompt": "a b " * (1 + i % 5), "completion": "b a"}) + "\n"
                   for i in range(n))


class World:
    """A server, what it is asked with, and files to ask of."""

    def __init__(self, tmp):
        self.tmp, self.socket = tmp, tmp / "socket"
        self.rows, self.long, self.few = tmp / "rows.jsonl", tmp / "long.jsonl", tmp / "few.jsonl"
        self.endless = tmp / "endless.jsonl"
        self.rows.write_text(rows(12))
        self.long.write_text(rows(100))
        self.few.write_text(rows(3))
        self.endless.write_text(rows(ENDLESS))
        self.sh = Shell(f"unix:{self.socket}", TANDEM_API_KEY=KEY)

    def serve(self):
        return Tandem(MODEL, "--name", "tiny", "--data-dir", self.tmp / "data", "--kv-memory", "8M",
                      "--unix-socket", self.socket, "--no-access-log",
                      env={"TANDEM_API_KEY": KEY})

    def slow_job(self):
        """One that would take long, unless somebody ends it."""
        return self.sh.good("tune", self.endless, "--epochs", 50, "--batch", 1).out.strip()


def until(p, word):
    """Its stderr up to the line that has the word, which must come."""
    seen = ""
    while word not in seen:
        line = p.stderr.readline()
        assert line, f"{word} does not come: {seen}"
        seen += line
    return seen


def rest(p):
    """What it still writes, when some of its stderr was read by lines; it has ended then."""
    err = p.stderr.read()
    out = p.stdout.read()
    p.wait()
    p.stderr.close()
    p.stdout.close()
    return out, err


def asks(w):
    """Without a file a person is asked for it, told what is in it, and asked whether to begin."""
    w.sh.bad(2, "give a FILE of rows", "tune")
    with Terminal(w.sh, "tune", columns=60) as t:
        t.until("file of rows to learn: ")
        t.type("nowhere\r")
        t.until("there is no such file")
        t.type(f"{w.rows}\r")
        t.until("new model's name")
        t.type("mine\r")
        t.until("times that every row is seen")
        t.type("99\r")
        t.until("a number from 1 to 50")
        t.type("1\r")
        t.until(r"12 rows, \d+ tokens, \d+ of them to be learned")
        t.until(r"begin\?")
        t.type("n\r")
        t.until("no job was made")
        assert t.end() == 2, t.screen
    assert w.sh.good("jobs", "--limit", 0).out == ""
    with Terminal(w.sh, "tune", "--suffix", "word") as t:
        for question, said in (("to learn: ", w.rows), ("name", "other"), ("is seen", "2"), (r"begin\?", "")):
            t.until(question)
            t.type(f"{said}\r")
        assert t.end() == 0, t.screen
        assert re.search(r"ft:tiny:tandem:word:\w+\r\n$", t.screen), t.screen
    with Terminal(w.sh, "tune") as t:
        t.until("to learn: ")
        t.type("\x04")
        assert t.end() == 2 and "no job was made" in t.screen, t.screen


# ---- files


def files(w):
    sent = w.sh.good("files", "upload", w.rows, "--purpose", "user_data")
    file, = sent.out.split()
    assert file.startswith("file-") and sent.err == "", sent
    assert [file, "user_data", str(w.rows.stat().st_size)] in [r[:3] for r in
                                                               w.sh.good("files").rows]
    assert ["filename", "rows.jsonl"] in w.sh.good("files", "get", file).rows
    assert json.loads(w.sh.good("files", "get", file, "--json").out)["id"] == file
    assert w.sh.good("files", "content", file).out == w.rows.read_text()
    to = w.tmp / "copy"
    w.sh.good("files", "content", file, "-o", to)
    assert to.read_text() == w.rows.read_text()
    w.sh.bad(1, "copy: File exists", "files", "content", file, "-o", to)
    assert ["deleted", "yes"] in w.sh.good("files", "delete", file).rows
    w.sh.bad(2, "no such file", "files", "get", file)
    w.sh.bad(2, "no such file", "files", "content", file, "-o", w.tmp / "none")
    assert not (w.tmp / "none").exists()


def large_file(w):
    """It is sent from the disk: the client stays small."""
    path = w.tmp / "large"
    with open(path, "wb") as f:
        f.truncate(LARGE)
    p = w.sh.popen("files", "upload", path, "--json", "--purpose", "user_data")
    out = p.stdout.read()
    _, status, usage = os.wait4(p.pid, 0)
    p.returncode = os.waitstatus_to_exitcode(status)
    p.stderr.close()
    file = json.loads(out)
    assert p.returncode == 0 and file["bytes"] == LARGE, (p.returncode, out)
    w.sh.good("files", "delete", file["id"])
    if MODE == "release":
        assert usage.ru_maxrss * 1024 < LARGE, usage
    return f"{usage.ru_maxrss >> 10} MiB resident"


def lists(w):
    ids = [w.sh.good("files", "upload", w.few).out.strip() for _ in range(3)][::-1]
    assert [r[0] for r in w.sh.good("files", "-n", 3).rows] == ids
    assert [json.loads(x)["id"] for x in w.sh.good("files", "-n", 2, "--json").out.splitlines()
            ] == ids[:2]
    assert len(w.sh.good("files", "--limit", 0).rows) >= 3
    for file in ids:
        w.sh.good("files", "delete", file)


# ---- jobs


def tune_makes_a_job(w):
    said = w.sh.good("tune", w.rows, "--epochs", 1, "--suffix", "mine", "--metadata", "who=me",
                     "--hyper", "lora_rank=2", "--seed", 0, "--model", "tiny")
    job, = said.out.split()
    followed = w.sh.good("jobs", "events", job, "--follow")
    model = followed.out.strip()
    assert re.fullmatch(r"ft:tiny:\w+:mine:\w+", model), followed
    seen = json.loads(w.sh.good("jobs", "get", job, "--json").out)
    assert seen["metadata"] == {"who": "me"} and seen["seed"] == 0, seen
    assert (seen["hyperparameters"]["lora_rank"], seen["hyperparameters"]["n_epochs"]) == (2, 1)
    assert ["status", "succeeded"] in w.sh.good("jobs", "get", job).rows
    assert [job, "succeeded", "tiny"] == w.sh.good("jobs", "-n", 1).rows[0][:3]
    events = w.sh.good("jobs", "events", job).out.splitlines()
    assert "Created" in events[0] and "successfully" in events[-1], events
    assert model in [r[2] for r in w.sh.good("jobs", "checkpoints", job).rows]
    assert [model, "tiny"] in [r[:2] for r in w.sh.good("models").rows]
    assert ["id", model] in w.sh.good("models", "get", model).rows
    assert ["deleted", "yes"] in w.sh.good("models", "delete", model).rows
    w.sh.bad(2, "no such model", "models", "delete", model)


def tune_keeps_the_best(w):
    said = w.sh.good("tune", w.rows, "--epochs", 2, "--validation", w.rows, "--result", "best",
                     "--early-stopping", 4, "--follow")
    assert said.out.startswith("ft:tiny:"), said
    seen = json.loads(w.sh.good("jobs", "-n", 1, "--json").out.splitlines()[0])
    assert (seen["hyperparameters"]["result"], seen["hyperparameters"]["early_stopping"]) == ("best", 4), seen


def tune_follows(w):
    csv = []
    for _ in range(2):
        said = w.sh.good("tune", w.rows, "--follow", "--seed", 5, "--epochs", 2, "--batch", 4,
                         "--validation", w.few)
        assert re.fullmatch(r"ft:tiny:\S+\n", said.out), said
        steps = re.findall(r"^Step (\d)/6: training loss=\S+ .*\d+ tokens/s, \d+:\d\d left$",
                           said.err, re.M)
        assert steps == list("123456") and "\033" not in said.err, said
        job = json.loads(w.sh.good("jobs", "-n", 1, "--json").out)
        csv.append(w.sh.good("files", "content", job["result_files"][0]).out)
    assert csv[0] == csv[1] and csv[0].count("\n") == 7, csv
    again = w.sh.good("tune", job["training_file"], "--epochs", 1, "--follow", "--json")
    seen = [json.loads(line) for line in again.out.splitlines()]
    assert again.err == "" and seen[0]["status"] != "succeeded", again
    assert {x["object"] for x in seen[1:-1]} == {"fine_tuning.job.event"}, again
    assert seen[-1]["status"] == "succeeded" and seen[-1]["fine_tuned_model"], again


def tune_that_fails(w):
    barren = w.tmp / "barren.jsonl"
    barren.write_text(json.dumps({"messages": [{"role": "user", "content": "a"}, {
        "role": "assistant", "content": "b", "weight": 0}]}) + "\n")
    said = w.sh("tune", w.rows, "--follow", "--validation", barren)
    assert said.status == 1 and said.out == "", said
    assert re.search(r"^tandem: ftjob-\w+ failed: .*token to measure", said.err, re.M), said


def tune_that_must_fail(w):
    """A file that no job can be made of: said with its lines, and none is made or kept."""
    before, jobs = w.sh.good("files").out, w.sh.good("jobs", "-n", 0).out
    said = w.sh("tune", "README.md")
    assert said.status == 1 and said.out == "", said
    assert re.search(r"^README\.md:1: .*JSON", said.err, re.M), said
    assert re.search(r"^tandem tune: README\.md: \d+ of \d+ examples cannot be used, the first in line 1\.$",
                     said.err, re.M), said
    for follow in ((), ("--follow",)):
        said = w.sh("tune", w.few, *follow)
        assert said.status == 1 and said.out == "", said
        assert re.search(r"^tandem tune: .*has 3 examples; a job wants at least 10\.$", said.err, re.M), said
    assert (w.sh.good("files").out, w.sh.good("jobs", "-n", 0).out) == (before, jobs)


def tune_that_is_refused(w):
    """What was sent for a job that there is not is taken back."""
    before = w.sh.good("files").out
    for pattern, *more in ((r"n_epochs", "--hyper", "n_epochs=51"), ("no such model: \"large\"", "--model", "large"),
                           (r"--hyper rank: .*NAME=VALUE", "--hyper", "rank"),
                           (r"lora_rnak.*did you mean 'lora_rank'", "--hyper", "lora_rnak=2"),
                           ("validation.none: No such", "--validation", w.tmp / "validation.none"),
                           ("--grader .*none", "--grader", w.tmp / "grader.none"),
                           ("--grader is for", "--method", "dpo", "--grader", w.rows),
                           ("--result", "--result", "first"), ("early_stopping", "--early-stopping", 3),
                           ("suffix", "--suffix", "x" * 65)):
        w.sh.bad(2, pattern, "tune", w.rows, *more)
    assert w.sh.good("files").out == before
    w.sh.bad(2, "No such file", "tune", w.tmp / "none")
    w.sh.bad(2, "is a directory", "tune", w.tmp)
    (w.tmp / "empty").write_text("")
    w.sh.bad(2, "empty", "tune", w.tmp / "empty")


def job_states(w):
    job = w.slow_job()
    assert ["status", "paused"] in w.sh.good("jobs", "pause", job).rows
    assert ["status", "queued"] in w.sh.good("jobs", "resume", job).rows
    p = w.sh.popen("jobs", "events", job, "-f")
    until(p, "Step")
    assert ["status", "cancelled"] in w.sh.good("jobs", "cancel", job).rows
    out, err = rest(p)
    assert p.returncode == 1 and out == "" and f"{job} is cancelled" in err, (out, err)
    w.sh.bad(2, "", "jobs", "cancel", job)
    w.sh.bad(2, "no such job", "jobs", "get", "../../etc")


def interrupted(w):
    p = w.sh.popen("tune", w.endless, "--epochs", 50, "--batch", 1, "--follow")
    until(p, "Step")
    p.send_signal(signal.SIGINT)
    _, err = rest(p)
    m = re.search(r"(ftjob-\w+) goes on. .* tandem jobs events \1 --follow\n.*cancel \1\n", err)
    assert p.returncode == 130 and m, err
    assert ["status", "running"] in w.sh.good("jobs", "get", m[1]).rows
    w.sh.good("jobs", "cancel", m[1])


def restarted(w, server):
    """The follower outlives the server; of many steps each hundredth has a line."""
    p = w.sh.popen("tune", w.long, "--epochs", 2, "--batch", 1, "--follow")
    seen = until(p, "Step 4/")
    assert server.stop() == 0
    with w.serve():
        out, err = rest(p)
        assert p.returncode == 0 and out.startswith("ft:tiny:"), (out, err)
    steps = [int(s) for s in re.findall(r"^Step (\d+)/200", seen + err, re.M)]
    each = [s for s in steps if s == 1 or s % 2 == 0]
    assert each == [1, *range(2, 201, 2)] and len(steps) < 120, steps  # more: a minute went by


def names(w):
    """Parts of names: unique ones do wherever an id does, a result wins over its checkpoints, and
    what several have is said, with all of them."""
    jobs = {s: w.sh.good("tune", w.rows, "--epochs", 2, "--batch", 12, "--suffix", s).out.strip()
            for s in ("page", "paged")}
    results = {s: w.sh.good("jobs", "events", job[:-1], "--follow").out.strip()
               for s, job in jobs.items()}
    made = [r[2] for r in w.sh.good("jobs", "checkpoints", jobs["page"][:-2]).rows]
    assert results["page"] in made and any(":ckpt-step-" in m for m in made), made
    for part in ("page:", results["page"][:-1], results["page"] + "~"):
        assert ["id", results["page"]] in w.sh.good("models", "get", part).rows, part
    assert w.sh.good("chat", "a", "--model", "page:", "-n", 1).status == 0
    assert w.sh.good("models", "get", "tin").rows[0] == ["id", "tiny"]  # the others have it from their base
    both = rf"(?=.*{results['page']})(?=.*{results['paged']})"
    w.sh.bad(2, rf'"page" may be {both}', "models", "get", "page")
    w.sh.bad(2, both, "models", "delete", "page")
    w.sh.bad(2, "may be ftjob-", "jobs", "get", "ftjob-")
    w.sh.bad(2, "no such job", "jobs", "get", "ftjob-none")
    assert ["id", jobs["paged"]] in w.sh.good("jobs", "get", "paged").rows
    file = w.sh.good("jobs", "get", jobs["page"], "--json")
    file = json.loads(file.out)["training_file"]
    assert w.sh.good("files", "content", file[:-1]).out == w.rows.read_text()
    for model in results.values():
        w.sh.good("models", "delete", model)
    return w.sh.good("tune", file[:-1], "--model", "tin", "--epochs", 1, "--follow") and None


# ---- terminals


def whole_ids(w):
    """On a terminal every id that is shown is one that commands take, whatever its width."""
    job = w.sh.good("tune", w.rows, "--epochs", 1, "--suffix", "whole-ids").out.strip()
    model = w.sh.good("jobs", "events", job, "--follow").out.strip()
    file = w.sh.good("files", "-n", 1).rows[0][0]
    for columns in (60, 80, 120):
        for words, ids in ((("jobs",), [job, *([model] if columns > 60 else [])]), (("models",), [model]),
                           (("files",), [file]), (("jobs", "checkpoints", job), [model])):
            with Terminal(w.sh, *words, columns=columns) as t:
                assert t.end() == 0, t.screen
                shown = [s for s in drawn(t.screen) if s]
            assert all(len(s) <= columns for s in shown), shown
            cells = {cell for line in shown for cell in line.split()}
            assert set(ids) <= cells, (words, columns, ids, shown)


def bar(w, columns, **env):
    sh = Shell(w.sh.env["TANDEM_URL"], TANDEM_API_KEY=KEY, **env)
    with Terminal(sh, "tune", w.rows, "--follow", "--epochs", 2, "--batch", 2,
                  columns=columns) as t:
        status = t.end()
        shown = drawn(t.screen)
        assert status == 0, t.screen
        bars = [s for s in shown if re.search(r"step \d+/", s)]
        assert bars and all(len(s) < columns for s in bars), bars
        assert re.search(r"step 12/12", bars[-1]), bars
        assert re.fullmatch(r"ft:tiny:\S+", shown[-2]), shown  # nothing is left before or behind
        return t.screen, bars


def bars(w):
    screen, shown = bar(w, 100)
    assert all(re.search(r"\[#*\.*\]  step \d+/12  loss \d+\.\d{4}  \d+ tokens/s  \d+:\d\d left", s)
               for s in shown), shown
    assert "\033[1m" not in screen.replace("\033[K", "")
    _, shown = bar(w, 40)
    assert all("loss" in s for s in shown), shown
    _, shown = bar(w, 20)
    assert all(s.startswith("step ") for s in shown), shown


def bar_interrupted(w):
    with Terminal(w.sh, "tune", w.endless, "--follow", "--epochs", 50, "--batch", 1) as t:
        t.until(rf"step \d+/{50 * ENDLESS}")
        t.type("\x03")
        assert t.end() == 130, t.screen
        job = re.search(r"cancel (ftjob-\w+)", t.screen)[1]
    assert ["status", "running"] in w.sh.good("jobs", "get", job).rows
    w.sh.good("jobs", "cancel", job)


def tables(w):
    w.sh.good("files", "upload", w.few)
    for columns in (20, 60, 200):
        with Terminal(w.sh, "files", columns=columns) as t:
            assert t.end() == 0 and "\033[1m" in t.screen, t.screen
            lines = [s for s in drawn(t.screen) if s]
            assert lines[0].startswith("FILE") and all(len(s) <= columns for s in lines), lines
    sh = Shell(w.sh.env["TANDEM_URL"], TANDEM_API_KEY=KEY, NO_COLOR="1")
    with Terminal(sh, "files") as t:
        assert t.end() == 0 and "\033" not in t.screen, t.screen
    with Terminal(w.sh, "tune", w.rows, "--follow", "--epochs", 1, term="dumb") as t:
        assert t.end() == 0 and "\033" not in t.screen and "\nStep 1/" in t.screen, t.screen


# ---- faults


def keys(w):
    Shell(w.sh.env["TANDEM_URL"]).bad(2, "--api-key or TANDEM_API_KEY", "jobs")
    Shell(w.sh.env["TANDEM_URL"]).good("jobs", "--api-key", KEY)
    w.sh.bad(2, "key has a space", "jobs", "--api-key", "two words")


def addresses(w):
    sh = Shell()
    sh.bad(1, r"no server at http://127\.0\.0\.1:1 .*refused.*tandem serve", "jobs", "--url",
           "http://127.0.0.1:1")
    sh.bad(1, "no server at unix:/no/such", "models", "--url", "unix:/no/such")
    sh.bad(2, "http://, https:// or unix:", "files", "--url", "ftp://x")
    sh.bad(2, "no host", "files", "--url", "http://:80")
    sh.bad(2, "no path", "files", "--url", "unix:")


def impostors(_):
    for answer, status, pattern in (
            (reply(200, "<html>", "text/html"), 1, "answers, but not as this API"),
            (reply(200, "[1]"), 1, "answers, but not as this API"),
            (reply(502, "bad gateway"), 1, "status 502"),
            (reply(418, '{"error": "a teapot"}'), 2, "a teapot"),
            (reply(404, '{"error": {"message": "red \\u001b[31m\\u0007 text", "param": "name"}}'), 2,
             r"name: red  \[31m  text"),
            (reply(503, '{"error": {"message": "come back later"}}'), 1, "come back later"),
            (reply(200, '{"data": []}')[:-3], 1, "closed the connection before"),
            (b"", 1, "closed the connection before"),
            (b"SSH-2.0-x\r\n", 1, "http://")):
        with impostor(answer) as url:
            Shell(url).bad(status, pattern, "jobs")
    with impostor(reply(200, '{"data": [{}], "has_more": true}')) as url:  # more, but behind what?
        assert len(Shell(url).good("jobs", "-n", 0).rows) == 1
    with impostor(reply(200, 'data: {"no": "event"}\n\n', "text/event-stream")) as url:
        Shell(url).bad(1, "an event that is none", "jobs", "events", "x", "--follow")


def main():
    cases = Cases()
    with scratch() as tmp:
        w = World(tmp)
        cases.run("addresses", lambda: addresses(w))
        cases.run("impostors", lambda: impostors(w))
        with w.serve() as server:
            for case in (asks, files, large_file, lists, tune_makes_a_job, tune_keeps_the_best,
                         tune_follows, tune_that_fails,
                         tune_that_must_fail,
                         tune_that_is_refused, job_states, interrupted, bars, bar_interrupted,
                         tables, names, whole_ids, keys):
                cases.run(case.__name__.replace("_", " "), lambda c=case: c(w))
            cases.run("restarted", lambda: restarted(w, server))
    return cases.end()


if __name__ == "__main__":
    sys.exit(main())
