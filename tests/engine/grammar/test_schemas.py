#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Texts of random schemas against an independent validator (schemas/cases.py), in a virtual environment."""
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1] / "lib"))
import packages  # noqa: E402

sys.exit(packages.run("texts of random schemas", "jsonschema", HERE / "schemas"))
