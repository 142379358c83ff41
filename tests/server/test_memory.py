#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What `tandem plan` says of memory beside what a server's process comes to: by a long prompt, and in all.
A model with windows and one with recurrent states, as tests/golden/models has them but for wider heads.

Faults they can catch: memory that grows with a prompt and that the plan forgets, as snapshots of states or a
copy of the keys; cells whose first token takes a huge page for each head.

Standard library only."""
import array
import json
import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "lib"))
from serving import BIN, MODE, Cases, Tandem, scratch  # noqa: E402

GOLDEN = pathlib.Path("tests/golden/models")
LONG, SHORT, LEFT = 16384, 32, 32
# of a config, and of its tensors: a number of the golden, and what it is here
WIDER = {
    "gemma3": ({"num_key_value_heads": 4, "head_dim": 64, "query_pre_attn_scalar": 64, "sliding_window": 512},
               {14: 64, 28: 256, 56: 256}),
    "qwen3_5": ({"num_key_value_heads": 4, "head_dim": 64, "linear_key_head_dim": 128, "linear_value_head_dim": 128},
                {16: 64, 32: 256, 64: 256, 128: 512, 24: 256, 40: 512, 88: 1024, 10: 128}),
}


def model(tmp, name):
    path, (keys, wider) = tmp / name, WIDER[name]
    path.mkdir()
    config = json.loads((GOLDEN / name / "config.json").read_text()) | keys | {"max_position_embeddings": 2 * LONG}
    if "rope_parameters" in config:  # a quarter of the pairs that turn, as before
        config["rope_parameters"]["mrope_section"] = [8, 4, 4]
    (path / "config.json").write_text(json.dumps(config))
    data = (GOLDEN / name / "model.safetensors").read_bytes()
    header, at, most = json.loads(data[8:8 + int.from_bytes(data[:8], "little")]), 0, 0
    for t in (t for n, t in header.items() if n != "__metadata__"):
        t["shape"], n = [wider.get(x, x) for x in t["shape"]], 4
        for x in t["shape"]:
            n *= x
        t["data_offsets"], at, most = [at, at + n], at + n, max(most, n)
    head = json.dumps(header).encode()
    few = array.array("f", [0.02 * (i * 7919 % 13 - 6) for i in range(13)])
    numbers = (few * (at // 52 + 1)).tobytes()[:at]
    (path / "model.safetensors").write_bytes(len(head).to_bytes(8, "little") + head + numbers)
    return path


def plan(path):
    out = subprocess.run([BIN, "plan", path, "--ctx", str(LONG + LEFT), "--json"], check=True, capture_output=True)
    return json.loads(out.stdout)


def peak(s):
    status = pathlib.Path(f"/proc/{s.pid}/status").read_text(encoding="ascii")
    return int(status.split("VmHWM:")[1].split()[0]) * 1024


def ask(s, n):
    body = {"prompt": [3 + i * i * 7919 % 190 for i in range(n)], "max_tokens": 2, "temperature": 0}
    r = s.post("/v1/completions", body, timeout=600)
    assert r.status == 200, r


def as_planned(path):
    said = plan(path)
    with Tandem(path, "--ctx", LONG + LEFT, "--threads", 2) as s:
        ask(s, SHORT)
        begin = peak(s)
        ask(s, LONG)
        end = peak(s)
    grown, text = end - begin, said["kv_per_token"] * (LONG - SHORT) + said["snapshots"]
    note = f"{grown / 1e6:.1f} MB more by a long prompt, planned {text / 1e6:.1f}; in all {end / 1e6:.1f}, planned {said['process'] / 1e6:.1f}"
    # a step's values and what the request itself is may be a few MB, and do not grow with the heads
    assert -2e6 < grown - text < said["activations"] + 4e6 and abs(end - said["process"]) < 12e6, note
    return note


def main():
    cases = Cases()
    if MODE not in ("release", "debug"):
        cases.skip("memory as planned", f"{MODE} has memory of its own")
        return cases.end()
    with scratch() as tmp:
        for name in WIDER:
            cases.run(f"memory as planned, {name}", lambda name=name: as_planned(model(tmp, name)))
    return cases.end()


sys.exit(main())
