#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`tandem chat`, `tandem ps` and `tandem health` before a real server, by lines and on a terminal.

Faults they can catch: an answer that is not the API's; a talk that forgets what was said, or keeps what
failed; Ctrl-C that ends the talk instead of the answer; a terminal left as it was during typing; a model
that is switched to by a name that is none; a history that others can read, or that loses a line; a talk that
is saved over another, or goes on otherwise than it was; a token with another's probability; figures of ps that are another's; a screen of ps that is
wider than its terminal; a program that does not start where libcurl is not.

Standard library only."""
import http.server
import json
import math
import os
import pathlib
import re
import shutil
import signal
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from shell import HANG, Shell, Terminal, drawn, impostor, reply  # noqa: E402
from serving import BUILD, ENDLESS, Cases, Tandem, make_model, scratch  # noqa: E402

GREEDY = ("--temperature", 0, "--max-tokens", 8)
PROMPT = r"\x1b\[K(\x1b\[1m)?> (\x1b\[0m)?\r"


def asked(server, *messages, model="tiny", n=8):
    """What the API answers to the same; messages of user and assistant in turn."""
    roles = ("user", "assistant")
    r = server.post("/v1/chat/completions", {
        "model": model, "temperature": 0, "max_tokens": n,
        "messages": [{"role": roles[i % 2], "content": m} for i, m in enumerate(messages)]})
    assert r.status == 200, r
    return r.json["choices"][0]["message"]["content"]


def printable(text):
    """As the program shows it."""
    return "".join(c for c in text if c in "\n\t" or (ord(c) >= 32 and not 127 <= ord(c) < 160))


def unstyled(seen):
    return re.sub(r"\x1b\[\d*m", "", seen).replace("\r", "")


# ---- by lines


def one_answer(server, sh):
    want = asked(server, "hello")
    said = sh.good("chat", "hello", *GREEDY)
    assert said.out == printable(want).rstrip("\n") + "\n" and said.err == "", (want, said)
    whole = json.loads(sh.good("chat", "hello", "--json", *GREEDY).out)
    assert whole["choices"][0]["message"]["content"] == want, whole
    same = [sh.good("chat", "hello", "--seed", 3, "-n", 8, "-t", 1.5).out for _ in range(2)]
    assert same[0] == same[1], same


def by_lines(server, sh):
    first = asked(server, "one")
    second = asked(server, "one", first, "two")
    said = sh.good("chat", "--json", *GREEDY, text="one\n\ntwo\n")
    answers = [json.loads(line)["choices"][0]["message"]["content"]
               for line in said.out.splitlines()]
    assert answers == [first, second], (first, second, said)
    sh.bad(2, "no such model: .*`tandem models` lists them", "chat", "hello", "--model", "nobody")
    sh.bad(2, "-t: 3", "chat", "hello", "-t", 3)


def broken_answers(_, sh):
    del sh
    models = reply(200, '{"object": "list", "data": [{"id": "m"}]}')
    with impostor(models) as url:  # the same for every request: no stream of events
        said = Shell(url)("chat", "hello")
        assert said.out == "", said
    event = 'data: {"choices": [{"delta": {"content": "so far\\u001b[31m"}}]}\n\n'
    error = 'data: {"error": {"message": "out\\u001b[31m of luck"}}\n\n'
    with impostor(reply(200, event + error, "text/event-stream")) as url:
        said = Shell(url).bad(1, r"broke off: out \[31m of luck", "chat", "hello", "--model", "m")
        assert said.out in ("so far[31m\n", ""), said


# ---- on a terminal


def talk(server, sh):
    first = asked(server, "one")
    second = asked(server, "one", first, "/two")
    with Terminal(sh, "chat", *GREEDY, columns=200) as t:
        t.until("tiny answers.*\n")
        t.until(PROMPT)
        t.type("onX\x7fe\r")
        seen = t.until(PROMPT)
        last = printable(first).splitlines()
        assert not last or last[-1] in unstyled(seen), (first, seen)
        t.type("//two\r")
        seen = t.until(PROMPT)
        last = printable(second).splitlines()
        assert not last or last[-1] in unstyled(seen), (second, seen)
        t.type("\x1b[A")
        t.until(r"> (\x1b\[0m)?//two")
        t.type("\x15/model nobody\r")
        t.until("no model has \"nobody\"")
        t.type("/model\r")
        t.until(r"\* tiny")
        t.type("/model in\r/clear\r/system be brief\r/help\r/what\r")
        t.until("no command /what")
        t.until(PROMPT)
        t.type("dropped\x03")
        t.until(PROMPT)
        t.type("\x04")
        assert t.end() == 0, t.screen


def kept_between_runs(server, sh, tmp):
    """What was typed is there in the next run, found by Ctrl-R, and nobody else may read it."""
    del server
    env = {"XDG_STATE_HOME": str(tmp / "state")}
    mine = Shell(sh.env["TANDEM_URL"], **env)
    with Terminal(mine, "chat", *GREEDY) as t:
        t.until(PROMPT)
        for line in ("/set seed 3", "/set seed 4\\\r", " /set temperature 1"):
            t.type(line + "\r")
            t.until(PROMPT)
        t.type("/quit\r")
        assert t.end() == 0, t.screen
    file = tmp / "state/tandem/chat_history"
    assert file.read_text() == "/set seed 3\n/set seed 4\\n\n/quit\n", file.read_text()
    assert file.stat().st_mode & 0o777 == 0o600
    file.write_text("with \\\\ and\\na line\n" * 2 + "the other\n")
    with Terminal(mine, "chat", *GREEDY) as t:
        t.until(PROMPT)
        t.type("\x12and")
        t.until(r"\(search: and\) (\x1b\[0m)?with \\ and a line")
        t.type("\x07")
        t.until(PROMPT)
        t.type("\x1b[A")
        t.until(r"> (\x1b\[0m)?the other")
        t.type("\x03\x04")
        assert t.end() == 0, t.screen
    (tmp / "state").chmod(0o700)
    shutil.rmtree(tmp / "state")
    (tmp / "state").write_text("no folder")
    with Terminal(mine, "chat", *GREEDY) as t:
        t.until("what is typed is not kept: ")
        t.until(PROMPT)
        t.type("\x04")
        assert t.end() == 0, t.screen


def settings_and_files(server, sh, tmp):
    """A talk is saved as a row of training, and gone on with; answers are drawn as /set says."""
    file, row = tmp / "talk.jsonl", tmp / "row.jsonl"
    first = asked(server, "one\ntwo", n=4)
    second = asked(server, "one\ntwo", first, "three", n=4)
    mine = Shell(sh.env["TANDEM_URL"], XDG_STATE_HOME=str(tmp))
    with Terminal(mine, "chat", columns=200) as t:
        t.until(PROMPT)
        t.type("/why\r")
        t.until("there is no answer yet")
        t.type("/set temperature 0\r/set max_tokens 4\r/set\r")
        t.until(r"temperature +0\r\n")
        t.until(r"top_p +as the server has it\r\nmax_tokens +4\r\n")
        for bad, words in (("temperature 3", "from 0 to 2"), ("max_tokens 1.5", "whole number"), ("top_p x", "from 0 to 1"),
                           ("colour 3", '"colour" is none of them')):
            t.type(f"/set {bad}\r")
            t.until(words)
        t.type("one\\\r")
        t.until(r"\. ")
        t.type("two\r")
        t.until(PROMPT)
        t.type(f"/save {file}\r")
        t.until("2 messages, a row as training takes them")
        t.type(f"/save {file}\r")
        t.until("is there already")
        t.type(f"/load {tmp}/nowhere\r")
        t.until("nowhere")
        row.write_text('{"messages": [{"role": "user"}]}')
        t.type(f"/load {row}\r")
        t.until("it is no talk")
        t.type(f"/clear\r/load {file}\r")
        t.until("2 messages\r")
        t.type("three\r")
        t.until(PROMPT)
        t.type(f"/save {row}2\r")
        t.until("4 messages")
        t.type("/quit\r")
        assert t.end() == 0, t.screen
    said = [m["content"] for m in json.loads((tmp / "row.jsonl2").read_text())["messages"]]
    assert said == ["one\ntwo", first, "three", second], (said, first, second)
    assert json.loads(file.read_text())["messages"] == [
        {"role": "user", "content": "one\ntwo"}, {"role": "assistant", "content": first}]


def why(server, sh, tmp):
    """Each token of the answer with its probability as the API tells it, on any width."""
    r = server.post("/v1/chat/completions", {"model": "tiny", "temperature": 0, "max_tokens": 8, "logprobs": True,
                                             "top_logprobs": 5, "messages": [{"role": "user", "content": "one"}]})
    tokens = r.json["choices"][0]["logprobs"]["content"]
    chances = [f"{100 * math.exp(x['logprob']):.1f}%" for x in tokens]
    others = [f"{100 * math.exp(x['logprob']):.1f}%" for x in tokens[0]["top_logprobs"] if x["token"] != tokens[0]["token"]]
    mine = Shell(sh.env["TANDEM_URL"], XDG_STATE_HOME=str(tmp))
    for columns in (80, 60):
        with Terminal(mine, "chat", *GREEDY, columns=columns) as t:
            t.until(PROMPT)
            t.type("one\r")
            t.until(PROMPT)
            t.type("/why\r")
            t.until(r"token +chance +instead")
            lines = [line for line in drawn(t.until(PROMPT)) if "%" in line]
            assert len(lines) == len(tokens) and all(len(line) <= columns for line in lines), (columns, lines)
            assert all(c in line for c, line in zip(chances, lines)), (chances, lines)
            assert others[0] in lines[0], (others, lines)
            t.type("\x04")
            assert t.end() == 0, t.screen
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Told) as told:
        threading.Thread(target=told.serve_forever, daemon=True).start()
        with Terminal(Shell(f"http://127.0.0.1:{told.server_port}"), "chat", "--model", "m") as t:
            t.until(PROMPT)
            t.type("one\r")
            t.until(PROMPT)
            t.type("/why\r")
            t.until(r'"a\\n\\t" +100\.0%')
            t.type("\x04")
            assert t.end() == 0, t.screen
        told.shutdown()


class Endless(http.server.BaseHTTPRequestHandler):
    """A server whose answers begin and do not end until the client goes."""

    def do_GET(self):
        self.wfile.write(reply(200, '{"id": "m"}'))
        self.close_connection = True

    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        self.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"
                         b'data: {"choices": [{"delta": {"content": "begun"}}]}\n\n')
        self.server.left.append(self.rfile.read(1))
        self.close_connection = True

    def log_message(self, *_):
        pass


class Marked(Endless):
    """A server that answers with marks, a character at a time."""
    said = "# A head\n`x` **y**\n```\ncode"

    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        events = "".join(f"data: {json.dumps({'choices': [{'delta': {'content': c}}]})}\n\n" for c in self.said)
        self.wfile.write(reply(200, events + "data: [DONE]\n\n", "text/event-stream"))
        self.close_connection = True


class Told(Marked):
    """A server that tells of a token that has no line of its own."""

    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        told = {"token": "a\n\t", "logprob": 0, "top_logprobs": []}
        event = {"choices": [{"delta": {"content": "a"}, "logprobs": {"content": [told]}}]}
        self.wfile.write(reply(200, f"data: {json.dumps(event)}\n\ndata: [DONE]\n\n", "text/event-stream"))
        self.close_connection = True


class Calling(Endless):
    """A server whose model calls two tools, their arguments in pieces, and then says what it was given."""

    def do_POST(self):
        ask = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.asked.append(ask)
        results = [m["content"] for m in ask["messages"] if m["role"] == "tool"]

        def call(i, **function):
            return {"tool_calls": [{"index": i, **({"id": f"id{i}"} if "name" in function else {}),
                                    "function": function}]}
        deltas = [{"content": f"given {results}"}]
        if not results:
            deltas = [{"content": "I ask."}, call(0, name="add", arguments=""), call(0, arguments='{"a"'),
                      call(0, arguments=': 1}'), call(1, name="say\x1b[31m", arguments="{}"), call(9, arguments="no")]
        events = "".join(f"data: {json.dumps({'choices': [{'delta': d}]})}\n\n" for d in deltas)
        self.wfile.write(reply(200, events + "data: [DONE]\n\n", "text/event-stream"))
        self.close_connection = True


def tools(_, sh, tmp):
    """The person is who runs the tools: each call is shown, what is typed is its result."""
    del sh
    file, bad, kept = tmp / "tools.json", tmp / "bad.json", tmp / "kept.jsonl"
    told = [{"type": "function", "function": {"name": n, "description": f"does {n}"}} for n in ("add", "say")]
    file.write_text(json.dumps({"messages": [], "tools": told}))
    bad.write_text('[{"type": "function"}]')
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Calling) as calling:
        calling.asked = []
        threading.Thread(target=calling.serve_forever, daemon=True).start()
        mine = Shell(f"http://127.0.0.1:{calling.server_port}", XDG_STATE_HOME=str(tmp))
        with Terminal(mine, "chat", "--model", "m", columns=200) as t:
            t.until(PROMPT)
            t.type(f"/tools\r/tools {bad}\r/tools {tmp}/none\r")
            t.until("no tools")
            t.until(r"bad\.json: it has no tools")
            t.until("none: No such file")
            t.type(f"/tools {file}\r")
            t.until("add  does add\r\nsay  does say")
            t.type("begin\r")
            t.until(r'add\(\{"a": 1\}\)')
            t.until("= ")
            t.type("/set\r")  # commands are still heard
            t.until("as the server has it")
            t.type("two\r")
            assert "\x1b[31m" not in t.until(r"say.*\(\{\}\)"), t.screen
            t.type("//three\r")
            t.until(r"given \['two', '/three'\]")
            t.until(PROMPT)
            t.type(f"/save {kept}\r/tools off\r/clear\rbegin\r")
            t.until("= ")
            t.type("/clear\r")
            t.until(PROMPT)
            t.type("/quit\r")
            assert t.end() == 0, t.screen
        calling.shutdown()
    assert [a.get("tools") for a in calling.asked] == [told, told, None], calling.asked
    messages = json.loads(kept.read_text())["messages"]
    assert [m["role"] for m in messages] == ["user", "assistant", "tool", "tool", "assistant"], messages
    assert [c["function"]["arguments"] for c in messages[1]["tool_calls"]] == ['{"a": 1}', "{}"], messages
    assert [m["tool_call_id"] for m in messages[2:4]] == ["id0", "id1"], messages


def styles(_, sh):
    """Headings, strong words and code have their styles on a terminal with colours, and nowhere else."""
    del sh
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Marked) as marked:
        threading.Thread(target=marked.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{marked.server_port}"
        assert Shell(url).good("chat", "hello", "--model", "m").out == Marked.said + "\n"
        want = "\x1b[0m\x1b[1m# A head\x1b[0m\r\n\x1b[0m\x1b[36m`x`\x1b[0m \x1b[0m\x1b[1m**y**\x1b[0m\r\n"
        for env, begin in (({}, want), ({"NO_COLOR": "1"}, Marked.said.replace("\n", "\r\n"))):
            with Terminal(Shell(url, **env), "chat", "hello", "--model", "m") as t:
                assert t.end() == 0 and t.screen.startswith(begin), t.screen
        marked.shutdown()


def stopped(_, sh):
    """Ctrl-C ends the answer and its connection, and the talk goes on."""
    del sh
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Endless) as endless:
        endless.left = []
        threading.Thread(target=endless.serve_forever, daemon=True).start()
        sh = Shell(f"http://127.0.0.1:{endless.server_port}")
        with Terminal(sh, "chat", "--model", "m") as t:
            for n in (1, 2):
                t.until(PROMPT)
                t.type("go on and on\r")
                t.until("begun")
                t.type("\x03")
                t.until(r"\(stopped\)")
                end = time.monotonic() + HANG
                while endless.left != [b""] * n:
                    assert time.monotonic() < end, endless.left
                    time.sleep(0.01)
            t.until(PROMPT)
            t.type("/quit\r")
            assert t.end() == 0, t.screen
        p = sh.popen("chat", "hello", "--model", "m")
        begun = p.stdout.read(5)
        p.send_signal(signal.SIGINT)
        rest, err = p.communicate(timeout=HANG)
        assert (begun, rest, p.returncode) == ("begun", "\n", 130), (begun, rest, p.returncode, err)
        endless.shutdown()


# ---- ps


def ps_once(server, sh):
    names = [r[0] for r in sh.good("ps", "--interval", 0.1).rows]
    assert names == ["server", "model", "streams", "tokens/s", "K/V", "compute", "memory"], names
    seen = json.loads(sh.good("ps", "--json", "--interval", 0.1).out)
    assert seen["ready"] is True and seen["model"] == "tiny" and seen["jobs"] == [], seen
    stop = threading.Event()

    def load():
        while not stop.is_set():
            server.post("/v1/completions", {"model": "tiny", "prompt": "a b", "max_tokens": 64,
                                            "ignore_eos": True, "temperature": 0})
    t = threading.Thread(target=load)
    t.start()
    try:
        for _ in range(100):
            seen = json.loads(sh.good("ps", "--json", "--interval", 0.2).out)
            if seen["generated_tokens_per_second"] > 0 and seen["share_serving"] > 0:
                break
        assert seen["generated_tokens_per_second"] > 0 and seen["share_serving"] > 0, seen
    finally:
        stop.set()
        t.join()


def ps_shows_a_job(server, sh, tmp):
    rows = tmp / "rows.jsonl"
    rows.write_text("".join(json.dumps({"prompt": "a", "completion": "b"}) + "\n"
                            for _ in range(ENDLESS)))
    job = sh.good("tune", rows, "--epochs", 50, "--batch", 1).out.strip()
    sh.good("jobs", "pause", job)
    assert job in sh.good("ps", "--interval", 0.1).rows[-1][1]
    sh.good("jobs", "cancel", job)
    assert sh.good("ps", "--interval", 0.1).rows[-1][0] != "job"
    del server


def ps_live(server, sh):
    for columns, command in ((30, "ps"), (120, "top")):
        with Terminal(sh, command, "--interval", 0.1, columns=columns) as t:
            for _ in range(3):
                t.until(r"\nmemory .*\r\n")
                assert all(len(s) < columns for s in drawn(t.screen)), t.screen
            t.type("\x03")
            assert t.end() == 0, t.screen
    with Terminal(sh, "ps", "--once", "--interval", 0.1) as t:
        assert t.end() == 0 and "\033[J" not in t.screen, t.screen
    with impostor(reply(200, "up 1\n", "text/plain")) as url:
        Shell(url).bad(1, "not a tandem server's", "ps")
    del server


def health(server, sh):
    assert sh.good("health").rows == [["status", "ok"]]
    assert json.loads(sh.good("health", "--json").out) == {"status": "ok"}
    Shell(TANDEM_PORT=str(server.port)).good("health")
    Shell(TANDEM_PORT="1").bad(1, "no server at http://127.0.0.1:1 ", "health")
    for end in ("/", "/v1", "/v1//"):
        Shell(server.url + end).good("health")
    Shell(server.url.replace("http://", "")).good("health")
    Shell(server.url.replace("http:", "https:")).bad(1, "https://127.0.0.1", "health")
    loading = b'{"error":{"message":"Loading model","type":"x","param":null,"code":"loading"}}'
    with impostor(reply(503, loading)) as url:
        Shell(url).bad(1, "Loading model", "health")


def without_libcurl(tmp):
    """Where libcurl is not, or is another library, a command says so that asks a server; the rest has
    no use for it."""
    own = tmp / "lib"
    own.mkdir()
    for name in ("libcurl.so.4", "libcurl-gnutls.so.4"):
        (own / name).write_text("none")
    sh = Shell(LD_LIBRARY_PATH=os.pathsep.join(filter(None, (str(own), os.environ.get("LD_LIBRARY_PATH")))))
    sh.good("version")
    sh.bad(2, r"libcurl, which speaks to servers, cannot be loaded: .*lib/libcurl\.so\.4: ", "health")
    (own / "libcurl.so.4").unlink()
    (own / "libcurl.so.4").symlink_to(next((BUILD / "tests/fake/preload").glob("*.so")).resolve())
    sh.bad(2, r"cannot be loaded: libcurl\.so\.4 lacks curl_", "health")


def main():
    cases = Cases()
    with scratch() as tmp:
        cases.run("without libcurl", lambda: without_libcurl(tmp))
        model = make_model(tmp / "model")
        with Tandem(model, "--name", "tiny", "--data-dir", tmp / "data", "--kv-memory", "16M",
                    "--threads", 1, "--no-access-log") as server:
            sh = Shell(server.url)
            for case in (one_answer, by_lines, broken_answers, talk, styles, stopped, ps_once, ps_live,
                         health):
                cases.run(case.__name__.replace("_", " "), lambda c=case: c(server, sh))
            for case in (kept_between_runs, settings_and_files, why, tools):
                with scratch() as folder:
                    cases.run(case.__name__.replace("_", " "), lambda c=case, f=folder: c(server, sh, f))
            cases.run("ps shows a job", lambda: ps_shows_a_job(server, sh, tmp))
    return cases.end()


if __name__ == "__main__":
    sys.exit(main())
