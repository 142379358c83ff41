#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`tandem pull`, and a command that is given a model of the hub, against a hub that behaves, cuts, lies,
redirects, refuses and is slow (tests/lib/hub.py).

Faults they can catch: a file in the cache that is not what its name says; one fetched twice, or not gone
on with; the token told to another host; a path that leaves the cache; files that nobody needs; a fault
without its reason; an answer that is trusted.

Standard library only."""
import json
import mmap
import os
import pathlib
import signal
import struct
import subprocess
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent.parent / "lib"))
from hub import COMMIT, Hub  # noqa: E402
from serving import BIN, BUILD, Cases, Tandem, make_model, scratch  # noqa: E402

BIG = bytes(range(256)) * 1600  # 400 KiB
FILES = {"config.json": b'{"model_type": "x"}', "tokenizer.json": b"{}", "README.md": b"# x", "model.safetensors": BIG,
         "pytorch_model.bin": b"no", "onnx/model.onnx": b"no", "1_Pooling/config.json": b"{} ", "vocab.txt": b"a"}
NEEDED = {"config.json", "tokenizer.json", "model.safetensors", "1_Pooling/config.json"}


def start(hub, home, *words, **env):
    return subprocess.Popen([BIN, *words], env={**os.environ, **hub.env(home), **env}, stdin=subprocess.DEVNULL,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def run(hub, home, *words, **env):
    """Status, stdout, stderr."""
    p = start(hub, home, *words, **env)
    out, err = p.communicate(timeout=120)
    assert "hf_secret" not in out + err, err
    return p.returncode, out, err


def good(hub, home, spec="org/name", **env):
    status, out, err = run(hub, home, "pull", spec, **env)
    assert status == 0, err
    return pathlib.Path(out.strip())


def bad(hub, home, *words, spec="org/name", **env):
    status, out, err = run(hub, home, "pull", spec, **env)
    assert status != 0 and not out, (out, err)
    for w in words:
        assert w in err, (w, err)
    assert err.strip().count("\n") == 0, err
    check_cache(hub, home)
    return err


def repo_of(home):
    return home / "hub" / "models--org--name"


def check_cache(hub, home):
    """What has a blob's name has its content."""
    hashes = {hub.hash(n): data for n, data in hub.files.items()}
    blobs = repo_of(home) / "blobs"
    for blob in blobs.iterdir() if blobs.exists() else ():
        if not blob.name.endswith(".incomplete"):
            assert hashes[blob.name] == blob.read_bytes(), blob


def check_whole(hub, home, names=NEEDED):
    snapshot = repo_of(home) / "snapshots" / COMMIT
    there = {str(f.relative_to(snapshot)) for f in snapshot.rglob("*") if not f.is_dir()}
    assert there == set(names), there
    for n in names:
        link = os.readlink(snapshot / n)
        assert link == "../" * (2 + n.count("/")) + f"blobs/{hub.hash(n)}", link
        assert (snapshot / n).read_bytes() == hub.files[n], n
    assert not list((repo_of(home) / "blobs").glob("*.incomplete"))
    check_cache(hub, home)


def large(**more):
    return Hub({**FILES, **more}, large=["model.safetensors"])


def whole(tmp):
    with large() as hub:
        assert good(hub, tmp) == repo_of(tmp) / "snapshots" / COMMIT
        check_whole(hub, tmp)
        assert (repo_of(tmp) / "refs" / "main").read_text() == COMMIT
        sent = hub.sent
        good(hub, tmp)
        assert hub.sent == sent  # nothing comes twice
        hub.rev.append("refs/pr/1")
        good(hub, tmp, "org/name@refs/pr/1")
        assert (repo_of(tmp) / "refs" / "refs" / "pr" / "1").read_text() == COMMIT and hub.sent == sent
        for _, path, headers in hub.hub.seen:
            assert headers.get("Authorization") == "Bearer hf_secret", path
        assert hub.storage.seen and not any("Authorization" in h for _, _, h in hub.storage.seen)


def one_file(tmp):
    with large() as hub:
        path = good(hub, tmp, "org/name:onnx/model.onnx")
        assert path.read_bytes() == b"no" and path == repo_of(tmp) / "snapshots" / COMMIT / "onnx/model.onnx"
        bad(hub, tmp / "b", "no file has that name", spec="org/name:other.txt")


def cut(tmp):
    with large() as hub:
        hub.cut = 100000
        good(hub, tmp)
        check_whole(hub, tmp)
        ranges = [h["Range"] for m, _, h in hub.storage.seen if "Range" in h]
        assert ranges == [f"bytes={n}-" for n in range(100000, len(BIG), 100000)], ranges
        assert hub.sent < len(BIG) + 1000
    with large() as hub:  # no ranges, and one cut: from the beginning
        hub.cut, hub.once, hub.no_range = 100000, True, True
        good(hub, tmp / "b")
        check_whole(hub, tmp / "b")
    with large() as hub:  # it never comes further
        hub.cut, hub.no_range = 100000, True
        bad(hub, tmp / "c", "model.safetensors")


def killed(tmp):
    for how in (signal.SIGKILL, signal.SIGINT):
        home = tmp / how.name
        with large() as hub:
            hub.gate = threading.Event()
            p = start(hub, home, "pull", "org/name")
            part = repo_of(home) / "blobs" / (hub.hash("model.safetensors") + ".incomplete")
            while not (part.exists() and part.stat().st_size >= 8192):
                assert p.poll() is None, p.communicate()
                time.sleep(0.01)
            p.send_signal(how)
            _, err = p.communicate(timeout=60)
            assert p.returncode != 0 and (how == signal.SIGKILL or "goes on from there" in err), err
            assert not (repo_of(home) / "refs" / "main").exists()
            check_cache(hub, home)
            hub.gate.set()
            have = part.stat().st_size
            good(hub, home)
            check_whole(hub, home)
            assert [h["Range"] for _, _, h in hub.storage.seen if "Range" in h] == [f"bytes={have}-"]


def spoilt_rest(tmp):
    """What came of an earlier try is not what it should be: all of it comes again."""
    with large() as hub:
        blobs = repo_of(tmp) / "blobs"
        blobs.mkdir(parents=True)
        (blobs / (hub.hash("model.safetensors") + ".incomplete")).write_bytes(b"x" * 5000)
        good(hub, tmp)
        check_whole(hub, tmp)
        (blobs / (hub.hash("model.safetensors"))).unlink()
        (blobs / (hub.hash("model.safetensors") + ".incomplete")).write_bytes(BIG + b"x")
        good(hub, tmp)
        check_whole(hub, tmp)


def lies(tmp):
    with large() as hub:
        hub.spoils = {"model.safetensors"}
        bad(hub, tmp / "a", "model.safetensors", "not what the hub says", "SHA-256")
        assert not list((repo_of(tmp / "a") / "blobs").glob(hub.hash("model.safetensors") + "*"))
        hub.spoils = set()
        good(hub, tmp / "a")
        check_whole(hub, tmp / "a")
    with large() as hub:
        hub.says = {"config.json": ("0" * 40, len(FILES["config.json"]))}
        bad(hub, tmp / "b", "config.json", "not what the hub says", "SHA-1")
    with large() as hub:
        hub.says = {"model.safetensors": (hub.hash("model.safetensors"), len(BIG) - 10)}
        bad(hub, tmp / "c", "more of them come")
    with large() as hub:
        hub.says = {"model.safetensors": (hub.hash("model.safetensors"), len(BIG) + 10)}
        bad(hub, tmp / "d", "model.safetensors")
    for tag in ("../../../../evil", "A" * 64, "0" * 39, "0" * 65, ""):
        with large() as hub:
            hub.says = {"model.safetensors": (tag, len(BIG))}
            bad(hub, tmp / "e", "does not say the file's hash")
    with large() as hub:
        hub.says = {"model.safetensors": (hub.hash("model.safetensors"), 1 << 50)}
        bad(hub, tmp / "f", "make room")
    assert {p.name for p in tmp.iterdir()} <= set("abcdef"), list(tmp.iterdir())


def redirects(tmp):
    with large() as hub:
        hub.redirect = "file:///etc/passwd"
        bad(hub, tmp / "a", "leads to nothing")
        hub.redirect = hub.hub.url + f"/org/name/resolve/{COMMIT}/model.safetensors"
        bad(hub, tmp / "b", "redirects")


def refusals(tmp):
    for status, words in ((401, "HF_TOKEN"), (403, "terms"), (404, "404")):
        with large() as hub:
            hub.status, hub.headers = [status], {"X-Error-Message": "not \x1b[31mfor you"}
            err = bad(hub, tmp / str(status), "org/name", str(status), words, "for you")
            assert "\x1b" not in err and len(hub.hub.seen) == 1, err
    with large() as hub:
        bad(hub, tmp / "rev", "Invalid rev id: v9", spec="org/name@v9")
    with large() as hub:  # left alone as long as it says, then asked again
        hub.status, hub.headers = [0] * 2 + [429, 503], {"Retry-After": "1"}
        good(hub, tmp / "busy")
        check_whole(hub, tmp / "busy")
    with large() as hub:
        hub.status = [429] * 50
        bad(hub, tmp / "always", "429")
    with large() as hub:
        url = hub.hub.url
    bad(hub, tmp / "gone", url[7:])


def endless(tmp):
    """A page that nobody reads is not waited for."""
    with large() as hub:
        hub.endless, hub.status = True, [404]
        bad(hub, tmp / "refused", "org/name", "404")
        good(hub, tmp / "moved")
        check_whole(hub, tmp / "moved")


def two_at_once(tmp):
    with large() as hub:
        hub.pause, hub.piece = 0.002, 2048
        both = [start(hub, tmp, "pull", "org/name") for _ in range(2)]
        for p in both:
            _, err = p.communicate(timeout=120)
            assert p.returncode == 0, err
        check_whole(hub, tmp)
        assert hub.sent < len(BIG) + 2000, hub.sent


def names(tmp):
    evil = ["../evil", "a/../../evil", "/etc/evil", "a//evil", "..evil/x", "a\\evil", "a\nevil", ".", ""]
    with large() as hub:
        hub.names = [*hub.files, *evil]
        good(hub, tmp)
        check_whole(hub, tmp)
        for name in evil[:4]:
            bad(hub, tmp / "b", spec=f"org/name:{name}")
    files = {k: v for k, v in FILES.items() if k != "model.safetensors"}
    for i, name in enumerate(("../evil", "absent.safetensors", 7)):
        index = json.dumps({"weight_map": {"w": name}}).encode()
        with Hub({**files, "model.safetensors.index.json": index}) as hub:
            bad(hub, tmp / f"c{i}", "not there")
    for spec in ("../x", "org/..", "org", "a/b/c", "org/name@", "org/name@../x", "org/name:", "org/name:../x", "o--g/name",
                 "org/na me", ".org/name"):
        bad(hub, tmp / "d", spec=spec)
    assert not [p for p in tmp.rglob("*evil*")]


def parts(tmp):
    files = {k: v for k, v in FILES.items() if k != "model.safetensors"}
    index = {"weight_map": {"a": "m-1.safetensors", "b": "m-2.safetensors", "c": "m-1.safetensors"}}
    files |= {"model.safetensors.index.json": json.dumps(index).encode(), "m-1.safetensors": BIG, "m-2.safetensors": b"two",
              "m-3.safetensors": b"no"}
    with Hub(files, large=["m-1.safetensors", "m-2.safetensors"]) as hub:
        good(hub, tmp)
        check_whole(hub, tmp, NEEDED - {"model.safetensors"} | {"model.safetensors.index.json", "m-1.safetensors",
                                                              "m-2.safetensors"})


def gguf(tmp):
    files = {"m-Q4_K.gguf": b"k", "m-Q4_K_M.gguf": b"km", "big/m-Q8_0-00001-of-00002.gguf": b"1",
             "big/m-Q8_0-00002-of-00002.gguf": b"2", "mmproj-m.gguf": b"no", "lost-00001-of-00002.gguf": b"x"}
    with Hub(files, large=files) as hub:
        err = bad(hub, tmp, "m-Q4_K.gguf, m-Q4_K_M.gguf, big/m-Q8_0-00001-of-00002.gguf")
        assert "mmproj" not in err and "00002-of" not in err, err
        bad(hub, tmp, "no file has that name", "m-Q4_K.gguf", spec="org/name:Q5_K")
        assert good(hub, tmp, "org/name:q4_k").name == "m-Q4_K.gguf"
        check_whole(hub, tmp, ["m-Q4_K.gguf"])
        path = good(hub, tmp, "org/name:Q8_0")
        assert path.name == "m-Q8_0-00001-of-00002.gguf" and path.with_name("m-Q8_0-00002-of-00002.gguf").read_bytes() == b"2"
        bad(hub, tmp, "1 of its 2 parts", spec="org/name:lost-00001-of-00002.gguf")
    split = {f"m-0000{i}-of-00002.gguf": b"%d" % i for i in (1, 2)}
    with Hub(split, large=split) as hub:
        good(hub, tmp / "a")
        check_whole(hub, tmp / "a", split)
    with Hub({"README.md": b"x"}) as hub:
        bad(hub, tmp / "b", "no config.json and no GGUF")
    with Hub({"config.json": b"{}", "pytorch_model.bin": b"x"}) as hub:
        bad(hub, tmp / "c", "only safetensors and GGUF")


def full_disk(tmp):
    with large() as hub:
        for k in (0, 1, 2, 3, 5, 8, 13, 21, 34):
            home, ctl = tmp / str(k), tmp / f"ctl{k}"
            ctl.write_bytes(struct.pack("3q", 0, k, 2**62))
            with open(ctl, "r+b") as f, mmap.mmap(f.fileno(), 24):
                bad(hub, home, "No space left", LD_PRELOAD=str(BUILD.resolve() / "tests/fake/preload/full_disk.so"),
                    FULL_DISK_DIR=str(home), FULL_DISK_CTL=str(ctl),
                    ASAN_OPTIONS=os.environ.get("ASAN_OPTIONS", "") + ":verify_asan_link_order=0")
            good(hub, home)
            check_whole(hub, home)


def commands(tmp):
    """A model of the hub where a command takes one; what was pulled needs no hub."""
    model = make_model(tmp / "model")
    files = {str(f.relative_to(model)): f.read_bytes() for f in model.rglob("*") if f.is_file()}
    with Hub(files, large=["model.safetensors"]) as hub:
        status, out, err = run(hub, tmp / "home", "tokenize", "org/name", "a b")
        assert status == 0 and out, err
        with Tandem("org/name", env=hub.env(tmp / "home")) as s:
            assert s.get("/v1/models").json["data"][0]["id"] == "name"
        n = len(hub.hub.seen)
        status, again, err = run(hub, tmp / "home", "tokenize", "org/name", "a b", HF_HUB_OFFLINE="1")
        assert status == 0 and again == out, err
        status, out, err = run(hub, tmp / "home", "pull", "org/name", HF_HUB_OFFLINE="1")
        assert status == 0 and out.strip().endswith(COMMIT), err
        assert len(hub.hub.seen) == n
        status, out, err = run(hub, tmp / "none", "tokenize", "org/name", "a b", HF_HUB_OFFLINE="1")
        assert status == 2 and "HF_HUB_OFFLINE" in err, err
        status, out, err = run(hub, tmp / "none", "tokenize", "org/other", "a b")
        assert status == 2 and "no file or folder org/other is here" in err and "404" in err, err
        status, out, err = run(hub, tmp / "none", "pull", "org/name", HF_TOKEN="a b")
        assert status == 2 and "HF_TOKEN" in err, err
        status, out, err = run(hub, tmp / "none", "pull", "org/name", HF_ENDPOINT="ftp://x")
        assert status == 2 and "HF_ENDPOINT" in err, err


def a_part(tmp):
    """What lies there without its tokenizer is not taken for the model."""
    model = make_model(tmp / "model")
    files = {str(f.relative_to(model)): f.read_bytes() for f in model.rglob("*") if f.is_file()}
    with Hub(files, large=["model.safetensors"]) as hub:
        for name in ("config.json", "model.safetensors"):
            good(hub, tmp / "home", f"org/name:{name}")
        status, out, err = run(hub, tmp / "home", "tokenize", "org/name", "a b", HF_HUB_OFFLINE="1")
        assert status == 2 and "not all in" in err, err
        status, out, err = run(hub, tmp / "home", "tokenize", "org/name", "a b")
        assert status == 0 and out, err
        check_whole(hub, tmp / "home", files)


def main():
    cases = Cases()
    with scratch() as tmp:
        for case in (whole, one_file, cut, killed, spoilt_rest, lies, redirects, refusals, endless, two_at_once, names, parts, gguf,
                     full_disk, commands, a_part):
            (tmp / case.__name__).mkdir()
            cases.run(case.__name__, lambda case=case: case(tmp / case.__name__))
    return cases.end()


if __name__ == "__main__":
    sys.exit(main())
