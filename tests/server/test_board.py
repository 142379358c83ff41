#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Event files of jobs for TensorBoard (--tensorboard), read back by their formats: TFRecord, and the
message Event of protobuf.

Faults they can catch: a length or a sum that no reader takes; a number that is another than the event's, or
missing; a job that goes on behind a kill and appends to a record that was cut off; a folder that cannot be
written and fails a job, or a start that says nothing of it.

Standard library only. `test_board.py FOLDER` prints what the files below it hold."""
import pathlib
import signal
import struct
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "lib"))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from serving import BIN, SLOW, Cases, Tandem, scratch  # noqa: E402
from test_tuning import JOBS, KEYS, MODEL, Client, rows  # noqa: E402

NOT_TOLD = {"step", "total_steps", "estimated_finish"}
SHAPE = {"n_epochs": 4, "batch_size": 4}


def crc(data):
    """CRC-32C, as TFRecord masks it."""
    c = 0xFFFFFFFF
    for byte in data:
        c ^= byte
        for _ in range(8):
            c = c >> 1 ^ (0x82F63B78 if c & 1 else 0)
    c ^= 0xFFFFFFFF
    return ((c >> 15 | c << 17 & 0xFFFFFFFF) + 0xA282EAD8) & 0xFFFFFFFF


def records(data):
    while data:
        n, = struct.unpack("<Q", data[:8])
        body = data[12:12 + n]
        assert struct.unpack("<I", data[8:12])[0] == crc(data[:8])
        assert struct.unpack("<I", data[12 + n:16 + n])[0] == crc(body)
        yield body
        data = data[16 + n:]


def varint(data):
    value = shift = 0
    while True:
        byte, data = data[0], data[1:]
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            return value, data


def fields(data):
    """(number, value) of a message: an int, a float, or bytes."""
    while data:
        key, data = varint(data)
        if key & 7 == 0:
            value, data = varint(data)
        elif key & 7 == 1:
            value, data = struct.unpack("<d", data[:8])[0], data[8:]
        elif key & 7 == 5:
            value, data = struct.unpack("<f", data[:4])[0], data[4:]
        else:
            assert key & 7 == 2, key
            n, data = varint(data)
            value, data = data[:n], data[n:]
        yield key >> 3, value


def read(path):
    """{(step, tag): value} of a file."""
    first, *events = map(dict, map(fields, records(path.read_bytes())))
    assert first[3] == b"brain.Event:2", first
    found = {}
    for event in events:
        assert event[1] >= first[1], event
        for _, value in fields(event[5]):
            v = dict(fields(value))
            found[event[2], v[1].decode()] = v[2]
    return found


def serve(tmp, *more):
    (tmp / "keys").write_text(KEYS)
    (tmp / "keys").chmod(0o600)
    return Tandem(MODEL, "--name", "tiny", "--api-key-file", tmp / "keys", "--data-dir", tmp / "data",
                  "--no-access-log", "--kv-memory", "8M", "--max-lora-rank", "16", *more)


def told(c, job):
    """The same of the job's events."""
    found = {}
    for event in c.get(f"{JOBS}/{job}/events?limit=100").json["data"]:
        data = event["data"] or {}
        if "step" in data:
            found.update({(data["step"], k): v for k, v in data.items()
                          if k not in NOT_TOLD and isinstance(v, (int, float))})
    return found


def same(got, want):
    """Events have six digits, files have floats of 32 bits."""
    assert set(got) >= set(want), set(want) - set(got)
    for key, value in want.items():
        assert abs(got[key] - value) <= 1e-6 * max(1, abs(value)), (key, got[key], value)


def whole(tmp):
    with serve(tmp, "--tensorboard", tmp / "board") as s:
        c = Client(s)
        job = c.job(c.file(rows(16)), validation_file=c.file(rows(10)), hyperparameters=SHAPE)
        c.done(job)
        file, = (tmp / "board" / job).iterdir()
        got = read(file)
        same(got, told(c, job))
        assert (16, "train_loss") in got and (16, "full_valid_loss") in got, got


def killed(tmp):
    """The files of both lives have every step."""
    with serve(tmp, "--tensorboard", tmp / "board") as s:
        c = Client(s)
        job = c.job(c.file(rows(100)), hyperparameters={**SHAPE, "n_epochs": 40, "batch_size": 2})
        c.wait_step(job, 5)
        s.stop(signal.SIGKILL)
        s.process.returncode = 0
    first, = (tmp / "board" / job).iterdir()
    with first.open("ab") as f:
        f.write(b"\x07\0")  # as a kill in the middle of a record leaves it
    cut = first.read_bytes()
    with serve(tmp, "--tensorboard", tmp / "board") as s:
        c = Client(s)
        c.wait_step(job, 50)
        c.ask("POST", f"{JOBS}/{job}/cancel")
        c.wait(job)
        assert first.read_bytes() == cut
        first.write_bytes(cut[:-2])
        got = {}
        for file in sorted((tmp / "board" / job).iterdir()):
            got.update(read(file))
        same(got, told(c, job))
        last = max(step for step, _ in got)
        assert {step for step, name in got if name == "train_loss"} == set(range(1, last + 1)), got


def in_the_way(tmp):
    """A folder that was made and is none any more fails no job, and the log says it."""
    with serve(tmp, "--tensorboard", tmp / "board") as s:
        (tmp / "board").rmdir()
        (tmp / "board").write_text("a file")
        c = Client(s)
        c.done(c.job(c.file(rows(16)), hyperparameters=SHAPE))
        assert s.said().count("event file cannot be written") == 1, s.output()


def refused(tmp):
    (tmp / "file").write_text("")
    for words in (("--tensorboard", tmp / "file/board", "--data-dir", tmp / "data"),
                  ("--tensorboard", tmp / "board")):
        p = subprocess.run([BIN, "serve", MODEL, "--port", "0", *map(str, words)], capture_output=True,
                           text=True, timeout=60 * SLOW, check=False)
        assert p.returncode and "--tensorboard" in p.stderr, (words, p)


def main():
    cases = Cases()
    if len(sys.argv) > 1:
        for file in sorted(pathlib.Path(sys.argv[1]).rglob("*tfevents*")):
            for (step, name), value in read(file).items():
                print(file.parent.name, step, name, value)
        return 0
    for name, case in (("every number is there", whole), ("over a kill", killed),
                       ("a folder that goes", in_the_way), ("what is refused", refused)):
        with scratch() as tmp:
            cases.run(name, lambda case=case, tmp=tmp: case(tmp))
    return cases.end()


if __name__ == "__main__":
    sys.exit(main())
