#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The files of docker/, as far as they can be judged without a container.

Faults they can catch: a variable that is no option any more; a dashboard of metrics that were renamed,
or with a label that they lack; a file that an image or a compose file takes and that is not there; a
script that a shell cannot read; keys that the server would not take; a pod whose command ends because a
service has the name of the program; a manifest with a member that the API does not have, or of another type.

Standard library only."""
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(pathlib.Path(__file__).resolve().parent), str(ROOT / "tests" / "lib")]
import manifest  # noqa: E402
from serving import BIN, Cases, Tandem, make_model, scratch  # noqa: E402

DOCKER = ROOT / "docker"
TEXTS = [p for p in DOCKER.rglob("*") if p.suffix in (".Dockerfile", ".yaml", ".sh", ".md")]


def variables_are_options():
    helped = subprocess.run([BIN, "serve", "--help"], capture_output=True, text=True, check=True)
    known = set(re.findall(r"TANDEM_[A-Z_]+", helped.stdout)) | {"TANDEM_MODEL_ARGS"}
    for path in TEXTS:
        used = set(re.findall(r"\bTANDEM_[A-Z_]+\b", path.read_text()))
        assert used <= known, (path.name, used - known)


def dashboard_is_of_metrics():
    rows = re.findall(r'^METRIC\(\w+, (\w+), \w+, (\w+), "(\w+)"',
                      (ROOT / "server/metrics/metrics.def").read_text(), re.M)
    kinds = {name: kind for kind, _, name in rows}
    labels = {name: label for _, label, name in rows}
    board = json.loads((DOCKER / "grafana/dashboards/tandem.json").read_text())
    exprs = [t["expr"] for p in board["panels"] for t in p["targets"]]
    assert len(exprs) > 20, len(exprs)
    for expr in exprs:
        for name in re.findall(r"\b(?:tandem|process)_\w+", expr):
            base = name.removesuffix("_bucket")
            assert base in kinds, name
            assert (kinds[base] == "HISTOGRAM") == (name != base), name
            if not name.endswith("_bucket"):
                assert ("rate(" in expr) == (kinds[base] == "COUNTER"), expr
            by = re.findall(r"by \((\w+)\)", expr)
            want = {"class": "GATE", "status": "HTTP", "le": labels[base]}
            assert all(want[x] == labels[base] for x in by), expr


def copied_files_are_there():
    for path in DOCKER.glob("*.yaml"):
        for source in re.findall(r"^ +- (\./[\w./-]+):", path.read_text(), re.M):
            assert (DOCKER / source).exists(), (path.name, source)
    for path in DOCKER.glob("*.Dockerfile"):
        text = path.read_text()
        assert text.count("FROM ") == 2 and re.search(r"^USER \d+:\d+$", text, re.M), path.name
        assert 'HEALTHCHECK' in text and '["tandem", "health"]' in text, path.name
        assert 'ENTRYPOINT ["tandem"]' in text, path.name
    assert "docker/cpu.Dockerfile" in (DOCKER / "compose.yaml").read_text()


def models_stay_out():
    """Models that lie in the tree, where compose.yaml mounts them from, in an image or a commit."""
    assert "models" in (ROOT / ".dockerignore").read_text().split()
    assert "/models/" in (ROOT / ".gitignore").read_text().split()


def scripts_can_be_read():
    for path in DOCKER.glob("*.sh"):
        assert os.access(path, os.X_OK), path.name
        subprocess.run(["bash", "-n", path], check=True)


def pod_environment(text, tmp):
    """What a container of the manifest finds: the image's variables, the manifest's, and those of a
    service called tandem, with paths in place of the volumes."""
    image = re.search(r"^ENV (.+)$", (DOCKER / "cpu.Dockerfile").read_text(), re.M)[1]
    env = dict(v.split("=", 1) for v in image.split())
    env |= {name: value.strip('"') for name, value in re.findall(r"- \{name: (TANDEM_\w+), value: ([^}]+)\}", text)}
    assert f"{{name: probes, containerPort: {env['TANDEM_PROBE_PORT']}}}" in text
    env |= {f"{name}_{part}": value for name in ("TANDEM", "TANDEM_METRICS") for part, value in {
        "SERVICE_HOST": "10.96.0.17", "SERVICE_PORT": "80", "SERVICE_PORT_HTTP": "80",
        "PORT": "tcp://10.96.0.17:80", "PORT_80_TCP": "tcp://10.96.0.17:80",
        "PORT_80_TCP_PROTO": "tcp", "PORT_80_TCP_PORT": "80", "PORT_80_TCP_ADDR": "10.96.0.17"}.items()}
    (tmp / "keys").write_text("main all " + "k" * 48 + "\n")
    ours = {"TANDEM_DATA_DIR": str(tmp / "data"), "TANDEM_API_KEY_FILE": str(tmp / "keys"),
            "TANDEM_PROBE_PORT": "0"}  # which somebody may have
    return {**env, **ours}


def pods_start(tmp):
    """The image's command in a pod that was not told to leave services' variables out; of those the
    one that has an option's name is said, and no other."""
    env = pod_environment((DOCKER / "kubernetes/deployment.yaml").read_text(), tmp)
    with Tandem(make_model(tmp / "pod"), "--kv-memory", "16M", "--threads", 1,
                env={**env, "TANDEM_KV_MEMROY": "1G"}) as s:
        warned = [json.loads(line) for line in s.said().splitlines() if '"warn"' in line]
    said = {w["name"]: w.get("meant") for w in warned if "name" in w}
    assert said == {"TANDEM_PORT": None, "TANDEM_KV_MEMROY": "TANDEM_KV_MEMORY"}, warned


def pods_want_no_links():
    for path in (DOCKER / "kubernetes").glob("*.yaml"):
        text = path.read_text()
        pods = len(re.findall(r"^ +containers:", text, re.M))
        assert pods and len(re.findall(r"^ +enableServiceLinks: false\b", text, re.M)) == pods, path.name


def manifests_are_of_the_api():
    known = json.loads((ROOT / "tests/golden/kubernetes/types.json").read_text())

    def faults(text):
        return [x for value in manifest.documents(text)
                for x in manifest.differences(value, known["tops"][value["kind"]], known["types"], value["kind"])]
    for path in (DOCKER / "kubernetes").glob("*.yaml"):
        assert not faults(path.read_text()), (path.name, faults(path.read_text()))
    good = (DOCKER / "kubernetes/deployment.yaml").read_text()
    for old, new, where in (
            ("enableServiceLinks: false", "enableServiceLinks: no", "template.spec.enableServiceLinks"),
            ("            periodSeconds: 5\n", "            period: 5\n", "containers.0.startupProbe.period"),
            ('value: "8081"', "value: 8081", "containers.0.env.2.value"), ("          image: tandem\n", "", ""),
            ("        - name: tandem\n          image:", "        - image:", "containers.0.name"),
            ("replicas: 1 ", "replicas: one ", "spec.replicas")):
        assert old in good and bool(where) == any(where in x for x in faults(good.replace(old, new, 1))), old
    for bad in ("a: 1\na: 2", "a: |\n  x", "a: 1\n   b: 2", "a: {b: 1", "- a\nb: 1", "a: 'x'"):
        try:
            raise AssertionError((bad, list(manifest.documents(bad))))
        except ValueError:
            pass


def keys_are_taken(tmp):
    shutil.copy(DOCKER / "keys.sh", tmp / "keys.sh")
    run = [subprocess.run([tmp / "keys.sh"], capture_output=True, text=True, check=True).stdout
           for _ in range(2)]
    assert run[0] == run[1] and re.fullmatch(r"[0-9a-f]{48}\n", run[0]), run
    metrics = (tmp / "secrets/metrics_key").read_text()
    with Tandem(make_model(tmp / "m"), "--kv-memory", "16M", "--threads", 1, "--api-key-file",
                tmp / "secrets/keys") as s:
        def status(path, key):
            return s.get(path, Authorization=f"Bearer {key}").status
        assert status("/v1/models", run[0].strip()) == 200
        assert status("/metrics", metrics) == 200
        assert status("/v1/models", metrics) == 403
        assert status("/metrics", "no") == 401


def main():
    cases = Cases()
    for case in (variables_are_options, dashboard_is_of_metrics, copied_files_are_there,
                 scripts_can_be_read, pods_want_no_links, manifests_are_of_the_api, models_stay_out):
        cases.run(case.__name__.replace("_", " "), case)
    with scratch() as tmp:
        cases.run("keys are taken", lambda: keys_are_taken(tmp))
        cases.run("pods start", lambda: pods_start(tmp))
    return cases.end()


if __name__ == "__main__":
    sys.exit(main())
