#!/usr/bin/env python3
"""Extracts the schemas of the built-in kinds from the OpenAPI v3 documents that Kubernetes publishes.

NOTICE: the output is derived from k8s.io/kubernetes (api/openapi-spec/v3), Copyright The Kubernetes Authors, licensed under
the Apache License, Version 2.0.

Usage: scripts/builtin-schemas.py [VERSION]   (needs `go`; writes crates/pure/apimodel/src/builtin/schemas.jsonl)

Output: one component per line, sorted by name: NAME, a tab, and the schema as compact JSON. Defaults of `{}` beside a
reference are dropped: they say nothing, and a real server does not apply them.
"""
import json
import pathlib
import subprocess
import sys

VERSION = sys.argv[1] if len(sys.argv) > 1 else "v1.36.3"
CORE, META = "io.k8s.api.core.v1.", "io.k8s.apimachinery.pkg.apis.meta.v1."
KINDS = {
    "api__v1": [CORE + k for k in (
        "Namespace Secret ConfigMap Event ServiceAccount Service Pod Endpoints Node PersistentVolumeClaim "
        "LimitRange ResourceQuota").split()],
    "apis__events.k8s.io__v1": ["io.k8s.api.events.v1.Event"],
    "apis__apps__v1": ["io.k8s.api.apps.v1." + k for k in
                       "Deployment ReplicaSet StatefulSet DaemonSet ControllerRevision".split()] + ["io.k8s.api.autoscaling.v1.Scale"],
    "apis__batch__v1": ["io.k8s.api.batch.v1." + k for k in "Job CronJob".split()],
    "apis__networking.k8s.io__v1": ["io.k8s.api.networking.v1." + k for k in "Ingress IngressClass".split()],
    "apis__coordination.k8s.io__v1": ["io.k8s.api.coordination.v1.Lease"],
    "apis__discovery.k8s.io__v1": ["io.k8s.api.discovery.v1.EndpointSlice"],
    "apis__rbac.authorization.k8s.io__v1": ["io.k8s.api.rbac.v1." + k for k in
                                            "Role RoleBinding ClusterRole ClusterRoleBinding".split()],
    "apis__apiextensions.k8s.io__v1": ["io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceDefinition"],
}
SHARED = [META + k for k in "DeleteOptions Status ListMeta Patch WatchEvent".split()]


def references(node):
    if isinstance(node, dict):
        for key, value in node.items():
            if key == "$ref" and isinstance(value, str):
                yield value.rsplit("/", 1)[1]
            else:
                yield from references(value)
    elif isinstance(node, list):
        for value in node:
            yield from references(value)


def compact(node):
    if isinstance(node, dict):
        return {k: compact(v) for k, v in node.items()
                if not (k == "default" and v == {} and "allOf" in node) and k != "x-kubernetes-unions"}
    if isinstance(node, list):
        return [compact(v) for v in node]
    return node


def main():
    module = json.loads(subprocess.check_output(["go", "mod", "download", "-json", "k8s.io/kubernetes@" + VERSION], cwd="/"))
    found = {}
    for document, names in KINDS.items():
        path = pathlib.Path(module["Dir"]) / "api/openapi-spec/v3" / (document + "_openapi.json")
        schemas = json.loads(path.read_text())["components"]["schemas"]
        todo = [n for name in names for n in (name, name + "List") if n in schemas]
        todo += [name for name in SHARED if name in schemas]
        while todo:
            name = todo.pop()
            if name not in found:
                found[name] = compact(schemas[name])
                todo.extend(references(schemas[name]))
    # The options of a delete are accepted in every group; three hundred copies of that fact help nobody.
    for name in (META + "DeleteOptions", META + "WatchEvent", META + "Status"):
        gvks = found[name].get("x-kubernetes-group-version-kind", [])
        found[name]["x-kubernetes-group-version-kind"] = [g for g in gvks if g["group"] == "" and g["version"] == "v1"]
    root = pathlib.Path(__file__).resolve().parent.parent
    target = root / "crates/pure/apimodel/src/builtin/schemas.jsonl"
    lines = [name + "\t" + json.dumps(found[name], separators=(",", ":"), sort_keys=True, ensure_ascii=False)
             for name in sorted(found)]
    target.write_text("\n".join(lines) + "\n")
    print(f"{target.relative_to(root)}: {len(lines)} components, {target.stat().st_size} bytes")


if __name__ == "__main__":
    main()
