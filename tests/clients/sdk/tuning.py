# SPDX-License-Identifier: Apache-2.0
"""Files and fine-tuning with the official SDK, whose types and pages do part of the checking."""
import json
import time

import openai
from openai import OpenAI
from serving import ENDLESS, SLOW

MODEL = "tests/golden/models/llama_tied"
OPTIONS = ("--name", "tiny", "--kv-memory", "8M")
ROWS = "".join(json.dumps({"prompt": "a b " * (1 + i % 4), "completion": "b a"}) + "\n"
               for i in range(12)).encode()


class Tuning:
    """The cases, and the server that they share."""

    def __init__(self, server, key):
        self.server = server
        self.client = OpenAI(base_url=server.url + "/v1", api_key=key, max_retries=0, timeout=120)
        self.jobs = self.client.fine_tuning.jobs

    def file(self, data=ROWS):
        return self.client.files.create(file=("rows.jsonl", data), purpose="fine-tune")

    def case_files(self):
        """Catches: a form as the SDK writes it that is refused, a list that does not page."""
        made = [self.client.files.wait_for_processing(self.file().id).id for _ in range(3)]
        assert [f.id for f in self.client.files.list(limit=2)][:3] == made[::-1]
        assert self.client.files.content(made[0]).content == ROWS
        kept = self.client.files.create(file=("x", b"x"), purpose="batch", expires_after={
            "anchor": "created_at", "seconds": 3600})
        assert kept.expires_at == kept.created_at + 3600
        for file in (*made, kept.id):
            assert self.client.files.delete(file).deleted
        try:
            self.client.files.retrieve(made[0])
        except openai.NotFoundError as e:
            assert e.body["code"]
        else:
            raise AssertionError("a deleted file was found")

    def case_job(self):
        """Catches: a job without a member that the SDK wants, events or checkpoints that do not
        page, a tuned model that cannot be asked for or deleted."""
        job = self.jobs.create(model="tiny", training_file=self.file(ROWS * 4).id, seed=1, suffix="sdk",
                               metadata={"a": "b"}, method={"type": "supervised", "supervised": {
                                   "hyperparameters": {"n_epochs": 2, "batch_size": "auto"}}})
        assert job.status in ("validating_files", "queued") and job.metadata == {"a": "b"}
        with self.client.fine_tuning.with_streaming_response.jobs.list_events(
                job.id, extra_query={"stream": "true"}) as r:
            assert list(r.iter_lines())[-2:] == ["data: [DONE]", ""]
        job = self.jobs.retrieve(job.id)
        assert job.status == "succeeded" and job.trained_tokens and not job.error, job
        assert job.hyperparameters.n_epochs == 2, job
        events = list(self.jobs.list_events(job.id, limit=5))
        assert len(events) == len({e.id for e in events}) > 20
        assert events[-1].message.startswith("Created")
        assert len(list(self.jobs.checkpoints.list(job.id, limit=1))) == 2
        assert [j.id for j in self.jobs.list(limit=1)][0] == job.id
        name = job.fine_tuned_model
        assert self.client.completions.create(model=name, prompt="a", max_tokens=2).model == name
        assert self.client.models.delete(name).deleted

    def refused(self, kind, param, code, call, **more):
        """The SDK's error of this class, which is not sent again."""
        try:
            call(**more)
        except kind as e:
            assert set(e.body) == {"message", "type", "param", "code"} and e.body["message"], e.body
            assert (param or "") in (e.body["param"] or ""), (more, e.body)
            assert code is None or e.body["code"] == code, (more, e.body)
        else:
            raise AssertionError(f"taken: {more}")

    def case_preferences(self):
        """Catches: a job of the method dpo that the SDK cannot make, or read."""
        def said(text, role="assistant"):
            return [{"role": role, "content": text}]
        pairs = "".join(json.dumps({"input": {"messages": said(f"a {i}", "user")},
                                    "preferred_output": said("b a"),
                                    "non_preferred_output": said("a b")}) + "\n" for i in range(12))
        job = self.jobs.create(model="tiny", training_file=self.file(pairs.encode()).id, seed=1, method={
            "type": "dpo", "dpo": {"hyperparameters": {"beta": 0.2, "n_epochs": 1}}})
        with self.client.fine_tuning.with_streaming_response.jobs.list_events(
                job.id, extra_query={"stream": "true"}) as r:
            assert list(r.iter_lines())[-2:] == ["data: [DONE]", ""]
        job = self.jobs.retrieve(job.id)
        assert job.status == "succeeded" and job.trained_tokens, job
        assert (job.method.type, job.method.dpo.hyperparameters.beta) == ("dpo", 0.2), job.method

    def case_teacher(self):
        """Catches: an answer of the SDK's with log-probabilities that is no row as it is."""
        rows = []
        for i in range(12):
            ask = [{"role": "user", "content": f"a {i}"}]
            got = self.client.chat.completions.create(model="tiny", messages=ask, max_tokens=8, seed=i, logprobs=True,
                                                      top_logprobs=20, extra_body={"guided_regex": "[a-z ]{3,9}"})
            rows.append(json.dumps({"messages": ask, **got.model_dump()}) + "\n")
        job = self.jobs.create(model="tiny", training_file=self.file("".join(rows).encode()).id, seed=1, method={
            "type": "supervised", "supervised": {"hyperparameters": {"n_epochs": 1, "distill_weight": 0.5}}})
        with self.client.fine_tuning.with_streaming_response.jobs.list_events(
                job.id, extra_query={"stream": "true"}) as r:
            assert list(r.iter_lines())[-2:] == ["data: [DONE]", ""]
        job = self.jobs.retrieve(job.id)
        assert job.status == "succeeded" and job.method.supervised.hyperparameters.distill_weight == 0.5, job

    def case_bounds(self):
        """Catches: a value out of its bounds that is taken, or told under another name."""
        file = self.file().id

        def create(hyper=None, **more):
            if hyper:
                more["method"] = {"type": "supervised", "supervised": {"hyperparameters": hyper}}
            return self.jobs.create(**{"model": "tiny", "training_file": file, **more})
        for hyper in ({"n_epochs": 0}, {"n_epochs": 51}, {"n_epochs": "abc"}, {"batch_size": 0},
                      {"batch_size": 257}, {"learning_rate_multiplier": 0}):
            self.refused(openai.BadRequestError, next(iter(hyper)), None, create, hyper=hyper)
        for more in ({"suffix": ""}, {"suffix": "x" * 65}, {"seed": -1}, {"seed": 2**31},
                     {"metadata": {str(i): "" for i in range(17)}}, {"metadata": {"k" * 65: ""}},
                     {"metadata": {"k": "v" * 513}}, {"training_file": "file-none"},
                     {"validation_file": "file-none"}):
            self.refused(openai.BadRequestError, next(iter(more)), None, create, **more)
        for beta in (0, 2.1):
            self.refused(openai.BadRequestError, "method", None, create, method={
                "type": "dpo", "dpo": {"hyperparameters": {"beta": beta}}})
        self.refused(openai.NotFoundError, "model", "model_not_found", create, model="gpt-none")

    def case_graders(self):
        """Catches: an answer without a member that the SDK wants, a fault without its field."""
        graders = self.client.fine_tuning.alpha.graders
        check = {"type": "string_check", "name": "x", "input": "{{sample.output_text}}",
                 "reference": "{{item.answer}}", "operation": "eq"}
        assert graders.validate(grader=check).grader.operation == "eq"
        got = graders.run(grader=check, model_sample="a", item={"answer": "a"})
        assert got.reward == 1 and got.metadata.type == "string_check", got
        assert got.metadata.errors.other_error is False and got.sub_rewards == {}, got
        self.refused(openai.BadRequestError, "grader.operation", "invalid_value", graders.validate,
                     grader={**check, "operation": "same"})

    def case_errors(self):
        """Catches: something that is not there and is found, or that the SDK asks for again; a
        part of OpenAI's API that is refused without its name."""
        c, jobs, missing = self.client, self.jobs, openai.NotFoundError
        for call, more in ((c.files.retrieve, {"file_id": "file-none"}),
                           (c.files.content, {"file_id": "file-none"}),
                           (c.files.delete, {"file_id": "file-none"}),
                           (jobs.retrieve, {"fine_tuning_job_id": "ftjob-none"}),
                           (jobs.cancel, {"fine_tuning_job_id": "ftjob-none"}),
                           (jobs.list_events, {"fine_tuning_job_id": "ftjob-none"}),
                           (jobs.checkpoints.list, {"fine_tuning_job_id": "ftjob-none"}),
                           (c.models.delete, {"model": "ft:none"})):
            self.refused(missing, None, None, call, **more)
        self.refused(missing, None, "not_supported", c.moderations.create, input="x")
        wrong = c.with_options(api_key="wrong-key")
        self.refused(openai.AuthenticationError, None, "invalid_api_key", wrong.fine_tuning.jobs.list)
        self.refused(openai.BadRequestError, "after", None, jobs.list, after="ftjob-none")

    def case_uploads(self):
        """Catches: a file that the SDK's own chunked upload cannot send, or that differs from what it sent."""
        c = self.client
        rows = b"".join(b'{"prompt": "a%d", "completion": " b"}\n' % i for i in range(40))
        done = c.uploads.upload_file_chunked(file=rows, filename="rows.jsonl", bytes=len(rows), purpose="fine-tune",
                                             mime_type="text/jsonl", part_size=200)
        assert done.status == "completed" and done.file.filename == "rows.jsonl", done
        assert c.files.content(done.file.id).read() == rows
        begun = c.uploads.create(filename="x", purpose="fine-tune", bytes=1, mime_type="text/jsonl")
        assert begun.status == "pending" and c.uploads.cancel(begun.id).status == "cancelled"

    def case_batches(self):
        """Catches: a batch without a member that the SDK wants, one that cannot be followed to its
        files, listed or cancelled."""
        c = self.client
        lines = "".join(json.dumps({"custom_id": f"line-{i}", "method": "POST", "url": "/v1/completions", "body": {
            "model": "tiny", "prompt": "a b", "max_tokens": -1 if i == 2 else 3}}) + "\n" for i in range(4))
        file = c.files.create(file=("in.jsonl", lines.encode()), purpose="batch")
        made = [c.batches.create(input_file_id=file.id, endpoint="/v1/completions", completion_window="24h",
                                 metadata={"a": "b"}).id for _ in range(2)]
        end = time.monotonic() + 60 * SLOW
        while (b := c.batches.retrieve(made[0])).status != "completed":
            assert time.monotonic() < end, b
            time.sleep(0.02)
        assert b.request_counts.model_dump() == {"total": 4, "completed": 3, "failed": 1} and b.metadata == {"a": "b"}, b
        out, bad = ([json.loads(x) for x in c.files.content(f).text.splitlines()] for f in (b.output_file_id, b.error_file_id))
        assert [x["custom_id"] for x in out] == ["line-0", "line-1", "line-3"], out
        assert [x["custom_id"] for x in bad] == ["line-2"] and bad[0]["response"]["status_code"] == 400, bad
        assert b.usage.output_tokens == sum(x["response"]["body"]["usage"]["completion_tokens"] for x in out), b
        assert [x.id for x in c.batches.list(limit=1)][:2] == made[::-1]
        while c.batches.retrieve(made[1]).status != "completed":
            assert time.monotonic() < end
            time.sleep(0.02)
        self.refused(openai.BadRequestError, None, "invalid_state", c.batches.cancel, batch_id=made[1])

    def case_seeds(self):
        """Catches: a seed that does not decide the losses."""
        file, curves = self.file().id, []
        for seed in (42, 42, 43):
            job = self.jobs.create(model="tiny", training_file=file, seed=seed,
                                   hyperparameters={"n_epochs": 2, "batch_size": 5})
            assert job.seed == seed
            with self.client.fine_tuning.with_streaming_response.jobs.list_events(
                    job.id, extra_query={"stream": "true"}) as r:
                list(r.iter_lines())
            result = self.jobs.retrieve(job.id).result_files[0]
            curves.append(self.client.files.content(result).content)
        assert curves[0] == curves[1] != curves[2]

    def case_states(self):
        """Catches: a conflict that the SDK would send again and again."""
        job = self.jobs.create(model="tiny", training_file=self.file(ROWS * (ENDLESS // 12)).id,
                               hyperparameters={"n_epochs": 50, "batch_size": 1})
        assert self.jobs.pause(job.id).status == "paused"
        assert self.jobs.resume(job.id).status == "queued"
        assert self.jobs.cancel(job.id).status == "cancelled"
        try:
            self.jobs.cancel(job.id)
        except openai.BadRequestError as e:
            assert e.body["code"] == "invalid_job_state"
        else:
            raise AssertionError("a job was cancelled twice")
