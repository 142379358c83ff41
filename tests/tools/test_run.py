#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tests/run on small programs: what fails once and is good alone does not refuse a change, and is
told with both outputs; what fails twice does."""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
passed = failed = 0


def check(name, good, seen):
    global passed, failed
    passed, failed = passed + bool(good), failed + (not good)
    if not good:
        print(f"FAILED {name}\n{seen}")


def program(root, name, text):
    path = root / name
    path.write_text("#!/bin/sh\n" + text)
    path.chmod(0o755)
    return name


def run(root, *names):
    """In a root of its own, so that no log or time of the suite that runs this is touched."""
    env = {k: v for k, v in os.environ.items() if k != "TANDEM_BUILD"}
    r = subprocess.run([sys.executable, "tests/run", "--mode", "own", *names], cwd=root, env=env,
                       stdin=subprocess.DEVNULL, capture_output=True, text=True)
    return r.returncode, r.stdout + r.stderr


def main():
    with tempfile.TemporaryDirectory() as tmp:
        root = pathlib.Path(tmp)
        (root / "tests").mkdir()
        shutil.copy(ROOT / "tests" / "run", root / "tests" / "run")
        good = program(root, "good.sh", "echo '3 passed, 0 failed'\n")
        once = program(root, "once.sh", "[ -e seen ] && { echo better; exit 0; }\n"
                                        "touch seen; echo worse; exit 1\n")
        twice = program(root, "twice.sh", "echo bad; echo '2 passed, 1 failed'; exit 1\n")

        status, out = run(root, good, once)
        last = out.splitlines()[-1]
        check("unsteady is no failure", status == 0 and last == "4 passed, 0 failed", out)
        check("unsteady is told", "UNSTEADY, 1 in all: once.sh" in out, out)
        behind = out[out.rindex("UNSTEADY once.sh"):]
        check("both outputs are shown", "worse" in behind and "better" in behind, out)
        check("nothing is called failed", "\nFAIL" not in out, out)

        for name, group in (("old.sh", ""), ("new.sh", "tests: ")):
            program(root, name, f"""cat <<'END'
[==========] {group}Running 3 test(s).
[ RUN      ] one
[       OK ] one
[ RUN      ] two
[  FAILED  ] two
[ RUN      ] three
[  SKIPPED ] three
[==========] {group}3 test(s) run.
[  PASSED  ] 1 test(s).
[  SKIPPED ] {group}1 test(s), listed below:
[  SKIPPED ] three

 1 SKIPPED TEST(S)
[  FAILED  ] {group}1 test(s), listed below:
[  FAILED  ] two

 1 FAILED TEST(S)
END
exit 1
""")
            status, out = run(root, name)
            check("counts of cmocka", out.splitlines()[-1] == "1 passed, 1 failed, 1 skipped", out)

        status, out = run(root, good, twice)
        check("twice is a failure", status == 1 and out.splitlines()[-1] == "5 passed, 1 failed", out)
        check("it is named", "\nFAIL twice.sh" in out and "UNSTEADY" not in out, out)

        status, out = run(root, good)
        check("all good", status == 0 and out.splitlines()[-1] == "3 passed, 0 failed", out)
    print(f"{passed} passed, {failed} failed")
    return failed > 0


sys.exit(main())
