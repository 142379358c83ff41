#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Graders in Python that clients send: what they are worth, and what they cannot do.

Faults they can catch: a program that reads a file, writes one, opens a socket, begins a process or sends
a signal; one that never ends, takes all memory or ends itself, and with it somebody else; a score that is
none and counts; a box that is not there and a server that starts all the same; a reward that depends on
which of the processes beside the server was killed; processes or descriptors that are left.

Standard library only."""
import contextlib
import ctypes
import http.client
import os
import pathlib
import signal
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "lib"))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from serving import SLOW, Cases, scratch  # noqa: E402
from test_judges import PATH, fault, run, steps_of  # noqa: E402
from test_preferences import client  # noqa: E402
from test_rewards import PROMPTS, method, serve  # noqa: E402
from test_tuning import JOBS  # noqa: E402

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
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        return [int(p) for t in pathlib.Path(f"/proc/{pid}/task").iterdir()
                for p in (t / "children").read_text().split()]
    return []


def state(pid):
    """As /proc says it: Z is a zombie; None: it is gone."""
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return None


def below(pid):
    """The keeper, its host, and the host's programs."""
    (keeper,) = children(pid)
    hosts = [p for p in children(keeper) if state(p) not in (None, "Z")]
    return keeper, hosts, [p for h in hosts for p in children(h) if state(p) not in (None, "Z")]


def until(holds, of="nothing came"):
    end = time.monotonic() + 60 * SLOW
    while not holds():
        assert time.monotonic() < end, of
        time.sleep(0.005)


def settled(s):
    """A host, no programs, and nobody unburied."""
    (keeper,) = children(s.pid)
    until(lambda: len(children(keeper)) == 1 and [state(p) for p in children(keeper)] == ["S"]
          and not children(children(keeper)[0]), (keeper, children(keeper)))
    return children(keeper)[0]


class Asking(threading.Thread):
    """A program that waits, and somebody who waits for it."""

    def __init__(self, s, c, seconds=0.5):
        super().__init__()
        self.reply = None
        self.ask = lambda: c.ask("POST", f"{PATH}/run", {"model_sample": "a", "grader": program(
            f"import time\ntime.sleep({seconds})\nreturn 1")})
        self.start()
        until(lambda: below(s.pid)[2] or not self.is_alive())
        assert self.is_alive(), self.reply

    def run(self):
        self.reply = self.ask()

    def reward(self):
        self.join()
        assert self.reply.status == 200 and not self.reply.json["metadata"]["errors"]["python_grader_server_error"], \
            self.reply
        return self.reply.json["reward"]


def told_to_stop(s, c):
    """A stop told to all processes, as systemd's, ends no program: the server drains."""
    asking = Asking(s, c, 2)
    keeper, hosts, programs = below(s.pid)
    for signo in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        for pid in (keeper, *hosts, *programs):
            os.kill(pid, signo)
    assert asking.reward() == 1


def killed(s, c):
    """The host and programs, between and in the midst of gradings: who asks sees nothing of it."""
    files = s.descriptors()
    os.kill(settled(s), signal.SIGKILL)
    assert run(c, program("return 1"))["reward"] == 1
    for whom in (1, 2):
        asking = Asking(s, c)
        os.kill(below(s.pid)[whom][0], signal.SIGKILL)
        assert asking.reward() == 1
    until(lambda: "asking a grader's program again" in s.said())
    several = [Asking(s, c) for _ in range(3)]
    os.kill(below(s.pid)[1][0], signal.SIGKILL)
    assert [a.reward() for a in several] == [1] * 3
    settled(s)
    until(lambda: s.descriptors() <= files, (s.descriptors(), files))


def killed_again_and_again(s, c):
    """That is no grade, and soon said."""
    asking, seen = Asking(s, c, 3), set()
    while asking.is_alive():
        for pid in below(s.pid)[2]:
            seen.add(pid)
            os.kill(pid, signal.SIGKILL)
        time.sleep(0.01)
    assert asking.reply.status == 503 and asking.reply.error["code"] == "grader_unavailable", asking.reply
    assert len(seen) == 3, seen
    assert run(c, program("return 1"))["reward"] == 1


def goes_on_to_the_bit(s, c):
    """A job whose programs, and whose host, are killed meanwhile."""
    of = {"seed": 1, "method": method(program("import time\ntime.sleep(0.02)\nreturn float('e' in sample['output_text'])"),
                                      n_epochs=1, group_size=2)}
    straight = c.done(c.job(c.file(PROMPTS), **of))
    job = c.job(c.file(PROMPTS), **of)
    for i in range(4):  # once in a step, for a program is begun three times at most
        until(lambda least=i: len(steps_of(c, job)) >= least and below(s.pid)[2])
        _, hosts, programs = below(s.pid)
        for pid in hosts if i % 2 else programs[:1]:
            os.kill(pid, signal.SIGKILL)
        until(lambda more=i: s.said().count("asking a grader's program again") > more)
    j = c.done(job)
    assert steps_of(c, j["id"]) == steps_of(c, straight["id"])


def stands_still(s, c):
    """A host that is stopped: a program that was never begun is not worth 0."""
    host = settled(s)
    os.kill(host, signal.SIGSTOP)
    job = c.job(c.file(PROMPTS), seed=1, method=method(program("return 1"), n_epochs=1, group_size=2))
    j = c.wait(job, ("paused", "failed", "succeeded"))
    os.kill(host, signal.SIGCONT)
    assert j["status"] == "paused", j
    assert c.ask("POST", f"{JOBS}/{job}/resume").status == 200
    c.done(job)


def without_keeper(s, c):
    """That nothing can be run says nothing of a program: no grade, and a job halts. The log says it
    before anybody asks, and nobody is left."""
    asking = Asking(s, c, 3)
    keeper, hosts, programs = below(s.pid)
    os.kill(keeper, signal.SIGKILL)
    until(lambda: "no more programs of graders" in s.said())
    until(lambda: not any(state(p) for p in (keeper, *hosts, *programs)), (keeper, hosts, programs))
    asking.join()
    assert asking.reply.status == 503, asking.reply
    for _ in range(2):
        r = c.ask("POST", f"{PATH}/run", {"grader": program("return 1"), "model_sample": "a"})
        assert r.status == 503 and r.error["code"] == "grader_unavailable", r
    job = c.job(c.file(PROMPTS), seed=1, method=method(program("return 1"), n_epochs=1, group_size=2))
    j = c.wait(job, ("paused", "failed", "succeeded"))
    assert j["status"] == "paused", j
    assert not children(s.pid), children(s.pid)


def ends_with_the_server(tmp, how):
    """With a host that stands still, and a program that does not end."""
    with serve(tmp, "--python-graders", sys.executable, "--grader-timeout", "600",
               "--shutdown-timeout", "1") as s:
        def ask():
            with contextlib.suppress(OSError, http.client.HTTPException):
                client(s).ask("POST", f"{PATH}/run", {"model_sample": "a", "grader": program("while True: pass")})
        asking = threading.Thread(target=ask)
        asking.start()
        until(lambda: below(s.pid)[2])
        keeper, hosts, programs = below(s.pid)
        os.kill(hosts[0], signal.SIGSTOP)
        status = s.process.send_signal(how) or s.process.wait(60 * SLOW)
        assert status == (-how if how == signal.SIGKILL else 0), (status, s.output())
        until(lambda: not any(state(p) not in (None, "Z") for p in (keeper, *hosts, *programs)),
              (keeper, hosts, programs))
        asking.join()
        s.process.returncode = 0


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
            cases.run("killed", lambda: killed(s, c))
            cases.run("killed again and again", lambda: killed_again_and_again(s, c))
            cases.run("stands still", lambda: stands_still(s, c))
            cases.run("without keeper", lambda: without_keeper(s, c))
        with serve(tmp / "two", "--python-graders", sys.executable) as s:
            cases.run("goes on to the bit", lambda: goes_on_to_the_bit(s, client(s)))
        cases.run("ends with the server", lambda: ends_with_the_server(tmp / "end", signal.SIGINT))
        cases.run("ends with a server that is killed", lambda: ends_with_the_server(tmp / "kill", signal.SIGKILL))
    return cases.end()


if __name__ == "__main__":
    sys.exit(main())
