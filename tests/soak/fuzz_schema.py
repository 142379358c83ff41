#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""schemathesis over the server's own /openapi.json: requests made of the description, valid ones and broken ones,
to every operation of a running server. Fails where an answer is a 5xx, has a status, a type or a body that the
description does not have, where a method is not refused, or where what is wrong by the description is taken.

    tests/soak/fuzz_schema.py [--examples 60] [--seed 1] [-- schemathesis' own options]

Not part of make test: a run takes many minutes. The package comes from PyPI (schema/requirements.txt) into a virtual
environment of its own; where it cannot be had, this says so and skips. The model is a tiny random one.

Two of schemathesis' checks are not asked for. positive_data_acceptance wants every request that fits the description to
be taken, and what names a model, a file, a job, or fields that exclude each other, cannot be said there.
unsupported_method wants a status of 405 for methods that HTTP/1.1 has not, where this server says 501."""
import argparse
import os
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "lib"))
sys.path.insert(0, str(HERE.parent / "server"))
import packages  # noqa: E402
from serving import Tandem, scratch  # noqa: E402
from test_responses import KEYS, model_of  # noqa: E402

CHECKS = ("not_a_server_error,status_code_conformance,content_type_conformance,response_headers_conformance,"
          "response_schema_conformance,negative_data_rejection,use_after_free,missing_required_header,ignored_auth")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--examples", type=int, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("more", nargs="*")
    a = parser.parse_args()
    python, fault = packages.ready("schema", HERE / "schema")
    if fault:
        return packages.skip("schemathesis", fault)
    with scratch() as tmp:
        model, keys = model_of(tmp), tmp / "keys"
        keys.write_text(KEYS)
        keys.chmod(0o600)
        with Tandem(model, "--name", "tiny", "--ctx", 256, "--api-key-file", keys, "--data-dir", tmp / "data", "--adapter-root", tmp,
                    "--request-timeout", 20, "--no-access-log") as server:
            words = [pathlib.Path(python).parent.absolute() / "schemathesis", "run", server.url + "/openapi.json", "--checks", CHECKS,
                     "--header", "Authorization: Bearer root-key-root-key", "--max-examples", a.examples, "--seed", a.seed,
                     "--generation-database", "none", "--continue-on-failure", "--no-color", *a.more]
            env = {**os.environ, "SCHEMATHESIS_HOOKS": "hooks", "PYTHONPATH": str(HERE / "schema")}
            return subprocess.run([str(w) for w in words], env=env, cwd=tmp, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
