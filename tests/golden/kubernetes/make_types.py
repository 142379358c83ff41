#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What Kubernetes's API knows of the types that docker/kubernetes uses, for tests/docker/manifest.py.

Run in a virtual environment with kubernetes-validate 1.37.0 (which has the API's own schemas) and PyYAML:

    python tests/golden/kubernetes/make_types.py

The manifests must be good by those schemas, and manifest.py read them as PyYAML does. A LeaderWorkerSet is of no such
schema: its types are written here, by its API's v1. Types that no manifest reaches are left out."""
import json
import pathlib
import sys

import kubernetes_validate
import yaml

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[2]
sys.path.insert(0, str(ROOT / "tests/docker"))
import manifest  # noqa: E402

VERSION = "1.37.0"
SCHEMAS = pathlib.Path(kubernetes_validate.__file__).parent / f"kubernetes-json-schema/v{VERSION}-local-strict"
KNOWN = json.loads((SCHEMAS / "_definitions.json").read_text())["$defs"]
TOPS = {"PersistentVolumeClaim": "io.k8s.api.core.v1", "Deployment": "io.k8s.api.apps.v1",
        "Service": "io.k8s.api.core.v1", "NetworkPolicy": "io.k8s.api.networking.v1"}
POD = "io.k8s.api.core.v1.PodTemplateSpec"
OWN = {
    "LeaderWorkerSet": {"members": {
        "apiVersion": "=leaderworkerset.x-k8s.io/v1", "kind": "=LeaderWorkerSet",
        "metadata": "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta", "spec": "LeaderWorkerSetSpec"},
        "required": ["apiVersion", "kind", "metadata", "spec"]},
    "LeaderWorkerSetSpec": {"members": {
        "replicas": "integer", "leaderWorkerTemplate": "LeaderWorkerTemplate", "rolloutStrategy": "any",
        "startupPolicy": "=LeaderCreated|LeaderReady", "networkConfig": "any"},
        "required": ["leaderWorkerTemplate"]},
    "LeaderWorkerTemplate": {"members": {
        "leaderTemplate": POD, "workerTemplate": POD, "size": "integer",
        "restartPolicy": "=Default|RecreateGroupOnPodRestart|RecreateGroupAfterStart|None", "subGroupPolicy": "any",
        "volumeClaimTemplates": "any", "persistentVolumeClaimRetentionPolicy": "any"},
        "required": ["workerTemplate"]},
}


def kind_of(schema):
    """A member's type, as manifest.py reads it."""
    if "$ref" in schema:
        return aliased(schema["$ref"].rsplit("/", 1)[1])
    if "enum" in schema:
        return "=" + "|".join(x for x in schema["enum"] if x is not None)
    kinds = schema.get("type", "any")
    kinds = [kinds] if isinstance(kinds, str) else [x for x in kinds if x != "null"]
    if kinds == ["array"]:
        return f"[{kind_of(schema['items'])}]"
    if kinds == ["object"]:
        return "{}" + kind_of(schema["additionalProperties"]) if "additionalProperties" in schema else "object"
    return "|".join("integer" if x == "number" else x for x in kinds)


def aliased(name):
    """A type without members is another name of a plain one."""
    known = KNOWN[name]
    if "properties" in known:
        return name
    if "oneOf" in known:
        return "|".join(kind_of(x) for x in known["oneOf"])
    return kind_of(known)


def type_of(name):
    if name in OWN:
        return OWN[name]
    known = KNOWN[name]
    members = {member: kind_of(schema) for member, schema in known["properties"].items()}
    return {"members": members, **({"required": known["required"]} if "required" in known else {})}


class Reached(dict):
    """Types, of which what is asked for is kept."""

    def __contains__(self, name):
        return name in OWN or name in KNOWN

    def __missing__(self, name):
        self[name] = found = type_of(name)
        return found


def main():
    types, tops, faults = Reached(), {}, []
    for path in sorted((ROOT / "docker/kubernetes").glob("*.yaml")):
        read = list(manifest.documents(path.read_text()))
        assert read == list(yaml.safe_load_all(path.read_text())), path
        for value in read:
            kind = value["kind"]
            tops[kind] = kind if kind in OWN else f"{TOPS[kind]}.{kind}"
            if kind in TOPS:
                kubernetes_validate.validate(value, VERSION, strict=True)
            faults += manifest.differences(value, tops[kind], types, path.name)
    assert not faults, faults
    made = {"version": VERSION, "tops": tops, "types": types}
    (HERE / "types.json").write_text(json.dumps(made, indent=0, sort_keys=True) + "\n")
    print(len(types), "types")


if __name__ == "__main__":
    main()
