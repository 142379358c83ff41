# SPDX-License-Identifier: Apache-2.0
"""Files and fine-tuning with the official SDK, whose types and pages do part of the checking."""
import json

import openai
from openai import OpenAI

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
        job = self.jobs.create(model="tiny", training_file=self.file().id, seed=1, suffix="sdk",
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

    def case_states(self):
        """Catches: a conflict that the SDK would send again and again."""
        job = self.jobs.create(model="tiny", training_file=self.file(ROWS * 9).id,
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
