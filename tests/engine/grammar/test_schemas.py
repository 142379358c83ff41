#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Texts of schemas against validators (schemas/cases.py): with the jsonschema package in a virtual
environment, and where that cannot be had by our own validator alone."""
import os
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1] / "lib"))
import packages  # noqa: E402

python, fault = packages.ready("jsonschema", HERE / "schemas")
if fault:
    print(f"without the jsonschema package: {fault}")
python = python or sys.executable
os.execv(python, [python, str(HERE / "schemas/cases.py"), *sys.argv[1:]])
