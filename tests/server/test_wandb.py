#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Jobs as Weights & Biases gets them (--wandb): a collector of the test's own, which keeps lines by their
place as theirs does.

Faults they can catch: a number that is another than the event's, or missing; a line that stands twice because
its answer was lost, or because the server was killed; a run that is left open, or ended as what it was not; a
collector that hangs or refuses, and holds up a job or a stop; a key that shows in the log or to clients.

Standard library only."""
import base64
import http.server
import json
import pathlib
import signal
import subprocess
import sys
import threading

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "lib"))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from serving import BIN, ENDLESS, SLOW, Cases, Tandem, scratch  # noqa: E402
from test_board import told  # noqa: E402
from test_tuning import JOBS, KEYS, MODEL, Client, rows  # noqa: E402
from test_webhooks import beside_silence  # noqa: E402

KEY = "0123456789abcdef-secret-of-a-test"
SHAPE = {"n_epochs": 4, "batch_size": 4}
OWN = {"_step", "_timestamp", "_runtime"}


class Run:
    def __init__(self, variables):
        self.variables, self.lines, self.summary, self.ends = variables, [], {}, []
        self.is_over = threading.Event()


class Collector:
    """Runs by their names. `answers`: the statuses that it gives first, having taken what was sent, then 200."""

    def __init__(self, *answers):
        self.runs, self.asked, self.came = {}, 0, threading.Condition()
        answers, me = list(answers), self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                user = base64.b64decode(self.headers["Authorization"].removeprefix("Basic ")).decode()
                assert user == f"api:{KEY}", user
                with me.came:
                    me.asked += 1
                    answer = me.make(body) if self.path == "/base/graphql" else me.take(self.path, body)
                    status = answers.pop(0) if answers else 200
                    me.came.notify_all()
                said = json.dumps(answer).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(said)))
                self.end_headers()
                self.wfile.write(said)

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/base/"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def make(self, body):
        v = body["variables"]
        assert body["query"].startswith("mutation UpsertBucket("), body
        run = self.runs.setdefault(v["name"], Run(v))
        run.is_over.clear()
        return {"data": {"upsertBucket": {"inserted": not run.lines, "bucket": {
            "name": v["name"], "historyLineCount": len(run.lines),
            "project": {"name": v["project"], "entity": {"name": "my team"}}}}}}

    def take(self, path, body):
        name = path.removeprefix("/base/files/my%20team/tuning/").removesuffix("/file_stream")
        run, files = self.runs[name], body["files"]
        history = files.get("wandb-history.jsonl", {"offset": len(run.lines), "content": []})
        assert history["offset"] <= len(run.lines), (history["offset"], len(run.lines))
        run.lines[history["offset"]:] = map(json.loads, history["content"])
        for text in files.get("wandb-summary.json", {"content": []})["content"]:
            run.summary = json.loads(text)
        if body.get("complete"):
            run.ends.append(body["exitcode"])
            run.is_over.set()
        return {}

    def over(self, job):
        """The job's run, which has ended."""
        with self.came:
            assert self.came.wait_for(lambda: job in self.runs, 60 * SLOW), "no run"
        run = self.runs[job]
        assert run.is_over.wait(60 * SLOW), run.lines[-1:]
        return run

    def wait_line(self, job):
        with self.came:
            assert self.came.wait_for(lambda: job in self.runs and self.runs[job].lines, 60 * SLOW), "no line"

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()


def serve(tmp, url, *more, **env):
    (tmp / "keys").write_text(KEYS)
    (tmp / "keys").chmod(0o600)
    (tmp / "wandb.key").write_text(KEY + "\n")
    key = () if env else ("--wandb-key-file", tmp / "wandb.key")
    return Tandem(MODEL, "--name", "tiny", "--api-key-file", tmp / "keys", "--data-dir", tmp / "data",
                  "--no-access-log", "--kv-memory", "8M", "--max-lora-rank", "16", "--wandb", "tuning",
                  "--wandb-url", url, *key, *more, env=env)


def numbers(run):
    """{(step, name): value}; each step once, in their order."""
    steps = [line["_step"] for line in run.lines]
    assert steps == sorted(set(steps)), steps
    return {(line["_step"], k): v for line in run.lines for k, v in line.items() if k not in OWN}


def whole(tmp):
    with Collector() as seen, serve(tmp, seen.url, "--tensorboard", tmp / "board") as s:
        c = Client(s)
        file = c.file(rows(16))
        good = c.done(c.job(file, validation_file=file, suffix="mine", seed=7, hyperparameters=SHAPE))
        run = seen.over(good["id"])
        got, want = numbers(run), told(c, good["id"])
        assert run.ends == [0] and len(run.lines) == 16, (run.ends, len(run.lines))
        assert want.items() <= got.items(), set(want) - set(got)
        assert (4, "full_valid_loss") in got, sorted(got)
        last = {k: v for (step, k), v in got.items() if step == 16}
        assert last.items() <= run.summary.items() and run.summary["_step"] == 16, run.summary
        v, config = run.variables, json.loads(run.variables["config"])
        assert v["project"] == "tuning" and v["entity"] is None and v["displayName"] == "mine", v
        assert config["seed"] == {"value": 7} and config["model"] == {"value": "tiny"}, config
        shown = good["method"]["supervised"]["hyperparameters"]
        assert config["hyperparameters"]["value"] == shown, (config, shown)
        lasting = c.job(c.file(rows(ENDLESS)), hyperparameters={"n_epochs": 50, "batch_size": 1})
        c.wait_step(lasting, 1)
        assert c.ask("POST", f"{JOBS}/{lasting}/cancel").status == 200
        assert seen.over(lasting).ends == [1]
        assert KEY not in s.said()


def lost_answers(tmp):
    """What was taken and not acknowledged is sent again, to the same places."""
    with Collector(500, 200, 503, 429) as seen, serve(tmp, seen.url, WANDB_API_KEY=KEY) as s:
        c = Client(s)
        job = c.done(c.job(c.file(rows(16)), hyperparameters=SHAPE))["id"]
        got, want = numbers(seen.over(job)), told(c, job)
        assert want.items() <= got.items(), set(want) - set(got)
        assert "takes a job's numbers again" in s.said() and KEY not in s.said()


def killed(tmp):
    """The run goes on where its lines end; what had not been sent is lost, and nothing stands twice."""
    with Collector() as seen:
        before = steps = 800
        while before >= steps:  # the job had all its steps before the signal came
            s = serve(tmp, seen.url)
            s.wait_ready(60 * SLOW)
            c = Client(s)
            job = c.job(c.file(rows(steps // 2)), hyperparameters={"n_epochs": 2, "batch_size": 1, "checkpoint_steps": 10})
            seen.wait_line(job)
            s.stop(signal.SIGKILL)
            before = len(seen.runs[job].lines)
        with serve(tmp, seen.url) as s:
            c = Client(s)
            c.done(job)
            run = seen.over(job)
            got, want = numbers(run), told(c, job)
            assert run.ends == [0] and len(run.lines) > before, (run.ends, before)
            assert want.items() <= got.items(), set(want) - set(got)


def paused(tmp):
    """Halted is not ended: the run is left open, and gone on with."""
    with Collector() as seen, serve(tmp, seen.url) as s:
        c = Client(s)
        job = c.job(c.file(rows(ENDLESS)), hyperparameters={"n_epochs": 1, "batch_size": 2})
        c.wait_step(job, 3)
        assert c.ask("POST", f"{JOBS}/{job}/pause").json["status"] == "paused"
        seen.wait_line(job)
        assert seen.runs[job].ends == []
        assert c.ask("POST", f"{JOBS}/{job}/resume").status == 200
        c.wait_step(job, 1 + max(step for step, _ in told(c, job)))
        assert c.ask("POST", f"{JOBS}/{job}/cancel").status == 200
        run = seen.over(job)
        numbers(run)
        assert run.ends == [1], run.ends


def refuses(tmp):
    """Said once in the log; the job does not care, nor does the next one."""
    with Collector(401, 403) as seen, serve(tmp, seen.url) as s:
        c = Client(s)
        for _ in range(2):
            c.done(c.job(c.file(rows(16)), hyperparameters=SHAPE))
        with seen.came:
            assert seen.came.wait_for(lambda: seen.asked == 2, 60 * SLOW), seen.asked
        c.done(c.job(c.file(rows(16)), hyperparameters=SHAPE))
        assert s.stop() == 0 and s.said().count("not sent to Weights & Biases any more") == 2, s.output()


def hangs(tmp):
    beside_silence(lambda port: serve(tmp, f"http://127.0.0.1:{port}"))


def refused(tmp):
    data, empty = ("--data-dir", tmp / "other"), tmp / "empty"
    empty.write_text("\n")
    for words, what in ((("--wandb", "p", *data), "WANDB_API_KEY"),
                        (("--wandb", "p", *data, "--wandb-key-file", empty), "a key is needed"),
                        (("--wandb", "p", *data, "--wandb-key-file", tmp / "none"), "none"),
                        (("--wandb", "a/b/c", *data), "ENTITY/PROJECT"),
                        (("--wandb", "p", *data, "--wandb-url", "here"), "--wandb-url here"),
                        (("--wandb", "p"), "--data-dir")):
        p = subprocess.run([BIN, "serve", MODEL, "--port", "0", *map(str, words)], capture_output=True,
                           text=True, timeout=60 * SLOW, check=False)
        assert p.returncode and what in p.stderr, (words, p)


def main():
    cases = Cases()
    for name, case in (("every number is there", whole), ("answers that are lost", lost_answers),
                       ("over a kill", killed), ("halted and gone on", paused), ("a collector that refuses", refuses),
                       ("a collector that hangs", hangs), ("what is refused", refused)):
        with scratch() as tmp:
            cases.run(name, lambda case=case, tmp=tmp: case(tmp))
    return cases.end()


if __name__ == "__main__":
    sys.exit(main())
