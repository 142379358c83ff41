#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`tandem serve --device cuda` on a GPU played over the host's memory (tests/fake/cuda): many at
once, adapters, log-probabilities, constrained texts and a job get the numbers of --device cpu --kernels ref, and a GPU
that breaks for good ends the server with words, its job whole where the store has it.

Catches: a row of a step that is read before its copy has come; a server that stays ready, or hangs,
without its device; a job that fails because the device did."""
import concurrent.futures
import contextlib
import http.client
import os
import pathlib
import re
import sys
import threading
import time

TESTS = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(TESTS / "lib"), str(TESTS / "server")]
from ranks import FALL_S  # noqa: E402
from serving import SLOW, Cases, Tandem, scratch  # noqa: E402
from test_tuning import JOBS, MODEL, Client, rows  # noqa: E402
from twin import PLUG, told  # noqa: E402

HYPER = {"n_epochs": 2, "batch_size": 4, "learning_rate_multiplier": 20}
ADAPTER_OPTIONS = ("--kv-memory", "8M", "--max-lora-rank", "16", "--max-adapters", "4",
                   "--no-access-log", "--kernels", "ref", "--min-examples", "1")


def serve(tmp, device, threads=2, **env):
    return Tandem(MODEL, "--name", "tiny", "--data-dir", tmp, "--device", device, *ADAPTER_OPTIONS,
                  "--threads", threads, env={"TANDEM_CUDA_PLUG": PLUG, **env})


def serve_alone(tmp, **env):
    """By one thread, so that every start asks for the same blocks of memory."""
    return serve(tmp, "cuda", threads=1, **env)


def client(s):
    return Client(s, {})


def ask(s, model, i):
    r = s.post("/v1/completions", {"model": model, "prompt": "a b " * (i % 7 + 1), "max_tokens": 6,
                                   "temperature": 0.7 * (i % 2), "seed": i, "logprobs": 2,
                                   **({"guided_regex": "([a-d]{1,3}[0-9])+"} if i % 3 == 1 else {})})
    assert r.status == 200, r
    c, = r.json["choices"]
    assert i % 3 != 1 or re.fullmatch("[a-d0-9]+", c["text"]), c
    return c["text"], c["logprobs"], c["finish_reason"]


def ask_all(s, model):
    """Six at once."""
    got = [None] * 6

    def one(i):
        got[i] = ask(s, model, i)

    asking = [threading.Thread(target=one, args=(i,)) for i in range(len(got))]
    for t in asking:
        t.start()
    for t in asking:
        t.join()
    return got


def live(tmp, device):
    """All that a client can see of numbers: of the base, of a job, of its adapter."""
    with serve(tmp, device) as s:
        c = client(s)
        base = ask_all(s, "tiny")
        job = c.job(c.file(rows(12)), hyperparameters=HYPER, seed=3)
        tuned = c.done(job)
        points = c.get(f"{JOBS}/{job}/checkpoints").json["data"]
        return base, [p["metrics"] for p in points], ask_all(s, tuned["fine_tuned_model"])


def same_numbers():
    with scratch() as tmp:
        cpu, gpu = live(tmp / "cpu", "cpu"), live(tmp / "gpu", "cuda")
    for name, a, b in zip(("base", "checkpoints", "adapter"), cpu, gpu, strict=True):
        assert a == b, f"{name}: {a} {b}"
    assert cpu[0] != cpu[2], "the job changed nothing"


def goes_ahead():
    """The next step is given before the one before is waited for, but where a text needs its tokens
    on the host; and what is said is the same, whatever ends when: by length, by a stop string, by a
    stop id, before it began, in the midst of others."""
    asks = [{"max_tokens": 1 + i * 5 % 23, "temperature": i % 3 * 0.6, "seed": i,
             "prompt": "a b c " * (1 + i % 9), "ignore_eos": i % 4 > 0,
             **({"stop": ["a", "or"]} if i % 5 == 1 else {}),
             **({"stop_token_ids": list(range(0, 200, 7))} if i % 5 == 2 else {}),
             **({"top_p": 0.8, "min_tokens": 1} if i % 5 == 3 else {}),
             **({"top_k": 9, "logprobs": 3, "echo": i > 9} if i % 5 == 4 else {}),
             **({"logit_bias": {"5": 3, "9": -100}} if i % 6 == 0 else {})} for i in range(24)]
    fixed = [{**a, "frequency_penalty": 0.5, "repetition_penalty": 1.2} for a in asks[:6]]

    def say(s, ask):
        r = s.post("/v1/completions", {"model": "tiny", **ask})
        assert r.status == 200, r
        c, = r.json["choices"]
        return c["text"], c["logprobs"], c["finish_reason"], r.json["usage"]["completion_tokens"]

    def all_of(tmp, device, asks, **env):
        with serve(tmp, device, **env) as s, \
             concurrent.futures.ThreadPoolExecutor(8) as pool:
            return list(pool.map(lambda a: say(s, a), asks))

    with scratch() as tmp:
        ahead = {}
        for name, of in (("plain", asks), ("fixed", fixed)):
            tell = tmp / name
            want = all_of(tmp / f"{name}-cpu", "cpu", of)
            got = all_of(tmp / f"{name}-gpu", "cuda", of, FAKE_CUDA_TELL=str(tell))
            assert got == want, [p for p in zip(want, got, of, strict=True) if p[0] != p[1]][:3]
            ahead[name] = int(tell.read_text().split()[7])
        assert ahead["plain"] > 5 and ahead["fixed"] == 0, ahead


def fails_once():
    """The n-th call fails, for n over the requests' part of a run: who was in the steps that it took
    hears of it, nobody gets another text, and those who come behind find no trace. Four of n;
    TEST_ATTACK=full: all."""
    asks = [{"prompt": "a b c " * (i + 1) * 3, "max_tokens": 8, "temperature": 0.5 * i, "seed": i,
             "ignore_eos": True} for i in range(3)]

    def say(s, ask):
        r = s.post("/v1/completions", {"model": "tiny", **ask})
        return r.json["choices"][0]["text"] if r.status == 200 else r.status

    def run(tmp, asks, **env):
        with serve(tmp, "cuda", FAKE_CUDA_TELL=str(tmp / "tell"), **env) as s, \
             concurrent.futures.ThreadPoolExecutor(3) as pool:
            said = list(pool.map(lambda a: say(s, a), asks))
            again = [say(s, a) for a in asks]
        return said, again, int((tmp / "tell").read_text().split()[1])

    with scratch() as tmp:
        _, _, start = run(tmp, [])
        want, again, calls = run(tmp, asks)
        assert want == again, (want, again)
        full = os.environ.get("TEST_ATTACK") == "full"
        failed = 0
        for n in range(start, calls, 1 if full else max(1, (calls - start) // 4)):
            said, again, _ = run(tmp, asks, FAKE_CUDA_FAIL=str(n), FAKE_CUDA_HOW="once")
            texts = [t for t in zip(said + again, want + want, strict=True) if not isinstance(t[0], int)]
            errors = [t for t in said + again if isinstance(t, int)]
            assert all(a == b for a, b in texts), (n, texts)
            assert all(status >= 500 for status in errors), (n, errors)
            failed += bool(errors)
        assert failed > 0


def memory_is_taken_at_the_start():
    """Requests, a job and its adapter take no more of the GPU's memory than the start did; what cannot
    be had is told by the start, with the numbers."""
    def life(tmp, does):
        with serve_alone(tmp, FAKE_CUDA_TELL=str(tmp / "tell")) as s:
            if does:
                c = client(s)
                tuned = c.done(c.job(c.file(rows(12)), hyperparameters=HYPER, seed=3))
                ask_all(s, tuned["fine_tuned_model"])
        return told(tmp / "tell")[4:6]

    with scratch() as tmp:
        still, busy = life(tmp / "still", False), life(tmp / "busy", True)
        assert busy[0] > still[0] and busy[1] == still[1], (still, busy)  # blocks; takings
        s = Tandem(MODEL, "--data-dir", tmp / "none", "--device", "cuda", *ADAPTER_OPTIONS,
                   "--train-memory", "950M", waits=False,
                   env={"TANDEM_CUDA_PLUG": PLUG})
        ends_with_words(s, ("what adapters and jobs may take", "1073.7 MB", "MB are free"))


def memory_that_a_job_misses():
    """Each block that a job asks for is refused in turn: it does without, or fails and says why; who
    asks meanwhile is answered as ever, and the next job succeeds. Some; TEST_ATTACK=full: all."""
    brief = {"n_epochs": 1, "batch_size": 4}
    with scratch() as tmp:
        with serve_alone(tmp / "a", FAKE_CUDA_TELL=str(tmp / "tell")) as s:
            want = ask(s, "tiny", 1)
        first = told(tmp / "tell")[4] + 1
        with serve_alone(tmp / "b", FAKE_CUDA_TELL=str(tmp / "tell")) as s:
            c = client(s)
            c.done(c.job(c.file(rows(4)), hyperparameters=brief, seed=3))
        last = told(tmp / "tell")[4]
        step = 1 if os.environ.get("TEST_ATTACK") == "full" else (last - first) // 2
        ends = []
        for n in range(first, last + 1, step):
            with serve_alone(tmp / str(n), FAKE_CUDA_FAIL=str(n), FAKE_CUDA_HOW="block") as s:
                c = client(s)
                file = c.file(rows(4))
                job = c.job(file, hyperparameters=brief, seed=3)
                said = ask(s, "tiny", 1)
                end = c.wait(job)
                assert (said, ask(s, "tiny", 1)) == (want, want), n
                error = end.get("error") or {}
                ends.append(error.get("code"))
                assert end["status"] == "succeeded" or (
                    error["code"] == "not_enough_memory" and "MB are free" in error["message"]), end
                c.done(c.job(file, hyperparameters=brief, seed=3))
        assert "not_enough_memory" in ends, ends


def ends_with_words(s, words):
    """The server ends by itself, and its log says why."""
    end = time.monotonic() + 60 * SLOW
    while s.process.poll() is None and time.monotonic() < end:
        time.sleep(0.05)
    said = s.output()
    assert s.process.poll() not in (None, 0), said
    assert s.process.returncode > 0 and all(w in said for w in words), said


def breaks_while_serving():
    with scratch() as tmp:
        s = serve(tmp, "cuda", FAKE_CUDA_FAIL="1500", FAKE_CUDA_HOW="stays")
        last, since = None, time.monotonic()
        with contextlib.suppress(OSError, http.client.HTTPException):
            for i in range(200):
                asked = time.monotonic()
                last = s.post("/v1/completions", {"model": "tiny", "prompt": "a b", "max_tokens": 8,
                                                  "temperature": 0, "seed": i})
                since = asked
                if last.status != 200:
                    break
        missed = time.monotonic() - since  # who comes late finds nobody who could say it
        assert last.status == 503 and "device" in last.error["message"] or missed >= FALL_S, last
        ends_with_words(s, ("the model is lost", "illegal memory access"))


def breaks_while_training():
    """Idle but for its job: the server ends, and another goes on with the job."""
    with scratch() as tmp:
        s = serve(tmp, "cuda", FAKE_CUDA_FAIL="1500", FAKE_CUDA_HOW="stays")
        c = client(s)
        file = c.file(rows(12))
        with contextlib.suppress(OSError, http.client.HTTPException):  # it may end before it answers
            c.job(file, hyperparameters={**HYPER, "n_epochs": 3}, seed=3)
        ends_with_words(s, ("the model is lost", "jobs stand still"))
        with serve(tmp, "cuda") as again:
            c = client(again)
            jobs = c.get(JOBS).json["data"]
            assert len(jobs) == 1, f"jobs in the store: {jobs}"
            c.done(jobs[0]["id"])


def main():
    cases = Cases()
    cases.run("the numbers of the CPU", same_numbers)
    cases.run("goes ahead", goes_ahead)
    cases.run("fails once", fails_once)
    cases.run("memory is taken at the start", memory_is_taken_at_the_start)
    cases.run("memory that a job misses", memory_that_a_job_misses)
    cases.run("breaks while it serves", breaks_while_serving)
    cases.run("breaks while it trains", breaks_while_training)
    return cases.end()


if __name__ == "__main__":
    sys.exit(main())
