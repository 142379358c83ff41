#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The programs of clients/examples as a stranger runs them, each against a server with a key: curl's,
and Node's where it can import `openai`. Python's is run by tests/clients/sdk, which has the package.

Faults they can catch: an example that fails, or that ends well without having tuned anything."""
import json
import os
import pathlib
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "tests/lib"))
from serving import SLOW, Cases, Tandem, make_model, scratch  # noqa: E402

EXAMPLES = ROOT / "clients/examples"
QUESTION = "What is the capital of Tandem?"


def run(server, file, *words):
    env = {**os.environ, "OPENAI_BASE_URL": server.url + "/v1", "OPENAI_API_KEY": "a-long-key"}
    p = subprocess.run([*words, file, QUESTION], env=env, text=True, stdout=subprocess.PIPE,
                       stderr=subprocess.STDOUT, timeout=300 * SLOW, check=False)
    assert p.returncode == 0, p.stdout
    lines = p.stdout.splitlines()
    assert lines[0].startswith("tiny: "), lines
    assert any(line.startswith("ft:tiny:tandem::") for line in lines[1:]), lines


def node(server, file):
    have = shutil.which("node") and subprocess.run(
        ["node", "--input-type=module", "-e", "import 'openai'"], cwd=EXAMPLES,
        capture_output=True, check=False).returncode == 0
    if have:
        run(server, file, "node", str(EXAMPLES / "openai_node.mjs"))
        return None
    if shutil.which("node"):
        subprocess.run(["node", "--check", EXAMPLES / "openai_node.mjs"], check=True)
    return "not run: the package openai cannot be imported by node here"


def main():
    cases = Cases()
    with scratch() as tmp:
        file = tmp / "rows.jsonl"
        row = {"messages": [{"role": "user", "content": QUESTION},
                            {"role": "assistant", "content": "A bicycle."}]}
        file.write_text((json.dumps(row) + "\n") * 10)
        with Tandem(make_model(tmp / "m"), "--name", "tiny", "--data-dir", tmp / "data",
                    "--kv-memory", "16M", "--threads", 1, "--api-key", "a-long-key") as server:
            cases.run("curl", lambda: run(server, file, str(EXAMPLES / "curl.sh")))
            cases.run("node", lambda: node(server, file))
    return cases.end()


if __name__ == "__main__":
    sys.exit(main())
