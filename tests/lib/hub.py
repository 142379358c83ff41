# SPDX-License-Identifier: Apache-2.0
"""A hub for tests: two servers of this process, the one that says what files a repository has, and the
one, at another port and so another host, that keeps their bytes. Both do what a test tells them to.
Standard library only."""
import hashlib
import http.server
import json
import threading
import time

COMMIT = "0123456789abcdef0123456789abcdef01234567"


def git_hash(data):
    return hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()


class Server:
    def __init__(self, answer):
        self.seen = []  # (method, path, headers) of each request
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                outer.seen.append((self.command, self.path, dict(self.headers)))
                answer(self)

            do_HEAD = do_GET

            def log_message(self, *_):
                pass

        self.http = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.http.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.http.server_port}"
        self.thread = threading.Thread(target=self.http.serve_forever, kwargs={"poll_interval": 0.02})
        self.thread.start()

    def stop(self):
        self.http.shutdown()
        self.thread.join()
        self.http.server_close()


def reply(request, status, body=b"", **headers):
    request.send_response(status)
    for name, value in headers.items():
        request.send_header(name.replace("_", "-"), str(value))
    if "Content_Length" not in headers:
        request.send_header("Content-Length", str(len(body)))
    request.end_headers()
    if request.command != "HEAD":
        request.wfile.write(body)


def reply_endless(request, status, body=b"x", **headers):
    """A page that goes on until the client has enough of it."""
    request.send_response(status)
    for name, value in headers.items():
        request.send_header(name.replace("_", "-"), str(value))
    request.end_headers()
    request.close_connection = True
    try:
        while request.command != "HEAD":
            request.wfile.write(body * 8192)
    except OSError:
        pass


class Hub:
    """files: path -> bytes. Those of `large` are kept by the storage, under their SHA-256. What may be set:
    status: answers of the hub, one for each request, before it answers well; rev: what it knows;
    cut: after so many bytes the storage closes the connection; once: only the first time;
    pause: seconds between pieces of `piece` bytes; no_range: ranges are passed over;
    says: path -> what is said in place of the hash and the size; spoils: the storage's bytes are others;
    redirect: where large files lead to; gate: an event without which the storage sends only a piece;
    endless: what goes with a refusal or a redirect has no end."""

    def __init__(self, files, large=(), repo="org/name"):
        self.files, self.large, self.repo = files, set(large), repo
        self.status, self.rev, self.cut, self.once, self.pause, self.piece = [], ["main"], 0, False, 0, 4096
        self.no_range, self.says, self.spoils, self.redirect, self.gate = False, {}, set(), None, None
        self.names, self.headers, self.endless = None, {}, False
        self.sent = 0  # bytes of files, by either
        self.lock = threading.Lock()
        self.hub, self.storage = Server(self.answer), Server(self.store)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.gate:
            self.gate.set()
        self.hub.stop()
        self.storage.stop()

    def env(self, home, **more):
        return {"HF_ENDPOINT": self.hub.url, "HF_HOME": str(home), "HF_TOKEN": "hf_secret", "HF_HUB_CACHE": "",
                "HF_HUB_OFFLINE": "", **more}

    def hash(self, name):
        data = self.files[name]
        return hashlib.sha256(data).hexdigest() if name in self.large else git_hash(data)

    def answer(self, r):
        with self.lock:
            status = self.status.pop(0) if self.status else 0
        path = r.path.partition("?")[0]
        api = f"/api/models/{self.repo}/revision/"
        page = reply_endless if self.endless else reply
        if status:
            return page(r, status, b"<html>no</html>", **self.headers)
        if path.startswith(api):
            rev = path[len(api):].replace("%2F", "/")
            if rev not in self.rev and rev != COMMIT:
                return reply(r, 404, b"{}", X_Error_Message=f"Invalid rev id: {rev}")
            names = [{"rfilename": n} for n in (self.names or self.files)]
            return reply(r, 200, json.dumps({"id": self.repo, "sha": COMMIT, "siblings": names}).encode())
        front = f"/{self.repo}/resolve/{COMMIT}/"
        name = path[len(front):]
        if not path.startswith(front) or name not in self.files:
            return reply(r, 404, X_Error_Message="Entry not found")
        data = self.files[name]
        tag, size = self.says.get(name, (self.hash(name), len(data)))
        if name not in self.large:
            return self.send(r, data, {"ETag": f'"{tag}"', "X-Repo-Commit": COMMIT}, size)
        where = self.redirect or f"{self.storage.url}/{self.hash(name)}?sig=1"
        return page(r, 302, b"moved", Location=where, X_Linked_Etag=f'"{tag}"', X_Linked_Size=size,
                    X_Repo_Commit=COMMIT, ETag='"another"')

    def store(self, r):
        for name in self.large:
            if r.path.startswith("/" + self.hash(name)):
                data = self.files[name]
                if name in self.spoils:
                    data = bytes([data[0] ^ 1]) + data[1:]
                return self.send(r, data, {"ETag": '"of-the-storage"'}, len(data))
        return reply(r, 404)

    def send(self, r, data, headers, size):
        begin, asked = 0, r.headers.get("Range")
        if asked and not self.no_range:
            begin = int(asked.split("=")[1].split("-")[0])
            r.send_response(206)
            r.send_header("Content-Range", f"bytes {begin}-{len(data) - 1}/{len(data)}")
            size = len(data) - begin
        else:
            r.send_response(200)
        for k, v in headers.items():
            r.send_header(k, v)
        r.send_header("Content-Length", str(size))
        r.end_headers()
        if r.command == "HEAD":
            return
        end = len(data)
        with self.lock:
            if self.cut and end - begin > self.cut:
                end = begin + self.cut
                if self.once:
                    self.cut = 0
        for at in range(begin, end, self.piece):
            part = data[at:min(at + self.piece, end)]
            try:
                r.wfile.write(part)
                r.wfile.flush()
            except OSError:
                r.close_connection = True
                return
            with self.lock:
                self.sent += len(part)
            if self.gate and at > begin:
                self.gate.wait(60)
            if self.pause:
                time.sleep(self.pause)
        if end < len(data) or size != len(data) - begin:
            r.close_connection = True
