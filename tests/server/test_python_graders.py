#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Graders in Python that clients send: what they are worth, and what they cannot do.

Faults they can catch: a program that reads a file, writes one, opens a socket, begins a process or sends
a signal; one that never ends, takes all memory or ends itself, and with it somebody else; a score that is
none and counts; a box that is not there and a server that starts all the same.

Standard library only."""
import ctypes
import os
import pathlib
import signal
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "lib"))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from serving import Cases, scratch  # noqa: E402
from test_judges import PATH, fault, run, steps_of  # noqa: E402
from test_preferences import client  # noqa: E402
from test_rewards import PROMPTS, method, serve  # noqa: E402

HAS_BOX = ctypes.CDLL(None).syscall(444, None, 0, 1) >= 2


def program(body):
    lines = "".join(f"    {line}\n" for line in body.splitlines())
    return {"type": "python", "name": "p", "source": f"def grade(sample, item):\n{lines}"}


def scores(c):
    assert run(c, program("return len(sample['output_text'])"), "four")["reward"] == 4
    assert run(c, program("print('x'); return sample['output_json']['a'] + item['b']"), '{"a": 1}',
               {"b": 0.5})["reward"] == 1.5
    assert run(c, program("import re, statistics, datetime\nreturn len(re.findall('e', sample['output_text']))"),
               "see the tree")["reward"] == 5
    assert run(c, program("return True"), "x" * 200000)["reward"] == 1
    both = {"type": "multi", "name": "m", "calculate_output": "x + y", "graders": {
        "x": program("return 1"), "y": program("return 2")}}
    assert run(c, both)["reward"] == 3


def wrong_programs(c):
    what = "python_grader_runtime_error"
    for body, words in (("x = 1\nraise ValueError('no good')", "ValueError: no good (line 3)"),
                        ("return 'much'", "ValueError"), ("return None", "TypeError"),
                        ("return float('nan')", "finite"), ("return )", "SyntaxError"),
                        ("return bytearray(4 << 30)[0]", "MemoryError"), ("raise SystemExit(0)", "SystemExit")):
        got = fault(c, program(body), what, words)
        assert words in got["metadata"]["errors"]["python_grader_runtime_error_details"], got
    fault(c, {**program("return 1"), "source": "x = 1"}, what, "grade(sample, item)")


def ended_programs(c):
    """By itself, and by its time; others go on meanwhile."""
    what = "python_grader_server_error"
    fault(c, program("import os\nos._exit(0)"), what, "ended")
    fault(c, program("import os\nos.close(1)\nreturn 1"), what)
    begin = time.monotonic()
    fault(c, program("while True: pass"), what, "time")
    assert time.monotonic() - begin < 60
    assert run(c, program("return 1"))["reward"] == 1


def alone(c, tmp):
    secret = tmp / "secret"
    secret.write_text("a secret")
    denied = ("PermissionError", "BlockingIOError", "RuntimeError", "OSError")
    for body in (f"return len(open('{secret}').read())", "return len(open('/etc/passwd').read())",
                 f"open('{tmp}/made', 'w').write('x')", "open('/dev/shm/made', 'w')",
                 "import os\nreturn len(os.listdir('/'))", f"import os\nos.remove('{secret}')",
                 f"import os\nos.rename('{secret}', '{tmp}/moved')", "return len(open('/proc/self/maps').read())",
                 "import os\nreturn len(os.listdir('/proc/self/fd'))",
                 "import socket\nsocket.socket()", "import socket\nsocket.socketpair()",
                 "import os\nos.fork()", "import subprocess\nsubprocess.run(['/bin/true'])",
                 "import os\nos.execv('/bin/sh', ['sh', '-c', 'true'])", "import os\nos.kill(os.getppid(), 9)",
                 "import os\nos.memfd_create('a')", "import threading\nthreading.Thread(target=print).start()",
                 "import resource\nresource.setrlimit(resource.RLIMIT_AS, (-1, -1))",
                 "import ctypes\nif ctypes.CDLL(None, use_errno=True).ptrace(16, 1, 0, 0) < 0: raise OSError('no')"):
        got = run(c, program(body))
        errors = got["metadata"]["errors"]
        assert got["reward"] == 0 and errors["python_grader_runtime_error"], (body, got)
        assert any(w in errors["x_details"] for w in (*denied, "ModuleNotFoundError", "ValueError")), (body, got)
    assert secret.read_text() == "a secret" and not (tmp / "made").exists()
    got = run(c, program("import os\nreturn len(os.environ)"))
    assert got["reward"] <= 3, got


def trains(c):
    """As the same grader of another kind; a program that fails now and then ends no job."""
    same = program("return float('e' in sample['output_text'])")
    hyper = {"n_epochs": 1, "group_size": 2}
    plain = c.done(c.job(c.file(PROMPTS), seed=1, method=method(**hyper)))
    asked = c.done(c.job(c.file(PROMPTS), seed=1, method=method(same, **hyper)))
    assert steps_of(c, plain["id"]) == steps_of(c, asked["id"])


def children(pid):
    return [int(p) for t in pathlib.Path(f"/proc/{pid}/task").iterdir() for p in (t / "children").read_text().split()]


def told_to_stop(s, c):
    """A stop told to all processes, as systemd's, ends no program: the server drains."""
    got, (host,) = [], children(s.pid)
    asking = threading.Thread(target=lambda: got.append(run(c, program("import time\ntime.sleep(2)\nreturn 1"))))
    asking.start()
    seen = []
    while asking.is_alive() and not seen:
        seen = children(host)
    assert seen, got
    for signo in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        for pid in (host, *seen):
            os.kill(pid, signo)
    asking.join()
    assert got and got[0]["reward"] == 1, got


def without_host(s, c):
    """That nothing can be run says nothing of a program: no grade, and a job halts."""
    (host,) = children(s.pid)
    os.kill(host, signal.SIGKILL)
    for _ in range(2):
        r = c.ask("POST", f"{PATH}/run", {"grader": program("return 1"), "model_sample": "a"})
        assert r.status == 503 and r.error["code"] == "grader_unavailable", r
    job = c.job(c.file(PROMPTS), seed=1, method=method(program("return 1"), n_epochs=1, group_size=2))
    j = c.wait(job, ("paused", "failed", "succeeded"))
    assert j["status"] == "paused", j


def off(tmp):
    with serve(tmp) as s:
        c = client(s)
        for path in ("run", "validate"):
            r = c.ask("POST", f"{PATH}/{path}", {"grader": program("return 1"), "model_sample": "a"})
            assert r.status == 400 and r.error["param"] == "grader.type", r
            assert "--python-graders" in r.error["message"], r


def starts(tmp, python, words):
    try:
        with serve(tmp, "--python-graders", python):
            pass
    except AssertionError as e:
        assert words and words in str(e), e
        return
    assert not words, f"{python}: it starts"


def main():
    cases = Cases()
    with scratch() as tmp:
        cases.run("off", lambda: off(tmp / "off"))
        cases.run("no interpreter", lambda: starts(tmp / "no", tmp / "none", "does not run"))
        if not HAS_BOX:
            cases.run("no box", lambda: starts(tmp / "box", sys.executable, "Landlock"))
            return cases.end()
        with serve(tmp / "one", "--python-graders", sys.executable, "--grader-timeout", "5") as s:
            c = client(s)
            cases.run("scores", lambda: scores(c))
            cases.run("wrong programs", lambda: wrong_programs(c))
            cases.run("alone", lambda: alone(c, tmp))
            cases.run("a job", lambda: trains(c))
            cases.run("ended programs", lambda: ended_programs(c))
            cases.run("told to stop", lambda: told_to_stop(s, c))
            cases.run("without host", lambda: without_host(s, c))
    return cases.end()


if __name__ == "__main__":
    sys.exit(main())
