#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tinker's API against plain HTTP: passes, updates, saves, loads and samples of many models over one
base, in any order of arrival, by two keys, and on a server that is killed or ended between any two of
them.

Faults they can catch: a trained log-probability that is not the sampled one, to the bit; a model that
sees another's values, moments or gradients; a request that is run twice, never, or out of its turn; a
gradient that a failed request leaves or takes with it unsaid; a key that reaches another's model,
sampler, request or weights; one whose samples keep out another's; an answer that a kill changes.

What is tested here of server/http/routes.def: tinker_health tinker_config tinker_dynamic tinker_telemetry
tinker_capabilities tinker_session tinker_heartbeat tinker_finish tinker_create tinker_info tinker_pass
tinker_step tinker_save tinker_save_sampler tinker_load tinker_weights_info tinker_checkpoints tinker_drop
tinker_sampler tinker_sampler_show tinker_sample tinker_retrieve.

Where a kill comes is drawn from a seed that the result names; TEST_SEED=N draws the same again.
Standard library only."""
import array
import contextlib
import os
import pathlib
import random
import re
import shutil
import signal
import sqlite3
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "lib"))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from serving import SLOW, Cases, Tandem, make_model, scratch  # noqa: E402
from test_routes import Description  # noqa: E402
from tinker_client import Client, Failed, Model, Refused, datum, floats, read_sample  # noqa: E402

KILLS = 100 if os.environ.get("TEST_FAULTS") == "full" else 5
SEED = int(os.environ.get("TEST_SEED") or random.SystemRandom().randrange(1 << 32))
KEYS = """ann inference,training tml-ann-ann-ann-ann-ann-ann
bob inference,training tml-bob-bob-bob-bob-bob-bob
low inference tml-low-low-low-low-low-low
"""
IDS = list(range(5, 30))


def key(name):
    return {"X-API-Key": "tml-" + "-".join([name] * 6)}


def row(ids, counts=None):
    """What a text teaches, each token or as counted."""
    n = len(ids) - 1
    return datum(ids[:-1], ids[1:], weights=counts or [1.0] * n)


ROWS = [row(IDS), row(IDS[::-1][:9]), row([7] * 12)]


def fails(fn, words, category="user"):
    try:
        fn()
    except Failed as e:
        assert e.category == category and words in e.error, e
        return e
    raise AssertionError(f"it did not fail: {words}")


def refused(fn, status, code=None):
    try:
        fn()
    except Refused as e:
        assert e.status == status and code in (None, e.error["code"]), e
        return e
    raise AssertionError(f"it was taken: {status}")


class Whole:
    """On one server that is let be."""

    def __init__(self, server):
        self.s = server
        self.c = Client(lambda: server, key("ann"))

    def case_learns_as_served(self):
        m = self.c.model()
        base = self.c.sampler()
        before = m.passes(ROWS, forward_only=True)
        _, prompt = base.sample(IDS, wants_prompt=True, max_tokens=1)
        assert before[1][0] == prompt[4:], "an adapter of zeros is not the base"
        losses = []
        for _ in range(6):
            losses.append(m.passes(ROWS)[0]["loss:sum"])
            m.step()
        assert losses[-1] < losses[0] * 0.7, losses
        sampler = m.save_sampler()
        _, prompt = sampler.sample(IDS, wants_prompt=True, max_tokens=1)
        now = m.passes(ROWS, forward_only=True)
        assert now[1][0] == prompt[4:], "what is sampled from is not what was trained"
        return f"loss {losses[0]:.1f} to {losses[-1]:.1f}"

    def case_on_policy_the_ratio_is_one(self):
        m = self.c.model(seed=2)
        m.passes(ROWS)
        m.step()
        moved = 0
        for _ in range(3):
            said, _ = m.save_sampler().sample(IDS[:5], n=4, max_tokens=12, temperature=1.0)
            rows = []
            for k, (ids, logprobs, _) in enumerate(said):
                text, w = IDS[:5] + ids, [0.0] * 4 + [0.5 - k] * len(ids)
                rows.append(datum(text[:-1], text[1:], advantages=w,
                                  logprobs=[0.0] * 4 + floats(logprobs)))
            for loss in ("importance_sampling", "ppo", "cispo", "dro"):
                metrics, _ = m.passes(rows, loss, forward_only=True)
                moved += metrics["off_policy:sum"] + metrics["clipped:sum"]
            got = m.passes(rows, "importance_sampling")[0]
            want = -sum((0.5 - k) * len(ids) for k, (ids, _, _) in enumerate(said))
            assert abs(got["loss:sum"] - want) < 1e-9, (got, want)
            m.step(1e-3)
        assert moved == 0, moved

    def case_clipping_is_told(self):
        m = self.c.model(seed=2)
        ids = IDS[:9]
        at = floats(m.passes([row(ids)], forward_only=True)[1][0])
        rows = [datum(ids[:-1], ids[1:], advantages=[1.0] * 8, logprobs=[x - 1 for x in at])]
        metrics, _ = m.passes(rows, "ppo", forward_only=True, clip_high_threshold=1.5)
        assert metrics["clipped:sum"] == 8 and abs(metrics["loss:sum"] + 12) < 1e-9, metrics
        fails(lambda: m.passes(rows, "ppo", clip_low_threshold=3), "clip_low_threshold")

    def case_served_by_its_path(self):
        m = self.c.model(seed=3)
        m.passes(ROWS)
        m.step()
        path = m.save_sampler("for-all")
        got = self.s.post("/v1/completions", {"model": path, "prompt": IDS, "echo": True, "logprobs": 0,
                                              "max_tokens": 0, "temperature": 0}, **key("ann")).json
        now = floats(m.passes([row(IDS)], forward_only=True)[1][0])
        served = got["choices"][0]["logprobs"]["token_logprobs"][1:]
        assert array.array("f", served) == array.array("f", now), (served, now)
        assert self.s.post("/v1/completions", {"model": path, "prompt": IDS}, **key("bob")).status == 404

    def case_a_path_is_the_newest_of_its_weights(self):
        """Who asks for it by its name has what was saved last, whoever ran the old ones."""
        m = self.c.model(seed=3)

        def served(path):
            got = self.s.post("/v1/completions", {"model": path, "prompt": IDS, "echo": True, "logprobs": 0,
                                                  "max_tokens": 0, "temperature": 0}, **key("ann")).json
            return array.array("f", got["choices"][0]["logprobs"]["token_logprobs"][1:])
        for _ in range(2):
            m.passes(ROWS)
            m.step()
            path = m.save_sampler("newest", overwrite=True)
            now = floats(m.passes([row(IDS)], forward_only=True)[1][0])
            assert served(path) == array.array("f", now), (served(path), now)

    def case_models_do_not_meet(self):
        """Six at once, in turns, which do not all fit in memory, against each alone."""
        def run(models):
            out = [[] for _ in models]
            for _ in range(3):
                for i, m in enumerate(models):
                    out[i].append(m.passes([ROWS[i % 3]]))
                for i, m in enumerate(models):
                    out[i].append(m.step(1e-2 * (i + 1)))
            return out
        together = run([self.c.model(rank=2 + i, seed=i) for i in range(6)])
        for i in (0, 3, 5):
            m, alone = self.c.model(rank=2 + i, seed=i), []
            for _ in range(3):
                alone += [m.passes([ROWS[i % 3]]), m.step(1e-2 * (i + 1))]
            assert alone == together[i], i

    def case_gradients_add_up(self):
        def end(parts):
            m = self.c.model(seed=5)
            for part in parts:
                m.passes(part)
            norm = m.step()["grad_norm"]
            return norm, m.passes([ROWS[0]], forward_only=True)[1]
        twice, doubled = end([[ROWS[0]], [ROWS[0]]]), end([[row(IDS, [2.0] * 24)]])
        assert twice == doubled, (twice[0], doubled[0])
        once = end([[ROWS[0]]])
        assert abs(twice[0] - 2 * once[0]) < 1e-3 * once[0], (twice, once)

    def case_order_is_by_number(self):
        m, plain = self.c.model(seed=6), self.c.model(seed=6)
        later = m.give([ROWS[1]], seq=2)
        first = m.give([ROWS[0]], seq=1)
        assert m.give([ROWS[0]], seq=1) == first, "the same again is another request"
        m.seq = 2
        got = [self.c.result(first), self.c.result(later), m.step()]
        assert self.c.result(first) == got[0], "an answer is told once"
        want = [self.c.result(plain.give([ROWS[0]])), self.c.result(plain.give([ROWS[1]])), plain.step()]
        assert got == want

    def case_state_comes_back(self):
        m = self.c.model(seed=7)
        for _ in range(2):
            m.passes(ROWS)
            m.step()
        path = m.save("state")
        fails(lambda: m.save("state"), "already")
        assert m.save("state", overwrite=True) == path
        same, cold = self.c.model_of(path, True), self.c.model_of(path, False)
        on = [(m.passes(ROWS), m.step(), m.passes(ROWS)), (same.passes(ROWS), same.step(), same.passes(ROWS)),
              (cold.passes(ROWS), cold.step(), cold.passes(ROWS))]
        assert on[0] == on[1], "a state with its moments goes on otherwise"
        assert on[0][0] == on[2][0] and on[0][2] != on[2][2] and on[2][1]["step"] == 1, on[2][1]
        m.load(path)
        assert m.passes(ROWS) == on[0][0]
        other = self.c.model(rank=2)
        fails(lambda: other.load(path), "another shape")
        assert other.passes([ROWS[0]])[0], "a load that failed took the model with it"

    def case_what_is_wrong_is_said(self):
        m = self.c.model(seed=8)
        fails(m.step, "there is no gradient")
        for rows, loss, words in (
                (ROWS, "magic", "no loss 'magic'"), (ROWS, "ppo", "lacks 'logprobs'"),
                ([datum([1, 2], [2])], "cross_entropy", "2 tokens and 1 'target_tokens'"),
                ([datum([1, 1 << 30], [2, 3])], "cross_entropy", "not in the vocabulary"),
                ([datum([1], [2], weights=[float("nan")])], "cross_entropy", "not finite"),
                ([datum([1], [2], mask=[1.0])], "cross_entropy", "no loss here reads 'mask'"),
                ([row([3] * 600)], "cross_entropy", "tokens, the model takes 256"),
                ([], "cross_entropy", "'data' must have")):
            fails(lambda rows=rows, loss=loss: m.passes(rows, loss), words)
        fails(lambda: m.load("tinker://nobody/weights/none"), "no weights")
        fails(lambda: m.step(lr=-1), "learning_rate")
        fails(lambda: m.save("../x"), "letters")
        m.passes(ROWS)
        fails(lambda: m.step(eps=0), "'eps' must be")
        fails(lambda: m.passes(ROWS, "magic"), "magic")
        assert m.step()["step"] == 1, "a request that was refused took gradients with it"
        fails(lambda: self.c.model(rank=200), "a rank of 200")
        fails(lambda: self.c.model(train_mlp=False, train_attn=False), "lm_head")
        broken = Model(self.c, self.c.model_of.__self__.session + f":train:{self.c.n_model - 1}")
        fails(lambda: broken.passes(ROWS), "could not be begun")

    def case_what_is_no_request_is_refused(self):
        m = self.c.model()
        proto = {"Content-Type": "application/x-protobuf", **key("ann")}
        for body in (b"", b"\xff" * 20, b"\x0a\xff"):
            assert self.s.post("/api/v1/forward_backward", body, **proto).status == 400
        refused(lambda: self.c.ask("optim_step", model_id=m.id), 400)
        refused(lambda: self.c.ask("create_model", session_id="sess_none", model_seq_id=0,
                                   base_model="tiny"), 404)
        refused(lambda: self.c.ask("session_heartbeat", session_id="sess_none"), 410)
        refused(lambda: self.c.result(m.id + ":77"), 410)
        refused(lambda: self.c.sampler("tinker://a/sampler_weights/b"), 404)
        refused(lambda: self.c.sampler(m.save("s2")), 400)

    def case_keys_are_tenants(self):
        m = self.c.model()
        path, state = m.save_sampler("mine"), m.save("mine")
        at = m.give(ROWS)
        sampler = self.c.sampler(path)
        bob, low = Client(lambda: self.s, key("bob")), Client(lambda: self.s, key("low"))
        stolen = Model(bob, m.id)
        stolen.seq = 50
        refused(lambda: stolen.give(ROWS), 404)
        refused(lambda: bob.result(at), 410)
        refused(lambda: bob.sampler(path), 404)
        refused(lambda: bob.ask("get_info", model_id=m.id), 404)
        refused(lambda: bob.ask("asample", sampling_session_id=sampler.id, seq_id=0, sampling_params={},
                                prompt={"chunks": [{"type": "encoded_text", "tokens": [1]}]}), 404)
        fails(lambda: bob.model_of(state, True), "no weights")
        drop = f"/api/v1/training_runs/{m.id}/checkpoints/sampler_weights/mine"
        assert self.s.ask("DELETE", drop, **key("bob")).status == 404
        low.sampler().sample(IDS, max_tokens=1)
        refused(low.model, 403)
        names = [x["id"] for x in self.s.get("/v1/models", **key("bob")).json["data"]]
        assert path not in names, names
        self.c.result(at)
        assert sampler.sample(IDS, max_tokens=2)
        assert self.s.ask("DELETE", drop, **key("ann")).status == 200
        refused(lambda: self.c.sampler(path), 404)
        fails(lambda: sampler.sample(IDS, max_tokens=2), "no weights")

    def case_who_waits_long_is_asked_to_come_again(self):
        """Though another key has named the request, which must not change what is known of it."""
        m = self.c.model()
        at = m.give(ROWS, seq=9)
        thief = Model(Client(lambda: self.s, key("bob")), m.id)
        refused(lambda: thief.give(ROWS, seq=9), 404)
        assert self.s.post("/api/v1/retrieve_future", {"request_id": at}, **key("ann")).status == 408

    def case_lists_and_shapes(self):
        m = self.c.model(train_mlp=False)
        info = self.c.ask("get_info", model_id=m.id)
        assert info["train_attn"] and not info["train_mlp"] and not info["train_unembed"], info
        path = m.save("listed")
        got = self.s.get(f"/api/v1/training_runs/{m.id}/checkpoints", **key("ann")).json["checkpoints"]
        assert [x["tinker_path"] for x in got] == [path], got
        assert self.c.ask("weights_info", tinker_path=path)["lora_rank"] == 4

    def case_as_described(self):
        """Real answers against what /openapi.json says of them."""
        api = Description(self.s.get("/openapi.json", **key("ann")).json)
        m = self.c.model()
        m.save("a")
        at = self.c.sampler(m.save_sampler("b"))
        for method, path, body, name in (
                ("POST", "create_session", {"tags": []}, "Session"),
                ("POST", "session_heartbeat", {"session_id": self.c.session}, "Beat"),
                ("POST", "get_info", {"model_id": m.id}, "Info"),
                ("POST", "weights_info", {"tinker_path": f"tinker://{m.id}/weights/a"}, "Weights"),
                ("GET", f"training_runs/{m.id}/checkpoints", None, "Checkpoints"),
                ("POST", "create_sampling_session", {"session_id": self.c.session, "sampling_session_seq_id": 500},
                 "Sampler"),
                ("GET", f"samplers/{at.id}", None, "SamplerInfo"),
                ("POST", "optim_step", {"model_id": m.id, "seq_id": m.next()}, "Place"),
                ("POST", "asample", {"sampling_session_id": at.id, "seq_id": 9, "sampling_params": {},
                                     "prompt": {"chunks": [{"type": "encoded_text", "tokens": [5]}]}}, "Place"),
                ("DELETE", f"training_runs/{m.id}/checkpoints/weights/a", None, "Nothing")):
            r = self.s.ask(method, f"/api/v1/{path}", body, **key("ann"))
            assert r.status == 200, (path, r)
            api.check(r.json, {"$ref": f"#/components/schemas/Tinker{name}"})
        assert {"TinkerModelData", "TinkerCheckpoint"} <= api.met, api.met

    def case_unnamed_weights_make_place(self):
        m = self.c.model()
        samplers = [m.save_sampler() for _ in range(10)]
        for sampler in samplers[-8:]:
            sampler.sample(IDS, max_tokens=1)
        fails(lambda: samplers[0].sample(IDS, max_tokens=1), "newest 8")

    def case_samples(self):
        s = self.c.sampler()
        (a,), _ = s.sample(IDS, max_tokens=9, seed=3)
        (b,), _ = s.sample(IDS, max_tokens=9, seed=3)
        assert a == b and len(a[0]) == 9 and a[2] == 1, (a, b)
        said, prompt = s.sample(IDS, n=3, max_tokens=4, seed=3, wants_prompt=True)
        assert said[0][0] == a[0][:4] and len({tuple(x[0]) for x in said}) > 1 and len(prompt) == 4 * 25
        (c,), _ = s.sample(IDS, max_tokens=9, seed=3, stop=[a[0][2]])
        end = a[0].index(a[0][2]) + 1
        assert c[0] == a[0][:end] and c[1] == a[1][:4 * end] and c[2] == 0, (a, c)
        fails(lambda: s.sample([1 << 29], max_tokens=1), "not in the vocabulary")
        fails(lambda: s.sample(IDS, max_tokens=1, top_p=2), "top_p")
        fails(lambda: s.sample([5] * 300, max_tokens=1), "the model takes 256")

    def case_a_session_ends(self):
        c = Client(lambda: self.s, key("ann"))
        m = c.model()
        assert c.ask("session_heartbeat", session_id=c.session)
        c.ask(f"sessions/{c.session}/finish", reason={"type": "success"})
        refused(lambda: c.ask("session_heartbeat", session_id=c.session), 410)
        refused(c.model, 404)
        assert m.id.startswith(c.session)


# ---- kills ----------------------------------------------------------------------------------------


def within_a_quota(model):
    """What a key has saved is bounded, and what it deletes makes room."""
    with scratch() as tmp, Tandem(model, "--data-dir", tmp / "data", "--ctx", 256, "--files-quota", "300K",
                                  "--no-access-log") as s:
        c = Client(lambda: s)
        m, names = c.model(rank=16), []
        try:
            for i in range(100):
                m.save(f"s{i}")
                names.append(i)
        except Failed as e:
            assert e.category == "user" and "--files-quota" in e.error, e
        assert 0 < len(names) < 100, names
        for i in names:
            assert s.ask("DELETE", f"/api/v1/training_runs/{m.id}/checkpoints/weights/s{i}").status == 200
        m.save("again")
    return f"{len(names)} states"


def passes_are_bounded(model):
    """Bodies of passes that no update came behind grow the store without a bound, or to a byte more; a key
    that cannot get out of it again; a kill behind which they count for nothing."""
    with scratch() as tmp:
        r = Restarted(tmp, model, "--files-quota", "64K")
        c = Client(r.server, lasts=True)
        m, big = c.model(), [row(list(range(5, 200)))] * 2

        def fill():
            n = 0
            try:
                while n < 1000:
                    m.passes(big)
                    n += 1
            except Failed as e:
                assert e.category == "user" and "--files-quota" in e.error and "step" in e.error, e
                return n
            raise AssertionError("it takes any number of them")

        def said():
            """What it keeps, in bytes, by the refusal of one more."""
            try:
                m.passes(big)
            except Failed as e:
                return int(re.search(r"takes (\d+) bytes, .*--files-quota", e.error)[1])
            raise AssertionError("it takes one more")

        def may_have(quota):
            r.words = (*r.words[:-1], quota)
            r.again(signal.SIGTERM)
        n = fill()
        assert n > 2, n
        for _ in range(2):
            at = m.id, m.seq
            r.now.process.kill()
            r.now.process.wait()
            r.now = None
            r.again()
            assert c.result("%s:%d" % (at[0], at[1] - 1))
        first, kept = said(), said()
        more = kept - first  # the refusal is kept, too
        assert first >= 64 << 10 and more > 0, (first, kept)
        may_have(kept + more)
        assert said() == kept + more
        may_have(kept + 2 * more + 1)
        m.passes(big)
        may_have("64K")
        m.step()
        n_again = fill()
        assert n_again > 2, n_again
        m.step()
        assert r.now.stop() == 0
    return f"{n} passes, {n_again} more"


def a_crowd_of_one_key(model):
    """Samples of one key fill neither the engine's queue nor the list of those that run."""
    with scratch() as tmp:
        (tmp / "keys").write_text(KEYS + "ops admin tml-ops-ops-ops-ops-ops-ops\n")
        (tmp / "keys").chmod(0o600)
        with Tandem(model, "--data-dir", tmp / "data", "--ctx", 512, "--api-key-file", tmp / "keys",
                    "--max-seqs", 4, "--max-waiting", 256, "--no-access-log") as s:
            ann, bob = Client(lambda: s, key("ann")), Client(lambda: s, key("bob"))
            many, few = ann.sampler(), bob.sampler()
            for _ in range(300):
                many.give([5, 6, 7], 16, max_tokens=400)
            r = s.post("/v1/completions", {"prompt": "a", "max_tokens": 2}, **key("bob"))
            assert r.status == 200, r
            few.sample([5, 6], max_tokens=2)
            left = s.metrics(**key("ops"))["tandem_requests_waiting"]
            assert left > 0, "ann's 4,800 samples are over already"
            s.process.kill()
            s.process.wait()
            s.process.returncode = 0  # it was to end so
    return f"{left:.0f} texts wait"


def stops(model):
    """Who waits for what a stop ends is told to come again to another, whenever it began to wait."""
    with scratch() as tmp, Tandem(model, "--data-dir", tmp / "data", "--ctx", 256, "--no-access-log",
                                  "--drain-delay", "3600") as s:
        c, said = Client(lambda: s), []
        at = c.model().give(ROWS, seq=9)  # what comes before it is never sent

        def wait():
            r = s.post("/api/v1/retrieve_future", {"request_id": at})
            said.append((r.status, r.error["code"], r.headers["Retry-After"]))
        before = threading.Thread(target=wait)
        before.start()
        s.process.send_signal(signal.SIGTERM)
        while "draining" not in s.output():
            time.sleep(0.01)
        wait()
        before.join()
        assert said == [(503, "shutting_down", "1")] * 2, said
        assert s.stop() == 0


def sent_again(model):
    """A sample that is sent again counts once, and is not refused for want of tokens: it was taken."""
    with scratch() as tmp, Tandem(model, "--data-dir", tmp / "data", "--ctx", 256, "--key-tpm", 60,
                                  "--no-access-log") as s:
        c = Client(lambda: s)
        sampler = c.sampler()

        def ask(seq):
            return c.post("asample", {"sampling_session_id": sampler.id, "seq_id": seq, "num_samples": 1,
                                      "prompt": {"chunks": [{"type": "encoded_text", "tokens": IDS}]},
                                      "sampling_params": {"max_tokens": 10}})
        first = ask(0)
        assert first.status == 200, first
        for _ in range(4):  # 35 tokens of 60 each, if they counted
            again = ask(0)
            assert again.status == 200 and again.json == first.json, again
        said, _ = read_sample(c.result(first.json["request_id"]))
        assert 0 < len(said[0][0]) <= 10, said  # its draw may end it
        assert ask(0).json == first.json  # when it has ended, too
        other = ask(1)
        assert other.status == 429 and int(other.headers["Retry-After"]) > 0, other


def outlives_its_time(model):
    """Weights whose time is over go, though nobody saves or asks any more."""
    with scratch() as tmp:
        r = Restarted(tmp, model)
        c = Client(r.server, lasts=True)
        m = c.model()
        paths = [m.save("kept"), m.save("gone", ttl_seconds=3600), m.save_sampler("served")]
        assert r.now.stop() == 0
        with contextlib.closing(sqlite3.connect(tmp / "data" / "store.db")) as db, db:
            db.execute("UPDATE loop_weights SET expires = 1 WHERE path <> ?", paths[:1])
        r.now = None
        r.again()
        c.model()  # what is over goes before any request runs
        got = r.now.get(f"/api/v1/training_runs/{m.id}/checkpoints").json["checkpoints"]
        assert [x["tinker_path"] for x in got] == paths[:1], got
        left = [x.name for x in (tmp / "data" / "loops").iterdir() if "-state-" not in x.name]
        assert len(left) == 1, left
        assert r.now.post("/v1/completions", {"model": paths[2], "prompt": IDS}).status == 404
        assert r.now.stop() == 0


def behind_a_backup(model):
    """Catches: what was saved behind a backup of the store, and is removed where that is put back."""
    with scratch() as tmp:
        r = Restarted(tmp, model)
        data = tmp / "data"
        c = Client(r.server, lasts=True)
        m = c.model()
        m.save("before")
        assert r.now.stop() == 0
        shutil.copy(data / "store.db", tmp / "backup.db")
        r.now = None
        r.again()
        m.save("behind")
        other = c.model()
        other.save("new")
        assert r.now.stop() == 0
        with contextlib.closing(sqlite3.connect(data / "store.db")) as db:
            dirs = [x for x, in db.execute("SELECT dir FROM loop_weights WHERE path LIKE '%/behind' OR path LIKE '%/new'")]
        was = {x: sorted(f.name for f in (data / "loops" / x).iterdir()) for x in dirs}
        shutil.copy(tmp / "backup.db", data / "store.db")
        r.now = None
        r.again()
        lost = {x: sorted(f.name for f in (data / "lost+found" / x).iterdir()) for x in dirs}
        assert len(dirs) == 2 and all(was.values()) and lost == was, (was, lost)
        got = r.now.get(f"/api/v1/training_runs/{m.id}/checkpoints").json["checkpoints"]
        assert [x["checkpoint_id"] for x in got] == ["weights/before"], got
        assert r.now.stop() == 0


def waits_for_its_base(model, other):
    """Where another base is served, a request that would get no turn is refused; what waits stays."""
    with scratch() as tmp:
        r = Restarted(tmp, model)
        c = Client(r.server, lasts=True)
        m = c.model()
        m.passes(ROWS)
        at, want = m.give([ROWS[0]], seq=3), m.give([ROWS[1]], seq=2)
        want = c.result(want), c.result(at)
        for words in (("--quantize", "int8"), ()):
            assert r.now.stop() == 0
            r.now = None
            r.words = (model if words else other, *r.words[1:7], *words)
            r.again()
            e = refused(lambda: m.give(ROWS, seq=4), 400, "base_not_served")
            assert "'tiny'" in e.error["message"], e
        assert r.now.stop() == 0
        r.now = None
        r.words = (model, *r.words[1:7])
        r.again()
        assert (c.result(m.id + ":2"), c.result(m.id + ":3")) == want
        m.seq = 3
        assert m.step()["step"] == 1
        assert r.now.stop() == 0


class Restarted:
    """A server that is ended and begun again; who asks meanwhile finds none."""

    def __init__(self, tmp, model, *more):
        self.words = (model, "--name", "tiny", "--data-dir", tmp / "data", "--ctx", 256, "--no-access-log", *more)
        self.now = None
        self.again()

    def again(self, how=None):
        if self.now:
            old, self.now = self.now, None
            status = old.stop(how)
            assert how == signal.SIGKILL or status == 0, old.output()
        self.now = Tandem(*self.words)

    def server(self):
        if not self.now:
            raise ConnectionRefusedError
        return self.now


def script(client, between=lambda: None):
    """Two models in turns, saved, sampled and loaded; all that they were answered."""
    a, b = client.model(seed=11), client.model(seed=12, rank=3)
    out = []

    def say(x):
        out.append(x)
        between()
        return x
    for i in range(4):
        say(a.passes([ROWS[i % 3]]))
        say(b.passes(ROWS))
        say(a.passes([ROWS[2]]))
        say(a.step())
        say(b.step(2e-2))
        if i == 1:
            path = a.save("middle")
            between()
        sampler = a.save_sampler()
        between()
        say(sampler.sample(IDS[:6], n=2, max_tokens=6, seed=i))
    a.load(path)
    between()
    for m in (a, b, client.model_of(path, True)):
        say(m.passes(ROWS))
        say(m.step())
        say(m.passes(ROWS, forward_only=True))
    return out


def straight(model):
    with scratch() as tmp, Tandem(model, "--name", "tiny", "--data-dir", tmp / "data", "--ctx", 256) as s:
        return script(Client(lambda: s))


def ended_between_any_two(model, want):
    with scratch() as tmp:
        r = Restarted(tmp, model)
        n = 0

        def between():
            nonlocal n
            n += 1
            if n % 4 == 0:
                r.again(signal.SIGTERM if n % 8 else signal.SIGKILL)
        got = script(Client(r.server, lasts=True), between)
        assert r.now.stop() == 0
    assert got == want, "an end of the server changed an answer"
    return f"{n // 4} ends"


def killed_at_any_moment(model, want):
    """Under scripts one after the other, each of which is to come to what the straight one did."""
    draw, n = random.Random(SEED), 0
    with scratch() as tmp:
        r = Restarted(tmp, model)
        enough, got = threading.Event(), []

        def work():
            while not enough.is_set():
                got.append(script(Client(r.server, lasts=True)))
        worker = threading.Thread(target=work)
        worker.start()
        while n < KILLS and worker.is_alive():
            time.sleep(draw.random() * 0.5 * SLOW)
            r.again(signal.SIGKILL)
            n += 1
        enough.set()
        worker.join()
        assert r.now.stop() == 0
    assert got and all(x == want for x in got), f"a kill changed an answer (TEST_SEED={SEED})"
    return f"{n} kills under {len(got)} scripts, TEST_SEED={SEED}"


def ended_during_anything(model):
    """What is in work is put down, who waits is told, and it goes on."""
    with scratch() as tmp:
        r = Restarted(tmp, model)
        c = Client(r.server, lasts=True)
        m = c.model(seed=3)
        give = [m.give(ROWS * 20) for _ in range(10)]
        sampler = c.sampler()
        samples = [sampler.give(IDS, max_tokens=200, seed=i) for i in range(8)]
        waits = threading.Thread(target=lambda: c.result(give[-1]))
        waits.start()
        r.again(signal.SIGTERM)
        for x in give + samples:
            c.result(x)
        waits.join()
        assert r.now.stop() == 0


def main():
    cases = Cases()
    with scratch() as tmp:
        (tmp / "keys").write_text(KEYS)
        (tmp / "keys").chmod(0o600)
        model = make_model(tmp / "tiny")
        with Tandem(model, "--data-dir", tmp / "data", "--ctx", 256, "--api-key-file", tmp / "keys",
                    "--no-access-log", "--max-lora-rank", 64) as s:
            cases.run_all(Whole(s))
        cases.run("within a quota", lambda: within_a_quota(model))
        cases.run("passes are bounded", lambda: passes_are_bounded(model))
        cases.run("a crowd of one key", lambda: a_crowd_of_one_key(model))
        cases.run("stops", lambda: stops(model))
        cases.run("sent again", lambda: sent_again(model))
        cases.run("outlives its time", lambda: outlives_its_time(model))
        cases.run("behind a backup", lambda: behind_a_backup(model))
        cases.run("waits for its base", lambda: waits_for_its_base(model, make_model(tmp / "other", "--seed", 5)))
        want = []
        cases.run("straight", lambda: want.extend(straight(model)))
        cases.run("ended between any two", lambda: ended_between_any_two(model, want))
        cases.run("killed at any moment", lambda: killed_at_any_moment(model, want))
        cases.run("ended during anything", lambda: ended_during_anything(model))
    return cases.end()


if __name__ == "__main__":
    start = time.monotonic()
    sys.exit(main())
