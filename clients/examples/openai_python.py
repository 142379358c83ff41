# SPDX-License-Identifier: Apache-2.0
"""openai_python.py FILE QUESTION: asks, fine-tunes on FILE, and asks again."""
import os
import sys
import time

from openai import OpenAI

path, question = sys.argv[1:]
client = OpenAI(base_url=os.environ.get("OPENAI_BASE_URL", "http://localhost:8080/v1"),
                api_key=os.environ.get("OPENAI_API_KEY", "none"))


def ask(model):
    print(f"{model}: ", end="")
    for event in client.chat.completions.create(
            model=model, messages=[{"role": "user", "content": question}], temperature=0,
            max_tokens=64, stream=True):
        print(event.choices[0].delta.content or "", end="", flush=True)
    print()


base = client.models.list().data[0].id
ask(base)

with open(path, "rb") as f:
    uploaded = client.files.create(file=f, purpose="fine-tune")
job = client.fine_tuning.jobs.create(model=base, training_file=uploaded.id)
seen = 0
while job.status not in ("succeeded", "failed", "cancelled"):
    time.sleep(0.5)
    job = client.fine_tuning.jobs.retrieve(job.id)
    events = client.fine_tuning.jobs.list_events(job.id, limit=100).data[::-1]
    for event in events[seen:]:
        print(event.message)
    seen = max(seen, len(events))
if job.status != "succeeded":
    sys.exit(f"the job {job.status}: {job.error and job.error.message}")

ask(job.fine_tuned_model)
