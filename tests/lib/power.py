# SPDX-License-Identifier: Apache-2.0
"""What a disk holds when the power goes. Reads what tests/fake/preload/disk_log.c wrote down, and makes
the folder that a cut between any two of its records may leave.

    log = PowerLog(path); disk = Disk(log)
    disk.advance(k)                    # the first k records happened
    disk.write(folder, random.Random(seed))

What was synced is there; of what was not, by the draw, nothing, all but a torn last write, or any part:
of a file any of its pages, zeros for those that are lost before its end, of a folder the names that came
and went up to some moment, each folder's or one for all of them. A synced file whose name was not synced
is lost with its name. A name that moves between two folders moves as one; nothing else is promised."""
import pathlib
import struct

BEGIN, CREATE, MKDIR, WRITE, CUT, SYNC, RENAME, REMOVE, LINK = range(9)
HEAD = struct.Struct("IIQQQ")
PAGE, SECTOR = 4096, 512
HOWS = ("nothing", "all", "order", "order", "any", "any")


class PowerLog:
    """The records: (kind, a, b, name, data), and where in the file each ends."""

    def __init__(self, path):
        raw, at, self.records, self.ends = pathlib.Path(path).read_bytes(), 0, [], []
        while at < len(raw):
            kind, n_name, a, b, n_data = HEAD.unpack_from(raw, at)
            at += HEAD.size
            name = raw[at:at + n_name].decode("utf-8", "surrogateescape")
            at += n_name
            self.records.append((kind, a, b, name, raw[at:at + n_data]))
            at += n_data
            self.ends.append(at)
        assert at == len(raw), "the log's last record is cut short"

    def __len__(self):
        return len(self.records)


class File:
    """What of a file is safe, and what was written since, in order: (offset, bytes) or (size, None)."""

    def __init__(self):
        self.safe, self.since = bytearray(), []

    @staticmethod
    def apply(content, at, data):
        if data is None:
            del content[at:]
            content.extend(bytes(at - len(content)))
        else:
            content.extend(bytes(max(0, at - len(content))))
            content[at:at + len(data)] = data

    def sync(self):
        for act in self.since:
            self.apply(self.safe, *act)
        self.since.clear()

    def after(self, how, draw):
        content = bytearray(self.safe)
        if how == "nothing" or not self.since:
            return content
        n = len(self.since) if how == "all" else draw.randint(0, len(self.since))
        for i, (at, data) in enumerate(self.since if how == "any" else self.since[:n]):
            if data is None:
                if how != "any" or draw.random() < 0.5:
                    self.apply(content, at, data)
            elif how == "any":
                self.some(content, at, data, draw)
            elif i == n - 1:  # torn
                self.apply(content, at, data[:SECTOR * draw.randint(0, len(data) // SECTOR + 1)])
            else:
                self.apply(content, at, data)
        return content

    def some(self, content, at, data, draw):
        """Any pages of a write; its end may be known, and its bytes not be there."""
        if draw.random() < 0.3:
            self.apply(content, max(at + len(data), len(content)), None)
        begin = 0
        while begin < len(data):
            end = min(len(data), (at + begin) // PAGE * PAGE + PAGE - at)
            if draw.random() < 0.5:
                self.apply(content, at + begin, data[begin:end])
            begin = end


class Folder:
    """Names that are safe, and the moves since that this folder was not synced for."""

    def __init__(self):
        self.safe, self.since, self.now = {}, [], {}


class Move:
    """Names that come and go as one: (folder, name, thing or None)."""

    def __init__(self, number, parts):
        self.number, self.parts = number, parts


class Disk:
    def __init__(self, log):
        self.log, self.done, self.root, self.things = log, 0, Folder(), {}

    def advance(self, k):
        assert k >= self.done
        for i in range(self.done, k):
            self.happen(i, *self.log.records[i])
        self.done = k

    def happen(self, i, kind, a, b, name, data):
        if kind == BEGIN:
            self.things[a] = self.root
        elif kind in (CREATE, MKDIR, LINK):
            if kind != LINK:
                self.things[b] = File() if kind == CREATE else Folder()
            self.move(i, [(self.things[a], name, self.things[b])])
        elif kind == WRITE:
            self.things[a].since.append((b, data))
        elif kind == CUT:
            self.things[a].since.append((b, None))
        elif kind == SYNC:
            self.sync(self.things[a])
        elif kind == RENAME:
            old, new = name.split("\0")
            of, into = self.things[a], self.things[b]
            self.move(i, [(into, new, of.now[old]), (of, old, None)])
        elif kind == REMOVE:
            self.move(i, [(self.things[a], name, None)])

    @staticmethod
    def move(i, parts):
        m = Move(i, parts)
        for folder, name, thing in parts:
            if thing is None:
                del folder.now[name]
            else:
                folder.now[name] = thing
            if m not in folder.since:
                folder.since.append(m)

    @staticmethod
    def keep(names, folder, m):
        for f, name, thing in m.parts:
            if f is folder and thing is None:
                names.pop(name, None)
            elif f is folder:
                names[name] = thing

    def sync(self, thing):
        if isinstance(thing, File):
            return thing.sync()
        for m in thing.since:
            self.keep(thing.safe, thing, m)
        thing.since.clear()
        return None

    def write(self, path, draw):
        """Makes the folder; how it was drawn."""
        how, together = draw.choice(HOWS), draw.random() < 0.5
        limit = {"nothing": -1, "all": self.done}.get(how, draw.randint(0, self.done))
        limits = {}  # of each folder: names up to this moment

        def is_kept(m):
            folders = [folder for folder, _, _ in m.parts]
            for folder in folders:
                if id(folder) not in limits:
                    limits[id(folder)] = limit if how in ("nothing", "all") or together \
                        else draw.randint(0, self.done)
            return any(m not in folder.since for folder in folders) \
                or all(m.number <= limits[id(folder)] for folder in folders)
        self.write_folder(pathlib.Path(path), self.root, how, is_kept, draw)
        return how

    def write_folder(self, path, folder, how, is_kept, draw):
        path.mkdir()
        names = dict(folder.safe)
        for m in folder.since:
            if is_kept(m):
                self.keep(names, folder, m)
        for name, thing in names.items():
            if isinstance(thing, Folder):
                self.write_folder(path / name, thing, how, is_kept, draw)
            else:
                (path / name).write_bytes(thing.after(how, draw))
