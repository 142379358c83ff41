#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Chats that are kept (`store: true`): shown as they were told, whole or in a stream; listed, marked, deleted; for
their key alone, over a restart, for their time and within their bytes. Random weights; standard library only."""
import json
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "lib"))
from serving import Cases, Tandem, scratch  # noqa: E402
from test_messages import ASK, CHAT_TOOLS  # noqa: E402
from test_responses import ANN, BOB, KEYS, model_of, rows  # noqa: E402
from test_routes import Description  # noqa: E402

# What is tested here of server/http/routes.def: chats chat_kept chat_mark chat_drop chat_messages. Of schema.def:
# ChatList, ChatMark, ChatDeleted, ChatMessageList.

CHATS = "/v1/chat/completions"


def whole_of(body):
    """(message, finish_reason) of each choice of a stream, and its id."""
    choices, ids = {}, set()
    for line in body.decode().split("\n"):
        if not line.startswith("data: {"):
            continue
        event = json.loads(line[6:])
        ids.add(event["id"])
        for c in event["choices"]:
            m, _ = choices.setdefault(c["index"], ({"content": "", "reasoning_content": "", "tool_calls": []}, None))
            for key in ("content", "reasoning_content"):
                m[key] += c["delta"].get(key) or ""
            for call in c["delta"].get("tool_calls", []):
                if "id" in call:
                    m["tool_calls"].append([call["id"], call["function"]["name"], ""])
                m["tool_calls"][call["index"]][2] += call["function"]["arguments"]
            choices[c["index"]] = (m, c["finish_reason"])
    return [choices[i] for i in sorted(choices)], ids.pop()


def plain(chat):
    """The same of a whole answer."""
    return [({"content": c["message"]["content"] or "", "reasoning_content": c["message"].get("reasoning_content", ""),
              "tool_calls": [[x["id"], x["function"]["name"], x["function"]["arguments"]]
                             for x in c["message"].get("tool_calls", [])]}, c["finish_reason"]) for c in chat["choices"]]


class Chats:
    def __init__(self, server):
        self.server = server
        self.description = Description(server.get("/openapi.json", **ANN).json)

    def ask(self, key=ANN, **more):
        return self.server.post(CHATS, {"messages": ASK, "temperature": 1.2, "max_tokens": 60, "store": True, **more}, **key)

    def good(self, **more):
        r = self.ask(**more)
        assert r.status == 200, r
        return r.json

    def get(self, where="", key=ANN):
        return self.server.get(CHATS + where, **key)

    def fits(self, value, schema):
        self.description.check(value, {"$ref": f"#/components/schemas/{schema}"})
        return value

    def ids(self, query="", key=ANN):
        r = self.get(query, key)
        assert r.status == 200, r
        self.fits(r.json, "ChatList")
        found = [c["id"] for c in r.json["data"]]
        assert (r.json["first_id"], r.json["last_id"]) == ((found[0], found[-1]) if found else (None, None)), r
        return found

    def case_shown_again(self):
        """Catches: a chat that is not what was told."""
        for more in ({}, {"n": 2, "logprobs": True, "top_logprobs": 2}, {"enable_thinking": False, "return_token_ids": True},
                     {"tools": CHAT_TOOLS, "tool_choice": "required", "max_tokens": 900, "enable_thinking": False}):
            chat = self.good(seed=3, metadata={"a": "b"}, **more)
            again = self.get("/" + chat["id"])
            assert again.json == {**chat, "metadata": {"a": "b"}}, (chat, again)
            self.fits(again.json, "ChatCompletion")
            r = self.ask(seed=3, stream=True, **more)
            told, chat_id = whole_of(r.body)
            kept = self.get("/" + chat_id).json
            assert plain(kept) == told and kept["metadata"] == {}, (kept, told)
            assert kept["usage"]["completion_tokens"] == chat["usage"]["completion_tokens"], (kept, chat)
            assert [c["logprobs"] for c in kept["choices"]] == [c["logprobs"] for c in chat["choices"]], (kept, chat)
            if "tools" not in more:
                assert plain(kept) == plain(chat), (kept, chat)

    def case_not_asked_for(self):
        """Catches: a chat that is kept though nobody asked for it, or that is one of /v1/responses."""
        before = self.ids("?limit=100")
        r = self.ask(store=False, metadata={"a": "b"})
        assert r.status == 200 and "metadata" in r.headers["x-tandem-ignored"], r
        assert self.get("/" + r.json["id"]).status == 404 and self.ids("?limit=100") == before
        chat = self.good()
        assert self.server.get(f"/v1/responses/{chat['id']}", **ANN).status == 404
        assert self.server.ask("DELETE", f"/v1/responses/{chat['id']}", **ANN).status == 404
        r = self.server.post("/v1/responses", {"input": "A", "max_output_tokens": 4}, **ANN).json
        assert self.get("/" + r["id"]).status == 404 and r["id"] not in self.ids("?limit=100")
        r = self.server.post("/v1/responses", {"input": "A", "previous_response_id": chat["id"]}, **ANN)
        assert r.status == 400 and r.error["code"] == "previous_response_not_found", r

    def case_lists(self):
        """Catches: pages that lose or repeat a chat, filters that let others through."""
        made = [self.good(max_tokens=4, metadata={"run": "x", "i": str(i), 'q"': "é"})["id"] for i in range(5)]
        want = "metadata[run]=x"
        assert self.ids("?" + want) == made == self.ids(f"?{want}&order=asc"), made
        assert self.ids(f"?{want}&order=desc") == made[::-1]
        assert self.ids(f"?{want}&metadata[i]=3") == [made[3]] and self.ids(f"?{want}&metadata[i]=9") == []
        assert self.ids("?metadata[q%22]=%C3%A9&limit=2") == made[:2]
        name = self.get("/" + made[0]).json["model"]
        assert self.ids(f"?{want}&model={name}") == made and self.ids(f"?{want}&model=other") == []
        found, after = [], ""
        while True:
            page = self.get(f"?{want}&limit=2{after}").json
            found += [c["id"] for c in page["data"]]
            if not page["has_more"]:
                break
            after = f"&after={page['last_id']}"
        assert found == made, (found, made)
        assert self.server.ask("DELETE", f"{CHATS}/{made[1]}", **ANN).status == 200
        assert self.ids(f"?{want}&after={made[1]}") == made[2:]
        for bad in ("limit=0", "limit=101", "order=up", "after=chatcmpl-none"):
            assert self.get("?" + bad).status == 400, bad

    def case_marked(self):
        """Catches: metadata that is not taken, or that leaves its bytes uncounted."""
        chat = self.good(metadata={"a": "b"})
        for marks in ({"a": "c", "x": "y" * 400}, {}, None, {"z": "ü"}):
            r = self.server.post(f"{CHATS}/{chat['id']}", {"metadata": marks}, **ANN)
            assert r.status == 200 and r.json == {**chat, "metadata": marks or {}} == self.get("/" + chat["id"]).json, r
        for bad in ({}, {"metadata": 7}, {"metadata": {"a": 1}}, {"metadata": {"a": "x" * 513}}):
            r = self.server.post(f"{CHATS}/{chat['id']}", bad, **ANN)
            assert r.status == 400 and r.error["param"] == "metadata", r
        assert self.server.post(CHATS + "/chatcmpl-none", {"metadata": {}}, **ANN).status == 404

    def case_deleted(self):
        """Catches: what is deleted and still there."""
        chat = self.good()
        gone = self.server.ask("DELETE", f"{CHATS}/{chat['id']}", **ANN)
        assert gone.json == {"id": chat["id"], "object": "chat.completion.deleted", "deleted": True}, gone
        self.fits(gone.json, "ChatDeleted")
        for where in ("", "/messages"):
            assert self.get(f"/{chat['id']}{where}").status == 404
        assert self.server.ask("DELETE", f"{CHATS}/{chat['id']}", **ANN).status == 404

    def case_messages(self):
        """Catches: messages that are lost between pages, or are not those that were sent."""
        asked = [{"role": "system", "content": "S"}, {"role": "user", "content": [{"type": "text", "text": "A"}]},
                 {"role": "assistant", "content": "B", "name": "me"}, {"role": "user", "content": "C"}]
        chat = self.good(messages=asked)
        page = self.fits(self.get(f"/{chat['id']}/messages").json, "ChatMessageList")
        assert [m["role"] for m in page["data"]] == [m["role"] for m in asked] and not page["has_more"], page
        assert page["data"][0] == {"id": f"{chat['id']}-0", "role": "system", "content": "S", "content_parts": None}, page
        assert page["data"][1]["content"] is None and page["data"][1]["content_parts"] == asked[1]["content"], page
        assert page["data"][2]["name"] == "me", page
        last = self.get(f"/{chat['id']}/messages?order=desc&limit=1").json
        assert last["data"] == [page["data"][3]] and last["has_more"], last
        rest = self.get(f"/{chat['id']}/messages?after={page['data'][1]['id']}").json
        assert rest["data"] == page["data"][2:], rest

    def case_other_keys(self):
        """Catches: a chat that another key reads, lists, marks or deletes."""
        chat = self.good(metadata={"whose": "ann"})
        where = f"{CHATS}/{chat['id']}"
        assert self.ids("?metadata[whose]=ann", BOB) == [] != self.ids("?metadata[whose]=ann")
        assert self.get("?after=" + chat["id"], BOB).status == 400
        for r in (self.server.get(where, **BOB), self.server.get(where + "/messages", **BOB),
                  self.server.post(where, {"metadata": {}}, **BOB), self.server.ask("DELETE", where, **BOB)):
            assert r.status == 404, r
        assert self.get("/" + chat["id"]).json == {**chat, "metadata": {"whose": "ann"}}


def keeps_none(server):
    """Catches: an answer that is said to be kept where none is."""
    r = server.post(CHATS, {"messages": ASK, "store": True})
    assert r.status == 400 and r.error["param"] == "store" and "keeps no" in r.error["message"], r
    assert server.post(CHATS, {"messages": ASK, "store": False, "max_tokens": 2}).status == 200
    assert server.get(CHATS).error["code"] == "no_data_dir"


def kept(cases, model, keys, data):
    options = (model, "--ctx", 4096, "--api-key-file", keys, "--data-dir", data)
    with Tandem(*options) as server:
        at = Chats(server)
        cases.run_all(at)
        chat = at.good(metadata={"a": "b"})
    sums = rows(data, "SELECT owner, sum(bytes) FROM response GROUP BY owner ORDER BY owner")
    cases.check("sums", sums == rows(data, "SELECT owner, bytes FROM response_sum WHERE bytes > 0 ORDER BY owner"), sums)
    true = rows(data, "SELECT sum(length(CAST(id || input || body || coalesce(metadata, '') AS BLOB))) FROM response")
    cases.check("bytes", true == [(sum(n for _, n in sums),)], (true, sums))

    def restarted():
        assert at.get("/" + chat["id"]).json == {**chat, "metadata": {"a": "b"}}
    with Tandem(*options) as server:
        at = Chats(server)
        cases.run("restarted", restarted)
    rows(data, "UPDATE response SET expires = 1 WHERE id = ?", chat["id"])

    def expired():
        """Catches: a chat that outlives its time, or a walk through the pages that ends at it."""
        assert at.get("/" + chat["id"]).status == 404 and chat["id"] not in at.ids("?limit=100")
        assert chat["id"] not in at.ids(f"?after={chat['id']}")
    with Tandem(*options) as server:
        at = Chats(server)
        cases.run("expired", expired)

    def bounded():
        """Catches: more bytes than a key may have, or a walk through the pages that ends at what went for others."""
        ids = [at.good(messages=[{"role": "user", "content": "x" * 2000}])["id"] for _ in range(8)]
        there = [at.get("/" + i).status for i in ids]
        assert there == sorted(there, reverse=True) and there[0] == 404 and there[-1] == 200, there
        left = ids[there.count(404):]
        assert at.ids(f"?after={ids[0]}") == at.ids(f"?after={ids[-len(left) - 1]}") == left
        assert at.ids(f"?after={ids[0]}&order=desc") == []
        r = at.ask(messages=[{"role": "user", "content": "x" * 9000}], max_tokens=1, truncate_prompt_tokens=-1)
        assert r.status == 400 and "store: false" in r.error["message"], r

    def marked_within():
        """Catches: metadata that takes a key's answers beyond their bytes, or an answer that goes since it is marked."""
        ids = [at.good(max_tokens=1)["id"] for _ in range(6)]
        marks = {"metadata": {str(k): "x" * 500 for k in range(4)}}
        there = [at.server.post(f"{CHATS}/{i}", marks, **ANN).status for i in ids[::-1]]
        assert there[0] == 200 and there == sorted(there) and 404 in there, there
        last = ids[::-1][there.count(200) - 1]
        assert last in at.ids() and len(at.ids()) <= 4, at.ids()
        r = at.server.post(f"{CHATS}/{last}", {"metadata": {f"{k:060}": "x" * 512 for k in range(16)}}, **ANN)
        assert r.status == 400 and at.get("/" + last).json["metadata"] == marks["metadata"], r
    with Tandem(*options, "--responses-quota", 9000) as server:
        at = Chats(server)
        cases.run("bounded", bounded)
        cases.run("marked within", marked_within)


def main():
    cases = Cases()
    with scratch() as tmp:
        model, keys = model_of(tmp), tmp / "keys"
        keys.write_text(KEYS)
        keys.chmod(0o600)
        with Tandem(model, "--ctx", 4096) as server:
            cases.run("keeps none", lambda: keeps_none(server))
        kept(cases, model, keys, tmp / "data")
    return cases.end()


if __name__ == "__main__":
    sys.exit(main())
