#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The page at / and its files as HTTP gives them: web web_file. What it does is for tests/clients/web.

Faults they can catch: a file of clients/web that is not in the program, or another version of it; a
page that a key is asked for, or that only answers once the model is there; a policy that a file is
sent without; a 304 for what changed, or none for what did not; a way out of the folder.

Standard library only."""
import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "lib"))
from serving import Cases, Tandem, make_model, scratch  # noqa: E402

FOLDER = pathlib.Path("clients/web")
TYPES = {".html": "text/html; charset=utf-8", ".css": "text/css; charset=utf-8",
         ".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml"}
POLICY = {"default-src 'self'", "base-uri 'none'", "form-action 'none'", "frame-ancestors 'none'",
          "object-src 'none'", "require-trusted-types-for 'script'", "trusted-types 'none'"}


def address(path):
    return "/" if path.name == "index.html" else f"/web/{path.name}"


def files():
    return [p for p in sorted(FOLDER.iterdir()) if p.suffix in TYPES]


def bytes_are_those(s):
    for path in files():
        r = s.get(address(path))
        assert r.status == 200 and r.body == path.read_bytes(), (path, r)
        assert r.headers["Content-Type"] == TYPES[path.suffix], (path, r.headers)
    return f"{len(files())} files"


def policies(s):
    for path in files():
        h = s.get(address(path)).headers
        assert {p.strip() for p in h["Content-Security-Policy"].split(";")} == POLICY, path
        assert h["X-Content-Type-Options"] == "nosniff" and h["Referrer-Policy"] == "no-referrer"


def copies_are_kept(s):
    tags = set()
    for path in files():
        h = s.get(address(path)).headers
        assert h["Cache-Control"] == "no-cache"
        for given in (h["ETag"], f'"other", {h["ETag"]}', "W/" + h["ETag"]):
            r = s.ask("GET", address(path), **{"If-None-Match": given})
            assert r.status == 304 and r.body == b"" and r.headers["ETag"] == h["ETag"], (given, r)
        assert s.ask("GET", address(path), **{"If-None-Match": '"other"'}).status == 200
        tags.add(h["ETag"])
    assert len(tags) == len(files()), tags


def what_is_named_is_there(s):
    """Relative addresses, so that the page works behind a prefix."""
    names = re.findall(r'(?:src|href)="([^"#]+)"', (FOLDER / "index.html").read_text())
    for path in FOLDER.glob("*.js"):
        names += ["web/" + n for n in re.findall(r'from "\./([^"]+)"', path.read_text())]
    assert len(names) > 10, names
    for name in names:
        assert not name.startswith(("/", "http")), name
        assert s.get("/" + name).status == 200, name
    for bad in ("/web/", "/web/none.js", "/web/../README.md", "/web/%2e%2e/README.md", "/web"):
        assert s.get(bad).status == 404, bad


def main():
    cases = Cases()
    with scratch() as tmp:
        key = {"TANDEM_API_KEY": "long-enough-key-of-a-test"}
        with Tandem(make_model(tmp / "m"), "--kv-memory", "8M", env=key) as s:
            assert s.get("/v1/models").status == 401
            for case in (bytes_are_those, policies, copies_are_kept, what_is_named_is_there):
                cases.run(case.__name__.replace("_", " "), lambda c=case: c(s))
    return cases.end()


if __name__ == "__main__":
    sys.exit(main())
