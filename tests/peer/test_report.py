#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The report of `make bench-report`, of a tiny model.

Faults they can catch: a bench whose JSON has lost a member that the report reads; a page that is none; a bar beyond
its limit's scale; a peer that is not there and not told of, or there and left out, or without a file of the model.

Standard library only."""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import xml.etree.ElementTree

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests/lib"), str(ROOT / "tests/peer")]
sys.dont_write_bytecode = True
import plot  # noqa: E402
from serving import BUILD, MODE, Cases, make_model, scratch  # noqa: E402
KERNELS = "\n".join(json.dumps(x) for x in (
    {"machine": "read memory", "threads": 1, "gbps": 20.0}, {"machine": "bf16 dot products", "threads": 1, "gflops": 900.0},
    *({"kernel": k, "variant": "ref", "shape": "1x1", "fraction": f} for k, f in (("linear_bf16", 0.9), ("linear_f32", 0.8)))))


def drawn():
    for limit in (None, (120.0, "limit <of> all"), (0.4, "small")):
        svg = xml.etree.ElementTree.fromstring(plot.bars("A & b", "tokens", [("one", 96.0, "tandem"), ("two", 3.2, "peer")],
                                                         limit))
        wide = float(svg.get("width"))
        boxes = [float(r.get("x")) + float(r.get("width")) for r in svg.iter("rect")]
        assert len(boxes) == 2 and all(b < wide for b in boxes), boxes
        texts = [t.text for t in svg.iter("text")]
        assert (limit is None) == (not any("limit" in t or "small" in t for t in texts)), texts
    assert [plot.number(v) for v in (1234.5, 99.44, 1.234)] == ["1,234", "99.4", "1.2"]
    assert plot.ticks(104.0) == [0, 50, 100] or len(plot.ticks(104.0)) <= 6


def limits():
    """What the report reads of the real program; in the other case one stands in its place that takes no time."""
    said = subprocess.run([BUILD / "tandem-kernels", "bench", "onnx", "--threads", "1", "--json"], cwd=ROOT, check=True,
                          capture_output=True, text=True).stdout
    names = {json.loads(x)["machine"] for x in said.splitlines()}
    assert {"read memory", "bf16 dot products"} <= names, names


def made(tmp, script):
    """The figures, and the page."""
    build = tmp / "build"
    if not build.exists():
        make_model(tmp / "model", "--ctx", 1024)
        (build / "tests/tools").mkdir(parents=True)
        (build / "tandem").symlink_to((ROOT / BUILD / "tandem").resolve())
        (build / "tandem-kernels").write_text(f"#!{sys.executable}\nprint({KERNELS!r})\n")
        (build / "tandem-kernels").chmod(0o755)
    p = subprocess.run([sys.executable, "-S", script, "--model", tmp / "model", "--rounds", "1", "--length", "64",
                        "--threads", "1", "--out", tmp / "out"], cwd=ROOT, capture_output=True, text=True, check=False,
                       env={**os.environ, "TANDEM_BUILD": str(build)})
    assert p.returncode == 0, p.stderr
    return json.loads((tmp / "out/figures.json").read_text()), (tmp / "out/index.html").read_text()


PEERS = {"llama_cpp": ("llama.py", "print(12.5 if open(sys.argv[1], 'rb').read(4) == b'GGUF' else 0)"),
         "torch": ("train_torch.py", "print('34.5 tokens/s')")}


def beside(tmp):
    """Peers that are there: what runs them, and their packages, stand in their places."""
    peer = tmp / "peer"
    peer.mkdir()
    for name in ("report.py", "plot.py"):
        shutil.copy(ROOT / "tests/peer" / name, peer)
    for package, (script, said) in PEERS.items():
        (peer / f"{package}.py").touch()
        (peer / script).write_text(f"import sys\n{said}\n")
    figures, text = made(tmp, peer / "report.py")
    values = [[value for _, value, whose in f["rows"] if whose == "peer"] for f in figures["plots"]]
    assert values == [[12.5]] * 3 + [[34.5]] * 2 + [[], []], values
    assert figures["told"]["not beside it"] == "nothing" and text.count('class="peer"') == 5, figures["told"]


def report(tmp):
    figures, text = made(tmp, ROOT / "tests/peer/report.py")
    titles = [f["title"] for f in figures["plots"]]
    assert len(titles) == 7 and titles[1] == "One stream", titles
    for f in figures["plots"]:
        assert all(value > 0 for _, value, _ in f["rows"]) and f["limit"][0] > 0, f
    assert "llama.cpp" in figures["told"]["not beside it"], figures["told"]
    assert text.count("<svg") == 7 and text.count('class="limit" d=') == 7 and "src=" not in text, text
    return ", ".join(titles[:2])


def main():
    cases = Cases()
    cases.run("a plot", drawn)
    if MODE == "release":
        cases.run("limits", limits)
        with scratch() as tmp:
            cases.run("a report", lambda: report(tmp))
            cases.run("beside others", lambda: beside(tmp))
    else:
        cases.skip("a report", "the release build is what is measured")
    return cases.end()


if __name__ == "__main__":
    sys.exit(main())
