#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What people do with Tinker's public SDK, done to `tandem serve` on a tiny random model. Run by
test_tinker_sdk.py. The SDK's own types do part of the checking.

Faults they can catch: a shape that the SDK does not read; an error of another category; a client that
does not live through a server that is killed under it; a documented loop that does not run."""
import contextlib
import io
import os
import pathlib
import re
import signal
import sys
import warnings

import numpy as np
import tinker
from serving import Cases, Tandem, make_model, scratch
from tinker import types

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent.parent
IDS = list(range(5, 30))
ADAM = types.AdamParams(learning_rate=1e-2)


def text(ids, **inputs):
    inputs = inputs or {"weights": np.ones(len(ids) - 1, dtype=np.float32)}
    return types.Datum(model_input=types.ModelInput.from_ints(ids[:-1]), loss_fn_inputs={
        "target_tokens": np.array(ids[1:], dtype=np.int64), **inputs})


def sample(sampler, ids, n=1, **params):
    return sampler.sample(types.ModelInput.from_ints(ids), n, types.SamplingParams(**params)).result()


class Sdk:
    def __init__(self, server):
        self.s = server
        self.c = tinker.ServiceClient(base_url=server.url, api_key="tml-test")

    def model(self, **more):
        return self.c.create_lora_training_client(base_model="tiny", rank=4, seed=1, **more).result()

    def case_examples_are_learnt(self):
        m = self.model()
        assert m.get_info().lora_rank == 4
        losses = []
        for _ in range(6):
            passed, stepped = m.forward_backward([text(IDS)] * 3, "cross_entropy"), m.optim_step(ADAM)
            losses.append(passed.result().metrics["loss:sum"])
            assert stepped.result().metrics["grad_norm"] > 0
        assert losses[-1] < 0.7 * losses[0], losses

    def case_sampled_is_trained(self):
        m = self.model()
        m.forward_backward([text(IDS)], "cross_entropy").result()
        m.optim_step(ADAM).result()
        sampler = m.save_weights_and_get_sampling_client().result()
        said = sample(sampler, IDS[:4], 3, max_tokens=9).sequences
        data = [text(IDS[:4] + s.tokens, logprobs=np.array([0] * 3 + s.logprobs, dtype=np.float32),
                     advantages=np.array([0] * 3 + [1] * len(s.tokens), dtype=np.float32)) for s in said]
        for loss in ("importance_sampling", "ppo"):
            got = m.forward(data, loss).result()
            assert got.metrics["off_policy:sum"] == 0 and got.metrics["clipped:sum"] == 0, got.metrics
        for s, x in zip(said, got.loss_fn_outputs):
            assert x["logprobs"].tolist()[3:] == s.logprobs
        again = sampler.compute_logprobs(types.ModelInput.from_ints(IDS[:4] + said[0].tokens)).result()
        assert again[0] is None and again[4:] == said[0].logprobs

    def case_states(self):
        m = self.model()
        m.forward_backward([text(IDS)], "cross_entropy").result()
        m.optim_step(ADAM).result()
        path = m.save_state("one").result().path
        on = []
        for x in (m, self.c.create_training_client_from_state_with_optimizer(path).result()):
            x.forward_backward([text(IDS)], "cross_entropy").result()
            x.optim_step(ADAM).result()
            on.append(x.forward([text(IDS)], "cross_entropy").result().loss_fn_outputs[0]["logprobs"].tolist())
        assert on[0] == on[1]
        saved = m.save_weights_for_sampler("named").result().path
        sampler = self.c.create_sampling_client(model_path=saved).result()
        assert sampler.compute_logprobs(types.ModelInput.from_ints(IDS)).result()[1:] == on[0]
        rest = self.c.create_rest_client()
        assert [x.tinker_path for x in rest.list_checkpoints(m.model_id).result().checkpoints] == [saved, path]
        assert rest.get_weights_info_by_tinker_path(path).result().lora_rank == 4
        rest.delete_checkpoint(m.model_id, "weights/one").result()
        assert len(rest.list_checkpoints(m.model_id).result().checkpoints) == 1

    def case_chunks_of_a_pass(self):
        """More rows than one request takes."""
        m = self.model()
        got = m.forward([text(IDS[:3])] * 1500, "cross_entropy").result()
        assert len(got.loss_fn_outputs) == 1500
        one = got.loss_fn_outputs[0]["logprobs"].tolist()
        assert all(x["logprobs"].tolist() == one for x in got.loss_fn_outputs)

    def case_errors_are_the_users(self):
        m = self.model()
        for go in (lambda: m.forward_backward([text(IDS)], "gspo"), lambda: m.optim_step(ADAM),
                   lambda: m.forward([text([5, 1 << 20])], "cross_entropy")):
            try:
                go().result()
            except tinker.RequestFailedError as e:
                assert e.category == types.RequestErrorCategory.User, e
            else:
                raise AssertionError("it was taken")
        assert m.forward([text(IDS)], "cross_entropy").result().metrics["loss:sum"] > 0

    def typed(self, path):
        """What the block in Python of a page prints."""
        page = (ROOT / path).read_text(encoding="utf-8")
        code = re.search(r"```python\n(.*?)```", page, re.S)[1].replace("http://localhost:8080", self.s.url)
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            exec(compile(code, path, "exec"), {})  # noqa: S102
        return out.getvalue().splitlines()

    def case_the_tutorial_runs(self):
        lines = self.typed("docs/tutorial-research.md")
        losses = [float(x.split()[-1]) for x in lines if x.startswith("loss of a token")]
        assert len(losses) == 12 and losses[-1] < 0.7 * losses[0], lines
        assert lines[-1].startswith("samples [["), lines
        return f"loss {losses[0]:.2f} to {losses[-1]:.2f}"

    def case_the_page_runs(self):
        lines = self.typed("docs/tinker.md")
        assert len(lines) == 8 and all("'off_policy:sum': 0.0" in x for x in lines), lines
        first, last = (float(lines[i].split()[1]) for i in (0, -1))
        return f"mean reward {first} to {last}"


def lives_through_kills(tmp, model):
    """The server is killed under a loop; the SDK asks again, and the end is that of a loop let be."""
    words = (model, "--data-dir", tmp / "killed", "--no-access-log", "--port")

    def loop(url, between=lambda: None):
        c = tinker.ServiceClient(base_url=url, api_key="tml-test")
        m = c.create_lora_training_client(base_model="tiny", rank=4, seed=3).result()
        out = []
        for i in range(4):
            passed, stepped = m.forward_backward([text(IDS)] * 2, "cross_entropy"), m.optim_step(ADAM)
            between()
            out += [passed.result().metrics, stepped.result().metrics]
            s = m.save_weights_and_get_sampling_client().result()
            out.append(sample(s, IDS[:3], max_tokens=5, seed=i).sequences[0].tokens)
        return out
    with Tandem(model, "--data-dir", tmp / "straight") as s:
        want = loop(s.url)
    server = [Tandem(*words, 0)]
    port, n = server[0].port, 0

    def kill():
        nonlocal n
        n += 1
        if n in (2, 3):
            server[0].stop(signal.SIGKILL)
            server[0] = Tandem(*words, port)
    got = loop(server[0].url, kill)
    assert server[0].stop() == 0
    assert got == want, (got, want)


def main():
    warnings.simplefilter("ignore")
    os.environ["TINKER_TELEMETRY"] = "0"
    cases = Cases()
    with scratch() as tmp:
        model = make_model(tmp / "tiny")
        with Tandem(model, "--data-dir", tmp / "data") as s:
            cases.run_all(Sdk(s))
        cases.run("lives through kills", lambda: lives_through_kills(tmp, model))
    return cases.end()


if __name__ == "__main__":
    status = main()
    sys.stdout.flush()
    os._exit(status)  # the SDK's thread goes on asking a server that is gone
