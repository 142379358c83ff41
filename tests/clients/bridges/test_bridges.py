#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""instructor and litellm against `tandem serve`: runs cases.py in the virtual environment that holds them.
Where the packages cannot be had, says so and skips."""
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent.parent / "lib"))
import packages  # noqa: E402

if __name__ == "__main__":
    sys.exit(packages.run("the bridges", "bridges", HERE))
