#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The daily copy of a large store, beside who asks and beside the server's end.

Faults they can catch: requests that wait for the end of a copy; a server that ends behind one, or leaves
a half of it; a half that a kill left, and that stays. Standard library only."""
import contextlib
import pathlib
import sqlite3
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
from serving import Cases, Tandem, make_model, scratch  # noqa: E402

MIB, TRIES = 150, 5  # what is looked for may be over before it is seen: then it is tried again


def grown(data):
    """Rows of answers that are kept, a mebibyte each."""
    with contextlib.closing(sqlite3.connect(data / "store.db")) as db, db:
        now = int(time.time())
        db.executemany("INSERT INTO response (kind, id, owner, model, input, body, bytes, created, expires) "
                       "VALUES (0, ?, 'nobody', 'm', '[]', ?, 0, ?, ?)",
                       ((f"resp_{i:024}", "x" * (1 << 20), now, now + 86400) for i in range(MIB)))


def copies(data):
    return sorted(p.name for p in (data / "backups").iterdir())


def is_whole(data):
    return any(name.endswith(".db") for name in copies(data))


def anew(data):
    for name in copies(data):
        (data / "backups" / name).unlink()


def answers_come_before_its_end(model, data):
    for n in range(TRIES):
        anew(data)
        with Tandem(model, "--data-dir", data, "--no-access-log") as s:
            assert s.get("/v1/files").status == 200
            if not is_whole(data):
                return f"at try {n + 1}"
    raise AssertionError("who asks waits for the copy")


def an_end_gives_it_up(model, data):
    for n in range(TRIES):
        anew(data)
        with Tandem(model, "--data-dir", data, "--no-access-log") as s:
            while not copies(data):
                time.sleep(0.001)
            assert s.stop() == 0, s.output()
            assert "no backup of today" not in s.said(), s.output()
        if not is_whole(data):
            assert not copies(data), copies(data)
            return f"at try {n + 1}"
    raise AssertionError("the end waits for the copy")


def it_comes(model, data):
    """Behind a kill amid one."""
    anew(data)
    with Tandem(model, "--data-dir", data, "--no-access-log") as s:
        while not copies(data):
            time.sleep(0.001)
        s.process.kill()
        s.process.wait()
        s.process.returncode = 0  # it was to end so
    for name in copies(data):
        if name.endswith(".db"):  # it came before the kill did: as if it had not
            (data / "backups" / name).rename(data / "backups" / f"{name}.tmp-000000")
    with Tandem(model, "--data-dir", data, "--no-access-log"):
        while not is_whole(data):
            time.sleep(0.01)
    (name,) = copies(data)
    with contextlib.closing(sqlite3.connect(data / "backups" / name)) as db:
        assert db.execute("SELECT count(*) FROM response WHERE owner = 'nobody'").fetchone() == (MIB,)


def main():
    cases = Cases()
    with scratch() as tmp:
        model, data = make_model(tmp / "tiny"), tmp / "data"
        with Tandem(model, "--data-dir", data):
            pass
        grown(data)
        for case in (answers_come_before_its_end, an_end_gives_it_up, it_comes):
            cases.run(case.__name__, lambda case=case: case(model, data))
    return cases.end()


if __name__ == "__main__":
    sys.exit(main())
