#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""/v1/uploads against a running server: parts that come beside each other make the file whose order was
asked for; sizes, sums and ids that do not fit are said; what a key's uploads come to is held to its quota
from their begin; a part that was acknowledged is there behind kill -9, and nothing else is; what ended, or
was never acknowledged, leaves no byte but in lost+found/. TEST_SEED=N draws the same moments of kills again. Random weights;
standard library only."""
import concurrent.futures
import contextlib
import hashlib
import http.client
import os
import pathlib
import random
import shutil
import sqlite3
import struct
import sys
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "lib"))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from serving import BUILD, SLOW, Cases, Tandem, make_model, scratch  # noqa: E402
from test_routes import Description  # noqa: E402

# What is tested here of server/http/routes.def: parts_add part_add parts_complete parts_cancel. Of
# schema.def: UploadRequest, UploadPartRequest, UploadOrder, Upload, UploadPart.

OPTIONS = ("--name", "tiny", "--no-access-log")
KEYS = ("ann training ann-key-ann-key bytes=100000\nbob training bob-key-bob-key\n"
        "root all root-key-root-key\n")
ANN = {"Authorization": "Bearer ann-key-ann-key"}
BOB = {"Authorization": "Bearer bob-key-bob-key"}
ROOT_KEY = {"Authorization": "Bearer root-key-root-key"}
SEED = int(os.environ.get("TEST_SEED") or random.SystemRandom().randrange(1 << 32))


def form(data, name="data", filename='; filename="blob"'):
    return (f"--x\r\nContent-Disposition: form-data; name=\"{name}\"{filename}\r\n\r\n".encode() + data
            + b"\r\n--x--\r\n")


class Client:
    def __init__(self, server, key=None):
        self.server, self.key = server, key or BOB

    def begin(self, size, **more):
        return self.server.post("/v1/uploads", {"filename": "rows.jsonl", "purpose": "fine-tune", "bytes": size,
                                                "mime_type": "text/jsonl", **more}, **self.key)

    def part(self, upload, data, **how):
        return self.server.ask("POST", f"/v1/uploads/{upload}/parts", form(data, **how),
                               **{"Content-Type": "multipart/form-data; boundary=x", **self.key})

    def complete(self, upload, ids, **more):
        return self.server.post(f"/v1/uploads/{upload}/complete", {"part_ids": ids, **more}, **self.key)

    def cancel(self, upload):
        return self.server.ask("POST", f"/v1/uploads/{upload}/cancel", b"", **self.key)

    def made(self, *data, **more):
        """An upload with these parts: its id and theirs."""
        up = good(self.begin(sum(map(len, data)), **more))["id"]
        return up, [good(self.part(up, x))["id"] for x in data]

    def content(self, file):
        r = self.server.get(f"/v1/files/{file}/content", **self.key)
        assert r.status == 200, r
        return r.body


def good(r):
    assert r.status == 200, r
    return r.json


def refused(r, param, code, status=400):
    assert (r.status, r.error["param"], r.error["code"]) == (status, param, code), r


def lies(data):
    """What is in the folders of parts and of files."""
    return [sorted(x.name for x in (data / name).iterdir()) for name in ("parts", "files")]


def bytes_of(n, seed=1):
    return random.Random(seed).randbytes(n)


# ---- one that goes well


def whole(s, data):
    """Catches: parts in the order of their coming; a part that is lost among those beside it; a sum that is
    computed of something else; bytes that stay."""
    c = Client(s)
    pieces = [bytes_of(n, n) for n in (300000, 1, 70001, 64, 63, 65)]
    up = good(c.begin(sum(map(len, pieces)), expires_after={"anchor": "created_at", "seconds": 3600}))
    assert up["status"] == "pending" and up["file"] is None and up["expires_at"] == up["created_at"] + 3600, up
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        parts = list(pool.map(lambda x: good(c.part(up["id"], x)), reversed(pieces)))[::-1]
    assert {p["upload_id"] for p in parts} == {up["id"]}, parts
    text = b"".join(pieces)
    done = good(c.complete(up["id"], [p["id"] for p in parts], md5=hashlib.md5(text).hexdigest().upper()))
    file = done["file"]
    assert done["status"] == "completed" and file["bytes"] == len(text) and file["purpose"] == "fine-tune", done
    assert file["filename"] == "rows.jsonl" and file["expires_at"] == file["created_at"] + 3600, done
    assert c.content(file["id"]) == text and lies(data)[0] == []
    assert good(s.get(f"/v1/files/{file['id']}", **BOB)) == file
    d = Description(good(s.get("/openapi.json", **ROOT_KEY)))
    for name, value in (("Upload", up), ("Upload", done), ("UploadPart", parts[0])):
        d.check(value, d.schemas[name])
    # an answer that was lost: the same is told again, something else is not done
    assert good(c.complete(up["id"], [p["id"] for p in parts], md5=hashlib.md5(text).hexdigest().upper())) == done
    refused(c.complete(up["id"], [p["id"] for p in parts[::-1]]), "upload_id", "invalid_state")
    refused(c.part(up["id"], b"x"), "upload_id", "invalid_state")
    refused(c.cancel(up["id"]), "upload_id", "invalid_state")
    other, ids = c.made(b"ab", b"cd")
    assert c.content(good(c.complete(other, ids[::-1]))["file"]["id"]) == b"cdab"
    plain, _ = c.made(b"a")
    assert good(c.part(plain, b"b", filename=""))["object"] == "upload.part", "curl's -F data=..."
    good(c.cancel(plain))


def mismatched(s, data):
    """Catches: a file that is not what its client said; another upload's part in it."""
    c = Client(s)
    up, ids = c.made(b"abc", b"def")
    refused(c.complete(up, ids[:1]), "part_ids", "size_mismatch")
    refused(c.complete(up, [ids[0], ids[0]]), "part_ids", "invalid_value")
    refused(c.complete(up, [*ids, "part_none"]), "part_ids", "part_not_found")
    _, strange = c.made(b"def")
    refused(c.complete(up, [ids[0], *strange]), "part_ids", "part_not_found")
    refused(c.complete(up, ids, md5="0" * 32), "md5", "checksum_mismatch")
    refused(c.complete(up, ids, md5="0" * 31), "md5", "invalid_value")
    refused(c.complete(up, []), "part_ids", "invalid_value")
    refused(s.post(f"/v1/uploads/{up}/complete", {}, **BOB), "part_ids", "missing_required_parameter")
    assert c.content(good(c.complete(up, ids))["file"]["id"]) == b"abcdef", "it was pending all the time"
    twice = good(c.begin(4))["id"]
    ids = [good(c.part(twice, x))["id"] for x in (b"abcd", b"abcd")]
    refused(c.part(twice, b"e"), "data", "upload_too_large")
    assert good(c.complete(twice, ids[1:]))["file"]["bytes"] == 4
    for fields, param, code in (
            ({"bytes": 0}, "bytes", "invalid_value"), ({"bytes": (512 << 20) + 1}, "bytes", "file_too_large"),
            ({"bytes": "1"}, "bytes", "invalid_type"), ({"purpose": "x"}, "purpose", "invalid_value"),
            ({"filename": ""}, "filename", "invalid_value"), ({"filename": "a\0"}, "filename", "invalid_value"),
            ({"mime_type": None}, "mime_type", "invalid_type"), ({"mime": "x"}, "mime", "invalid_value"),
            ({"expires_after": {"anchor": "created_at", "seconds": 1}}, "expires_after.seconds", "invalid_value")):
        refused(c.begin(**{"size": 1, **{("size" if k == "bytes" else k): v for k, v in fields.items()}}),
                param, code)
    good(c.cancel(good(c.begin(1, filename="a", mime_type="b"))["id"]))
    up = good(c.begin(9))["id"]
    refused(c.part(up, b""), "data", "invalid_value")
    refused(c.part(up, b"a", name="file"), "file", "unknown_parameter")
    good(c.cancel(up))
    assert good(c.cancel(up))["status"] == "cancelled", "twice is fine"
    refused(c.part(up, b"a"), "upload_id", "invalid_state")
    refused(c.complete(up, ["part_x"]), "upload_id", "invalid_state")


def altered(s, data):
    """Catches: a byte that changed on the disk and is served as the client's."""
    c = Client(s)
    up, ids = c.made(b"abc", b"def")
    (data / "parts" / ids[1]).write_bytes(b"dEf")
    refused(c.complete(up, ids), "part_ids", "file_altered", 500)
    good(c.cancel(up))
    assert lies(data)[0] == [p for p in lies(data)[0] if p not in ids]


def tenants(s, data):
    """Catches: an upload that another key adds to, completes or ends; a quota that is looked at at the end
    only, or for files alone; parts that are counted for ever."""
    c, other = Client(s, ANN), Client(s, BOB)
    up, ids = c.made(b"abc")
    for r in (other.part(up, b"x"), other.complete(up, ids), other.cancel(up), other.part("upload_none", b"x")):
        refused(r, "id", "not_found", 404)
    refused(c.begin(99998), "bytes", "files_quota_exceeded")
    big = good(c.begin(99997))["id"]
    refused(c.begin(1), "bytes", "files_quota_exceeded")
    good(c.part(big, bytes_of(99997)))
    refused(c.part(big, b"x"), "bytes", "files_quota_exceeded")
    head = b"--x\r\nContent-Disposition: form-data; name=\"purpose\"\r\n\r\nbatch\r\n"
    r = s.ask("POST", "/v1/files", head + form(b"x", "file"),
              **{"Content-Type": "multipart/form-data; boundary=x", **ANN})
    refused(r, "file", "files_quota_exceeded")
    good(c.cancel(big))
    file = good(c.complete(up, ids))["file"]["id"]
    good(c.cancel(good(c.begin(99997))["id"]))
    refused(c.begin(99998), "bytes", "files_quota_exceeded")
    assert s.ask("DELETE", f"/v1/files/{file}", **ANN).status == 200
    good(c.cancel(good(c.begin(100000))["id"]))
    refused(c.part(up, bytes_of(100001)), "file", "files_quota_exceeded")
    assert lies(data)[0] == [p for p in lies(data)[0] if p not in ids]


# ---- ends that nobody asked for


def change(data, statement, *values):
    with contextlib.closing(sqlite3.connect(data / "store.db")) as db:
        db.execute(statement, values)
        db.commit()


def restarted(model, tmp):
    """Catches: something of an upload that lives in the server's memory alone, or is another key's behind a start."""
    data, keys, clients = tmp / "data", tmp / "keys", {}
    keys.write_text(KEYS)

    def life(act):
        with Tandem(model, *OPTIONS, "--api-key-file", keys, "--data-dir", data) as s:
            return {name: act(Client(s, key), name) for name, key in (("ann", ANN), ("bob", BOB))}
    ups = life(lambda c, _: good(c.begin(6))["id"])
    other = {"ann": "bob", "bob": "ann"}
    ids = [life(lambda c, name, x=x: good(c.part(ups[name], name.encode()[:1] + x))["id"]) for x in (b"ab", b"cd")]
    life(lambda c, name: refused(c.complete(ups[other[name]], [i[other[name]] for i in ids]), "id", "not_found", 404))
    done = life(lambda c, name: good(c.complete(ups[name], [i[name] for i in ids[::-1]])))
    again = life(lambda c, name: (good(c.complete(ups[name], [i[name] for i in ids[::-1]])),
                                  c.content(done[name]["file"]["id"])))
    assert {n: a[0] for n, a in again.items()} == done, (again, done)
    assert {n: a[1] for n, a in again.items()} == {"ann": b"acdaab", "bob": b"bcdbab"}, again
    assert lies(data)[0] == [] and not (data / "lost+found").exists()


def behind_its_end(model, tmp):
    """Catches: parts that stay, or that are taken for lost ones, where a kill came between the end of their upload
    and their own."""
    data = tmp / "data"
    with Tandem(model, *OPTIONS, "--data-dir", data) as s:
        made = [Client(s, {"x": "y"}).made(b"abc") for _ in range(2)]
    for state, (up, _) in enumerate(made, 1):
        change(data, "UPDATE upload SET state = ? WHERE id = ?", state, up)
    with Tandem(model, *OPTIONS, "--data-dir", data):
        assert lies(data) == [[], []], lies(data)
    change(data, "UPDATE upload SET expires = 1")
    with Tandem(model, *OPTIONS, "--data-dir", data):
        pass
    with contextlib.closing(sqlite3.connect(data / "store.db")) as db:
        left = db.execute("SELECT (SELECT count(*) FROM upload), (SELECT count(*) FROM upload_part)").fetchone()
    assert left == (0, 0) and not (data / "lost+found").exists(), left


def restored(model, tmp):
    """Catches: a part, or a file, that was acknowledged behind a backup and is removed where that is restored."""
    data, backup = tmp / "data", tmp / "backup.db"
    with Tandem(model, *OPTIONS, "--data-dir", data) as s:
        c = Client(s, {"x": "y"})
        (up, old), (other, ids) = c.made(b"abc"), c.made(b"whole")
        whole_up = good(c.begin(7))["id"]
    shutil.copy(data / "store.db", backup)
    with Tandem(model, *OPTIONS, "--data-dir", data) as s:
        c = Client(s, {"x": "y"})
        new = good(c.part(whole_up, b"behind."))["id"]
        file = good(c.complete(other, ids))["file"]["id"]
    shutil.copy(backup, data / "store.db")
    with Tandem(model, *OPTIONS, "--data-dir", data) as s:
        c = Client(s, {"x": "y"})
        lost = data / "lost+found"
        assert (lost / new).read_bytes() == b"behind." and (lost / file).read_bytes() == b"whole", list(lost.iterdir())
        assert c.content(good(c.complete(up, old))["file"]["id"]) == b"abc"
        refused(c.complete(whole_up, [new]), "part_ids", "part_not_found")
        refused(c.complete(other, ids), "part_ids", "file_altered", 500)


def twice(model, tmp):
    """Catches: a completion that is sent again while the first one copies, and told that it came too late."""
    data = tmp / "data"
    with Tandem(model, *OPTIONS, "--data-dir", data) as s:
        c = Client(s, {"x": "y"})
        up, ids = c.made(bytes(64 << 20), bytes(1 << 20))  # in more than one turn
        with concurrent.futures.ThreadPoolExecutor(3) as pool:
            done = list(pool.map(good, pool.map(lambda _: c.complete(up, ids), range(3))))
        assert done == done[:1] * 3, done
        while lies(data) != [[], [done[0]["file"]["id"], done[0]["file"]["id"] + ".json"]]:
            time.sleep(0.01)  # what the others had copied goes behind their answers


def expires_meanwhile(model, tmp):
    """Catches: an upload that expires while it is put together, and is entered without its parts, or stays by halves."""
    data, ctl = tmp / "data", tmp / "luck"
    ctl.write_bytes(bytes(16))
    env = {"LD_PRELOAD": str(BUILD.resolve() / "tests/fake/preload/bad_luck.so"), "BAD_LUCK_CTL": str(ctl),
           "ASAN_OPTIONS": os.environ.get("ASAN_OPTIONS", "") + ":verify_asan_link_order=0"}
    with Tandem(model, *OPTIONS, "--data-dir", data, env=env) as s:
        c = Client(s, {"x": "y"})
        up, ids = c.made(*[bytes(64 << 20)] * 2, b"x")
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            asked = pool.submit(c.complete, up, ids)
            while not lies(data)[1] and not asked.done():
                time.sleep(0.001)
            with ctl.open("r+b") as f:  # the server has it in its memory: a file that is cut first would end it
                f.write(struct.pack("2q", 2 * 3600, 0))
            r = asked.result()
        if r.status == 200:  # it was done sooner
            assert lies(data)[0] == [] and r.json["file"]["bytes"] == (128 << 20) + 1
        else:
            refused(r, "upload_id", "upload_expired")
            while lies(data)[1]:  # what was copied goes behind the answer
                time.sleep(0.01)
    with Tandem(model, *OPTIONS, "--data-dir", data, env=env):
        end = time.monotonic() + 60 * SLOW
        while lies(data)[0]:
            assert time.monotonic() < end, lies(data)
            time.sleep(0.02)
    assert not (data / "lost+found").exists()
    return f"answered {r.status}"


def expires(model, tmp):
    """Catches: an upload that can be gone on with for ever; parts that outlive it."""
    data = tmp / "data"
    with Tandem(model, *OPTIONS, "--data-dir", data) as s:
        c = Client(s, {"x": "y"})
        (up, _), (late, ids) = c.made(b"abc"), c.made(b"def")
    change(data, "UPDATE upload SET expires = 1 WHERE id = ?", up)
    with Tandem(model, *OPTIONS, "--data-dir", data) as s:
        c = Client(s, {"x": "y"})
        end = time.monotonic() + 60 * SLOW
        while lies(data) != [ids, []]:
            assert time.monotonic() < end, lies(data)
            time.sleep(0.02)
        assert c.part(up, b"x").status == c.complete(up, ["x"]).status == 404
        good(c.complete(late, ids))
    assert not (data / "lost+found").exists()


def killed(model, tmp):
    """Catches: a part, or a file, that was acknowledged and is not there; bytes of what was not."""
    data, plan = tmp / "data", random.Random(SEED)
    kept, files, kills = {}, {}, 6  # upload: its parts that were acknowledged; file: its text
    for _ in range(kills):
        s = Tandem(model, *OPTIONS, "--data-dir", data)
        c = Client(s, {"x": "y"})
        timer = threading.Timer(plan.choice([0.02, 0.1, 0.3]), s.process.kill)
        timer.start()
        with contextlib.suppress(OSError, http.client.HTTPException):
            while True:
                texts = [plan.randbytes(plan.choice([1, 5000, 200000])) for _ in range(3)]
                up = good(c.begin(sum(map(len, texts))))["id"]
                kept[up] = []
                for text in texts:
                    kept[up].append((good(c.part(up, text))["id"], text))
                file = good(c.complete(up, [i for i, _ in kept[up]]))["file"]["id"]
                files[file] = b"".join(t for _, t in kept.pop(up))
        timer.join()
        s.process.wait()
    with Tandem(model, *OPTIONS, "--data-dir", data) as s:
        c = Client(s, {"x": "y"})
        n = 0
        for up, parts in kept.items():
            if len(parts) == 3:  # its completion was cut: done, or still to be done
                r = good(c.complete(up, [i for i, _ in parts]))
                files[r["file"]["id"]] = b"".join(t for _, t in parts)
            else:
                rest = sorted(set(lies(data)[0]) & {i for i, _ in parts})
                assert rest == sorted(i for i, _ in parts), "an acknowledged part is gone"
                good(c.cancel(up))
                n += 1
        there = {f["id"] for f in good(s.get("/v1/files"))["data"]}
        assert set(files) <= there, set(files) - there
        for file, text in files.items():
            assert c.content(file) == text, file
        # a part whose answer never came may be there; nothing else is
        parts, names = lies(data)
        assert {x.removesuffix(".json") for x in names} == there, (names, there)
        assert len(parts) <= kills, parts
    lost = sorted(x.name for x in data.glob("lost+found/*") if not x.name.endswith(".json"))
    assert len(lost) <= kills and not set(lost) & {*files, *(i for p in kept.values() for i, _ in p)}, lost
    return f"seed {SEED}, {len(files)} files, {n} uploads cut in {kills} kills"


def main():
    cases = Cases()
    with scratch() as tmp:
        tmp = pathlib.Path(tmp)
        model = make_model(tmp / "model")
        keys = tmp / "keys"
        keys.write_text(KEYS)
        with Tandem(model, *OPTIONS, "--api-key-file", keys, "--data-dir", tmp / "served") as s:
            for case in (whole, mismatched, altered, tenants):
                cases.run(case.__name__, lambda case=case: case(s, tmp / "served"))
        for case in (restarted, behind_its_end, restored, twice, expires, expires_meanwhile, killed):
            (tmp / case.__name__).mkdir()
            cases.run(case.__name__, lambda case=case: case(model, tmp / case.__name__))
    return cases.end()


if __name__ == "__main__":
    sys.exit(main())
