#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Texts that a running server holds to schemas, regexes, choices and grammars (constrained/cases.py), in
a virtual environment."""
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "lib"))
import packages  # noqa: E402

sys.exit(packages.run("constrained texts", "jsonschema", HERE / "constrained"))
