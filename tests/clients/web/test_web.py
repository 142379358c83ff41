#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The page in a real Chromium: runs cases.py in the virtual environment that holds Playwright. Where
the browser or the packages cannot be had, says so and skips. `make check-web` runs it: a browser is a
large thing to install, and one that stands still now and then, so the gate does without."""
import os
import pathlib
import shutil
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent.parent / "lib"))
import packages  # noqa: E402
from serving import MODE  # noqa: E402

WHAT = "the page in Chromium"


def main():
    if "TEST_WEB" not in os.environ and len(sys.argv) == 1:
        return packages.skip(WHAT, "`make check-web` runs it")
    if MODE != "release":
        return packages.skip(WHAT, "the release build shows it; the page is the same in this one")
    browser = shutil.which("chromium")
    if not browser:
        return packages.skip(WHAT, "no chromium here; `make deps SETS=web` installs Debian's")
    if subprocess.run([browser, "--version"], stdout=subprocess.DEVNULL,
                      stderr=subprocess.DEVNULL, check=False).returncode != 0:
        return packages.skip(WHAT, f"{browser} does not run")
    return packages.run(WHAT, "web", HERE)


if __name__ == "__main__":
    sys.exit(main())
