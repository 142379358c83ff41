#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The data directory is the server's, and what others put there is not. Catches: a folder of somebody
else's that becomes a data directory, or loses a file; a file without a row that is removed; a link that
is followed; a store that is lost, and begun anew over what it knew, or not mended from its backup and
the notes beside its files; a deleted file that returns so."""
import os
import pathlib
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
from serving import BIN, SLOW, Cases, Tandem, log_text, make_model, scratch  # noqa: E402

BOUNDARY = "x-boundary-x"
ROWS = b'{"prompt": "a b c", "completion": "d e f"}\n' * 12


def form(data):
    part = f"--{BOUNDARY}\r\nContent-Disposition: form-data; name="
    return (f'{part}"purpose"\r\n\r\nfine-tune\r\n{part}"file"; filename="rows.jsonl"\r\n\r\n'.encode()
            + data + f"\r\n--{BOUNDARY}--\r\n".encode())


def upload(server, data):
    r = server.ask("POST", "/v1/files", form(data),
                   **{"Content-Type": f"multipart/form-data; boundary={BOUNDARY}"})
    assert r.status == 200, r
    return r.json["id"]


def tree(path):
    return {str(p.relative_to(path)): p.read_bytes() if p.is_file() else None for p in path.rglob("*")}


class World:
    def __init__(self, tmp):
        self.model = make_model(tmp / "tiny", "--vocab", 300)
        self.data = tmp / "data"

    def serve(self, data=None):
        return Tandem(self.model, "--data-dir", data or self.data)

    def refused(self, *words, data=None):
        p = subprocess.run([BIN, "serve", self.model, "--port", "0", "--data-dir", data or self.data],
                           capture_output=True, text=True, check=False, timeout=300)
        said = p.stdout + p.stderr
        assert p.returncode not in (0, -9) and all(w in said for w in words), said[-2000:]


def foreign(w, tmp):
    home = tmp / "home"
    (home / "files").mkdir(parents=True)
    (home / "files/thesis.txt").write_bytes(b"years")
    before = tree(home)
    w.refused("is not empty, and not a data directory", "'files'", "--repair", data=home)
    assert tree(home) == before
    (tmp / "odd").mkdir()
    (tmp / "odd/notes.tmp-012345").write_bytes(b"mine")
    w.refused("is not empty, and not a data directory", "'notes.tmp-012345'", data=tmp / "odd")


def orphans(w):
    with w.serve() as s:
        file = upload(s, ROWS)
    os.makedirs(w.data / "files/folder")
    (w.data / "files/folder/deep.txt").write_bytes(b"mine")
    (w.data / "files/notes.txt").write_bytes(b"mine")
    (w.data / "files/notes.tmp-012345").write_bytes(b"mine")
    (w.data / "precious").write_bytes(b"mine")
    os.symlink("../precious", w.data / "files/file-abcdefghijklmnopqrstuvwx")
    with w.serve() as s:
        assert s.get(f"/v1/files/{file}/content").body == ROWS
        log = log_text(s.log)
    lost = tree(w.data / "lost+found")
    assert lost["folder/deep.txt"] == lost["notes.txt"] == lost["notes.tmp-012345"] == b"mine", lost
    assert os.path.islink(w.data / "lost+found/file-abcdefghijklmnopqrstuvwx"), lost
    assert (w.data / "precious").read_bytes() == b"mine"
    lines = [line for line in log.splitlines() if "set aside in lost+found" in line]
    assert len(lines) == 4 and all(" warn " in line for line in lines), lines
    return file


def links(w, file):
    path, away = w.data / "files" / file, w.data / "away"
    path.rename(away)
    path.symlink_to(away)
    with w.serve() as s:  # a link in the place of a file
        r = s.get(f"/v1/files/{file}/content")
        assert r.status >= 400 and str(w.data) not in r.body.decode(), r
        assert s.ask("DELETE", f"/v1/files/{upload(s, ROWS)}").status == 200
    path.unlink()
    away.rename(path)
    (w.data / "files").rename(w.data / "elsewhere")
    (w.data / "files").symlink_to("elsewhere")
    before = tree(w.data / "elsewhere")
    w.refused("files/ is a link")
    assert tree(w.data / "elsewhere") == before
    (w.data / "files").unlink()
    (w.data / "elsewhere").rename(w.data / "files")


def lost_stores(w, file):
    store, saved = w.data / "store.db", w.data / "saved"
    store.rename(saved)
    w.refused("store.db is missing or empty beside", "tandem doctor")
    store.write_bytes(b"")
    w.refused("store.db is missing or empty beside")
    with w.serve(w.data.parent / "other"):
        pass
    store.write_bytes((w.data.parent / "other/store.db").read_bytes())
    w.refused("is of another directory")
    saved.rename(store)
    with w.serve() as s:
        assert s.get(f"/v1/files/{file}/content").body == ROWS


def doctor(w, *words):
    p = subprocess.run([BIN, "doctor", "--data-dir", w.data, *words], capture_output=True, text=True,
                       check=False, timeout=300)
    assert p.returncode in (0, 1), p
    return p.returncode, p.stdout + p.stderr


def job(s, file):
    r = s.post("/v1/fine_tuning/jobs", {"model": "tiny", "training_file": file,
                                        "hyperparameters": {"n_epochs": 2}})
    end = time.monotonic() + 120 * SLOW
    while r.json["status"] not in ("succeeded", "failed") and time.monotonic() < end:
        time.sleep(0.02)
        r = s.get(f"/v1/fine_tuning/jobs/{r.json['id']}")
    assert r.json["status"] == "succeeded", r
    return r.json


def answers(s, model):
    return s.post("/v1/completions", {"model": model, "prompt": "a b", "max_tokens": 8, "seed": 1,
                                      "temperature": 0}).json["choices"][0]["text"]


def nothing_but_files(w, file):
    """Store and backups are gone: what has a note beside it comes back."""
    with w.serve() as s:
        made = job(s, file)
        model, dropped = made["fine_tuned_model"], upload(s, ROWS + ROWS)
        before, listed = answers(s, model), s.get("/v1/files").json["data"]
        assert s.ask("DELETE", f"/v1/files/{dropped}").status == 200
    assert doctor(w)[0] == 0
    for p in [*w.data.glob("store.db*"), *(w.data / "backups").iterdir()]:
        p.unlink()
    (w.data / "files/stranger.txt").write_bytes(b"mine")
    w.refused("store.db is missing")
    code, said = doctor(w)
    assert code == 1 and "store.db is missing" in said and not (w.data / "store.db").exists(), said
    code, said = doctor(w, "--repair")
    assert code == 1 and "entered again by its note: files/" + file in said, said
    assert "without a row: files/stranger.txt, and no note" in said, said
    with w.serve() as s:
        assert answers(s, model) == before
        now = {f["id"]: f for f in s.get("/v1/files").json["data"]}
        assert now == {f["id"]: f for f in listed if f["id"] != dropped}, (now, listed)
        assert s.get(f"/v1/files/{file}/content").body == ROWS
        assert s.ask("DELETE", f"/v1/models/{model}").status == 200
    assert (w.data / "lost+found/stranger.txt").read_bytes() == b"mine"
    assert not list((w.data / "adapters").glob(made["id"])), "its folder"
    assert not list((w.data / "adapters").glob(made["id"] + ".json")), "its note"
    assert doctor(w)[0] == 0
    for p in (w.data / "backups").iterdir():  # they know the model that is deleted now
        p.unlink()


def backup_restored(w, file):
    with w.serve() as s:
        wait = time.monotonic() + 60 * SLOW  # made beside the first requests
        while not list((w.data / "backups").glob("store-*.db")):
            assert time.monotonic() < wait
            time.sleep(0.02)
        later = upload(s, ROWS * 3)
    (w.data / "store.db").write_bytes(b"no database, but more than nothing")
    w.refused("damaged, or no database", "--repair")
    code, said = doctor(w, "--repair")
    assert code == 0 and "restored from backups/store-" in said, said
    assert "entered again by its note: files/" + later in said, said
    with w.serve() as s:
        assert s.get(f"/v1/files/{later}/content").body == ROWS * 3
        assert s.get(f"/v1/files/{file}/content").body == ROWS


def found_out(w, file):
    """Rows without files, and files that are not as they were written."""
    with w.serve() as s:
        gone, altered = upload(s, ROWS), upload(s, ROWS)
    (w.data / "files" / gone).unlink()
    path = w.data / "files" / altered
    path.write_bytes(path.read_bytes().replace(b"d e f", b"d e g", 1))
    code, said = doctor(w)
    assert code == 1 and f"row without a file: {gone}" in said, said
    assert f"file altered: files/{altered}" in said and file not in said, said
    with w.serve() as s:
        assert doctor(w)[0] == 1 and "locked by process" in doctor(w)[1]
        assert s.ask("DELETE", f"/v1/files/{gone}").status == 200
        assert s.ask("DELETE", f"/v1/files/{altered}").status == 200


def adopted(w, tmp):
    home = tmp / "home"
    before = tree(home)
    p = subprocess.run([BIN, "doctor", "--data-dir", home, "--repair"], capture_output=True, text=True,
                       check=False)
    assert "is a data directory from here on" in p.stdout, p
    assert before.items() <= tree(home).items()
    with w.serve(home) as s:
        upload(s, ROWS)
    assert (home / "lost+found/thesis.txt").read_bytes() == b"years"


def main():
    cases = Cases()
    with scratch() as tmp:
        w, found = World(tmp), []
        cases.run("foreign folder", lambda: foreign(w, tmp))
        cases.run("orphans", lambda: found.append(orphans(w)))
        if found:
            cases.run("links", lambda: links(w, found[0]))
            cases.run("lost stores", lambda: lost_stores(w, found[0]))
            cases.run("nothing but files", lambda: nothing_but_files(w, found[0]))
            cases.run("backup restored", lambda: backup_restored(w, found[0]))
            cases.run("found out", lambda: found_out(w, found[0]))
            cases.run("adopted", lambda: adopted(w, tmp))
    return cases.end()


if __name__ == "__main__":
    sys.exit(main())
