#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Graders that ask others: models that are served here or elsewhere, endpoints. The others are played by
a server of this test.

Faults they can catch: an address that nobody allowed and that is asked, by itself or by a redirect; an
answer that is none and counts; a fault that passes and ends a job, or is not tried again; a job that was
killed and asks for grades that it had, or ends as another.

TEST_FAULTS=full kills 100 times; otherwise 4. Standard library only."""
import contextlib
import http.client
import http.server
import json
import pathlib
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "lib"))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from serving import Cases, scratch  # noqa: E402
from test_preferences import KILLS, client, kill, lines, outcome, said, same  # noqa: E402
from test_rewards import PROMPTS, method, numbers, serve  # noqa: E402

PATH = "/v1/fine_tuning/alpha/graders"
ASK = [{"role": "user", "content": "Is {{sample.output_text}} like {{item.answer}}?"}]
SCORE = {"type": "score_model", "name": "score", "model": "judge", "input": ASK}
LABEL = {"type": "label_model", "name": "label", "model": "tiny", "input": ASK, "labels": ["good", "bad"],
         "passing_labels": ["good"]}
AT_ONCE = 8


class Others(http.server.ThreadingHTTPServer):
    """Who graders ask: a model at /v1/chat/completions, which does as its name says, and endpoints."""
    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.seen, self.lock = [], threading.Lock()
        self.let_go = threading.Event()
        self.url = f"http://127.0.0.1:{self.server_address[1]}"
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def handle_error(self, *_):
        """Who asks may hang up."""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.let_go.set()
        self.shutdown()
        self.server_close()

    def count(self, path):
        with self.lock:
            return sum(p == path for p, _, _ in self.seen)

    def last(self):
        with self.lock:
            return self.seen[-1]


def completion(content=None, refusal=None):
    return {"choices": [{"index": 0, "finish_reason": "stop",
                         "message": {"role": "assistant", "content": content, "refusal": refusal}}],
            "usage": {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10}}


MODELS = {"judge": completion('{"result": 0.75}'), "high": completion('{"result": 7}'),
          "chatty": completion("Well, 0.5 I think."), "shy": completion(None, "I would rather not."),
          "labels": completion('{"label": "good"}'), "other": completion('{"label": "none of them"}'),
          "odd": {"hello": 1}}


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def tell(self, status, body, **headers):
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        for k, v in headers.items():
            self.send_header(k, v)
        self.end_headers()
        self.wfile.write(data)

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        with self.server.lock:
            self.server.seen.append((self.path, body, dict(self.headers)))
        path = self.path
        if path == "/v1/chat/completions":
            self.tell(200, MODELS[body["model"]])
        elif path == "/grade":
            self.tell(200, {"score": float("e" in body["sample"]["output_text"])})
        elif path == "/grade/sometimes":  # of a sample now and then never
            self.tell(*((400, {"error": "no"}) if "b" in body["sample"]["output_text"]
                        else (200, {"score": float("e" in body["sample"]["output_text"])})))
        elif path == "/grade/third":
            self.tell(*((503, {}) if self.server.count(path) % 3 else (200, {"score": 0.5})))
        elif path == "/grade/moved":
            self.tell(307, {}, Location=self.server.url + "/secret")
        elif path == "/grade/long":
            self.tell(200, b'{"score": 1' + b" " * (2 << 20) + b"}")
        elif path == "/grade/hang":
            self.server.let_go.wait()
        elif path == "/grade/own":
            self.tell(200, {"score": 1})
        elif path == "/grade/words":
            self.tell(200, {"score": "much"})
        elif path == "/grade/never":
            self.tell(503, {})
        else:
            self.tell(404, {"error": "who knows"})


def run(c, grader, sample="Yes", item=None):
    r = c.ask("POST", f"{PATH}/run", {"grader": grader, "model_sample": sample,
                                      "item": {"answer": "Yes"} if item is None else item})
    assert r.status == 200, (grader, r)
    return r.json


def fault(c, grader, what, words=""):
    got = run(c, grader)
    errors = got["metadata"]["errors"]
    assert got["reward"] == 0 and errors[what] is True and words in errors["x_details"], got
    assert sum(v is True for v in errors.values()) == 1, got
    return got


def endpoint(others, path="/grade", **more):
    return {"type": "endpoint", "name": "point", "url": others.url + path, **more}


def here(c):
    """The tiny model judges: at random, but as it is held to."""
    got = [run(c, {**LABEL, "sampling_params": {"seed": i, "temperature": 1}}) for i in range(8)]
    assert all(g["reward"] in (0, 1) and not g["metadata"]["errors"]["x_details"] for g in got), got
    used = got[0]["model_grader_token_usage_per_model"]["tiny"]
    assert used["prompt_tokens"] > 5 and used["completion_tokens"] > 1, got[0]
    assert got[0]["metadata"]["token_usage"] == used["total_tokens"], got[0]
    assert got[0]["metadata"]["sampled_model_name"] == "tiny", got[0]
    assert run(c, LABEL)["reward"] == run(c, LABEL)["reward"]
    got = run(c, {**SCORE, "model": "tiny", "sampling_params": {"max_completions_tokens": 40}})
    errors = got["metadata"]["errors"]
    assert errors["model_grader_parse_error"] or (0 <= got["reward"] <= 1 and not errors["x_details"]), got
    fault(c, {**LABEL, "model": "nobody"}, "model_grader_server_error", "404")
    fault(c, {**LABEL, "input": [{"role": "user", "content": "{{item.none}}"}]}, "invalid_variable_error")


def elsewhere(c, others):
    base = {"base_url": others.url + "/v1"}
    got = run(c, {**SCORE, **base, "sampling_params": {"seed": 3, "top_p": 0.5, "temperature": 0.25,
                                                       "max_completions_tokens": 9,
                                                       "reasoning_effort": "low"}})
    assert got["reward"] == 0.75 and got["metadata"]["token_usage"] == 10, got
    path, asked, headers = others.last()
    assert path == "/v1/chat/completions" and headers["Authorization"] == "Bearer secret-key", headers
    assert asked["messages"] == said("user", "Is Yes like Yes?"), asked
    assert (asked["seed"], asked["top_p"], asked["temperature"], asked["max_completion_tokens"],
            asked["reasoning_effort"]) == (3, 0.5, 0.25, 9, "low") and "priority" not in asked, asked
    assert asked["response_format"]["json_schema"]["schema"]["required"] == ["result"], asked
    assert run(c, {**LABEL, **base, "model": "labels"})["reward"] == 1
    assert run(c, {**SCORE, **base, "model": "high", "range": [0, 10]})["reward"] == 7
    fault(c, {**SCORE, **base, "model": "high"}, "model_grader_parse_error", "range")
    fault(c, {**SCORE, **base, "model": "chatty"}, "model_grader_parse_error")
    fault(c, {**LABEL, **base, "model": "other"}, "model_grader_parse_error")
    fault(c, {**SCORE, **base, "model": "odd"}, "model_grader_server_error")
    fault(c, {**SCORE, **base, "model": "shy"}, "model_grader_refusal_error", "rather not")
    both = {"type": "multi", "name": "both", "calculate_output": "x + 2 * y", "graders": {
        "x": {**SCORE, **base}, "y": {**LABEL, **base, "model": "labels"}}}
    got = run(c, both)
    assert got["reward"] == 2.75 and got["metadata"]["token_usage"] == 20, got
    assert set(got["model_grader_token_usage_per_model"]) == {"judge", "labels"}, got
    several = [{"role": "system", "content": {"type": "input_text", "text": "a"}},
               {"role": "user", "content": ["b", {"type": "input_text", "text": "{{item.answer}}"}]}]
    run(c, {**SCORE, **base, "input": several})
    assert others.last()[1]["messages"] == said("system", "a") + said("user", "b\nYes"), others.last()


def points(c, others):
    assert run(c, endpoint(others), "See")["reward"] == 1 and run(c, endpoint(others), "Now")["reward"] == 0
    run(c, endpoint(others, headers={"X-Key": "abc", "Authorization": "Basic x"}), '{"a": [1, "e"]}')
    _, asked, headers = others.last()
    assert headers["X-Key"] == "abc" and headers["Authorization"] == "Basic x", headers
    assert asked == {"sample": {"output_text": '{"a": [1, "e"]}', "output_json": {"a": [1, "e"]}},
                     "item": {"answer": "Yes"}}, asked
    assert run(c, endpoint(others, "/grade/third"))["reward"] == 0.5
    assert others.count("/grade/third") == 3
    what = "unresponsive_reward_error"
    fault(c, endpoint(others, "/grade/nowhere"), what, "404")
    assert others.count("/grade/nowhere") == 1
    fault(c, endpoint(others, "/grade/moved"), what, "redirect")
    fault(c, endpoint(others, "/grade/long"), what, "too long")
    fault(c, endpoint(others, "/grade/words"), what, "score")
    fault(c, endpoint(others, "/grade/never"), what, "503")
    assert others.count("/grade/never") > 1 and others.count("/secret") == 0


def nearest(c, others):
    """Of several addresses and keys that fit, the longest counts, in whatever order they were told."""
    for path, key in (("/grade", "wide-key"), ("/grade/own", "own-key")):
        assert run(c, endpoint(others, path), "See")["reward"] == 1
        assert others.last()[2]["Authorization"] == f"Bearer {key}", others.last()


def one_deadline(c, others):
    many = {"type": "multi", "name": "m", "calculate_output": "a + b + c",
            "graders": {k: endpoint(others, "/grade/hang") for k in "abc"}}
    fault(c, many, "unresponsive_reward_error")
    assert others.count("/grade/hang") == 1, others.count("/grade/hang")


def stopped(tmp, others):
    """A stop doesn't wait for what graders ask."""
    before = others.count("/grade/hang")
    with serve(tmp, "--grader-url", others.url + "/grade", "--grader-timeout", "600", "--shutdown-timeout", "0") as s:
        c = client(s)

        def hang():
            with contextlib.suppress(OSError, http.client.HTTPException):
                c.ask("POST", f"{PATH}/run", {"grader": endpoint(others, "/grade/hang"), "model_sample": "a"})
        asking = threading.Thread(target=hang)
        asking.start()
        while others.count("/grade/hang") == before:
            time.sleep(0.01)
        assert s.stop() == 0
        asking.join()


def not_allowed(c, others, param, grader):
    for path in ("run", "validate"):
        r = c.ask("POST", f"{PATH}/{path}", {"grader": grader, "model_sample": "a"})
        assert r.status == 400 and r.error["param"] == f"grader.{param}", (grader, r)
    r = c.make(c.file(PROMPTS), method=method(grader))
    assert r.status == 400 and r.error["param"] == f"method.reinforcement.grader.{param}", r


def allowed(c, others):
    """Nothing but what is below an address that the operator named is asked."""
    port = others.server_address[1]
    for url in (others.url + "/secret", others.url + "/grad", others.url + "/grade/../secret",
                others.url + "/grade/%2e%2e/secret", f"http://127.0.0.1:{port}@127.0.0.2/grade",
                f"https://127.0.0.1:{port}/grade", f"http://localhost:{port}/grade",
                "file:///etc/passwd", "http://127.0.0.1/grade", "gopher://127.0.0.1/grade", "/grade"):
        not_allowed(c, others, "url", {**endpoint(others), "url": url})
    for url in (others.url, others.url + "/v2", "http://127.0.0.1:1/v1"):
        not_allowed(c, others, "base_url", {**SCORE, "base_url": url})
    inner = {"type": "multi", "name": "m", "calculate_output": "x", "graders": {
        "x": {**endpoint(others), "url": others.url + "/secret"}}}
    not_allowed(c, others, "graders.x.url", inner)
    assert others.count("/secret") == 0


def refused(c):
    point = {"type": "endpoint", "name": "p", "url": "http://127.0.0.1:1/grade"}
    for grader, where in (
            ({**SCORE, "model": None}, ".model"), ({**SCORE, "model": "x" * 200}, ".model"),
            ({**SCORE, "input": "text"}, ".input"), ({**SCORE, "input": []}, ".input"),
            ({**SCORE, "input": [{"role": "robot", "content": "a"}]}, ".input"),
            ({**SCORE, "input": [{"role": "user", "content": {"type": "input_image"}}]}, ".input"),
            ({**SCORE, "input": [{"role": "user", "content": "{{item"}]}, ".input"),
            ({**SCORE, "range": [1, 0]}, ".range"), ({**SCORE, "range": [1]}, ".range"),
            ({**SCORE, "labels": ["a"]}, ".labels"), ({**SCORE, "sampling_params": 1}, ".sampling_params"),
            ({**SCORE, "sampling_params": {"temperature": 3}}, ".sampling_params.temperature"),
            ({**SCORE, "sampling_params": {"best_of": 3}}, ".sampling_params.best_of"),
            ({**LABEL, "labels": []}, ".labels"), ({**LABEL, "labels": ["a", "a"]}, ".labels"),
            ({**LABEL, "passing_labels": ["c"]}, ".passing_labels"),
            ({**LABEL, "passing_labels": []}, ".passing_labels"), ({**LABEL, "range": [0, 1]}, ".range"),
            ({**point, "url": None}, ".url"), ({**point, "url": "a\0b"}, ".url"),
            ({**point, "headers": {"Host": "x"}}, ".headers"), ({**point, "headers": {"A": 1}}, ".headers"),
            ({**point, "headers": {"A": "x\r\nB: y"}}, ".headers"),
            ({**point, "headers": {"A B": "x"}}, ".headers"), ({**point, "method": "GET"}, ".method"),
            ({"type": "python", "name": "p", "source": ""}, ".source"),
            ({"type": "python", "name": "p", "source": "x", "image_tag": "y"}, ".image_tag"),
            ({"type": "python", "name": "p", "source": "def grade(s, i): return 1"}, ".type")):
        r = c.ask("POST", f"{PATH}/validate", {"grader": grader})
        assert r.status == 400 and r.error["param"] == "grader" + where, (grader, r)


def steps_of(c, job):
    return [(m["train_reward_mean"], m["train_loss"], m["ungraded_samples"]) for m in numbers(c, job)]


def as_strings(c, others):
    """A job that asks has the steps of one that finds the same by itself; what cannot be graded counts."""
    plain = c.done(c.job(c.file(PROMPTS), seed=1, method=method(n_epochs=1)))
    asked = c.done(c.job(c.file(PROMPTS), seed=1, method=method(endpoint(others), n_epochs=1)))
    assert steps_of(c, plain["id"]) == steps_of(c, asked["id"])
    some = c.done(c.job(c.file(PROMPTS), seed=1, method=method(endpoint(others, "/grade/sometimes"), n_epochs=1)))
    seen = [m for m in numbers(c, some["id"]) if m["ungraded_samples"]]
    assert seen and all(m["grader_errors"] == {"unresponsive_reward_error": m["ungraded_samples"]}
                        for m in seen), seen
    assert "400" in seen[0]["grader_error"], seen[0]


def by_itself(c):
    """The model that is trained over judges beside its own rollouts."""
    judge = {**LABEL, "input": [{"role": "user", "content": "{{item.wanted}}"}]}
    job = c.done(c.job(c.file(PROMPTS), seed=1, method=method(judge, n_epochs=1)))
    assert all(m["ungraded_samples"] == 0 for m in numbers(c, job["id"])), numbers(c, job["id"])


def killed(tmp, others):
    """Ends as one that was not, and asks again for little more than what was under way."""
    options = ("--grader-url", others.url + "/grade", "--grader-requests", str(AT_ONCE))
    hyper = method(endpoint(others), n_epochs=3, checkpoint_steps=2)
    with serve(tmp, *options) as s:
        c = client(s)
        file = c.file(PROMPTS)
        want = outcome(c, tmp, c.job(file, seed=9, method=hyper))
        n = others.count("/grade")
        job = c.job(file, seed=9, method=hyper)
        kill(s, 0.05)
    kills = min(KILLS, 4) if KILLS < 100 else KILLS
    for i in range(kills - 1):
        with serve(tmp, *options) as s:
            kill(s, 0.02 + 0.04 * (i % 7))
    with serve(tmp, *options) as s:
        same(outcome(client(s), tmp, job), want)
        assert others.count("/grade") - n <= n + kills * AT_ONCE, (n, others.count("/grade"))
    return f"{kills} kills"


def faults_of_options(tmp):
    (tmp / "wrong").write_text("http://127.0.0.1:1/ key\n")
    for options, words in ((("--grader-url", "ftp://x"), "--grader-url"),
                           (("--grader-key-file", tmp / "none"), "--grader-key-file"),
                           (("--grader-key-file", tmp / "wrong"), "no --grader-url")):
        try:
            with serve(tmp / "faulty", *options):
                raise AssertionError(f"{options}: it starts")
        except AssertionError as e:
            assert words in str(e) and "it starts" not in str(e), e


def main():
    cases = Cases()
    with scratch() as tmp, Others() as others:
        (tmp / "graders").write_text(f"# keys\n{others.url}/grade/own own-key\n{others.url}/v1 secret-key\n"
                                     f"{others.url} wide-key\n")
        with serve(tmp / "one", "--grader-url", others.url + "/grade", "--grader-url", others.url + "/v1/",
                   "--grader-url", others.url + "/grade/own",
                   "--grader-key-file", tmp / "graders", "--grader-timeout", "5") as s:
            c = client(s)
            cases.run("here", lambda: here(c))
            cases.run("elsewhere", lambda: elsewhere(c, others))
            cases.run("endpoints", lambda: points(c, others))
            cases.run("nearest", lambda: nearest(c, others))
            cases.run("one deadline", lambda: one_deadline(c, others))
            cases.run("allowed", lambda: allowed(c, others))
            cases.run("refused", lambda: refused(c))
            cases.run("as strings", lambda: as_strings(c, others))
            cases.run("by itself", lambda: by_itself(c))
        cases.run("killed as straight", lambda: killed(tmp / "two", others))
        cases.run("stopped", lambda: stopped(tmp / "three", others))
        cases.run("options", lambda: faults_of_options(tmp))
    return cases.end()


if __name__ == "__main__":
    sys.exit(main())
