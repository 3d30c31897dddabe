#!/usr/bin/env python3
"""Extracts how the built-in kinds are written in protobuf from the files that Kubernetes publishes.

NOTICE: the output is derived from k8s.io/api, k8s.io/apimachinery and k8s.io/apiextensions-apiserver (generated.proto and
the Go types), Copyright The Kubernetes Authors, licensed under the Apache License, Version 2.0.

Usage: scripts/builtin-protobuf.py [VERSION]   (needs `go`; writes crates/pure/apimodel/src/builtin/protobuf.txt)

Output: first the kinds, `APIVERSION KIND<TAB>MESSAGE`, then the messages, `MESSAGE<TAB>FIELD,FIELD…`, both sorted. A field is
`NUMBER NAME TYPE [FLAGS]` with the name that it has in JSON. Flags: `r` repeated, `m` map with text keys, `i` its fields
stand in the parent itself, `z` left out when zero. Protobuf does not tell a pointer from a plain field: Go writes a plain
field even when it is zero, so `z` marks the plain fields that the Go types leave out of JSON then. A message that is a list
in Go, and so in JSON, has the flag `l` on its only field.
"""
import json
import pathlib
import re
import subprocess
import sys

VERSION = sys.argv[1] if len(sys.argv) > 1 else "v0.36.3"
MODULES = ("api", "apimachinery", "apiextensions-apiserver")
APIEXTENSIONS = "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
META = "k8s.io/apimachinery/pkg/apis/meta/v1"
# API version: the package of its types, and the kinds.
KINDS = {
    "v1": ("k8s.io/api/core/v1", "Namespace Secret ConfigMap Event ServiceAccount Service Pod Endpoints Node "
           "PersistentVolumeClaim LimitRange ResourceQuota"),
    "events.k8s.io/v1": ("k8s.io/api/events/v1", "Event"),
    "apps/v1": ("k8s.io/api/apps/v1", "Deployment ReplicaSet StatefulSet DaemonSet ControllerRevision"),
    "autoscaling/v1": ("k8s.io/api/autoscaling/v1", "Scale"),
    "batch/v1": ("k8s.io/api/batch/v1", "Job CronJob"),
    "networking.k8s.io/v1": ("k8s.io/api/networking/v1", "Ingress IngressClass"),
    "coordination.k8s.io/v1": ("k8s.io/api/coordination/v1", "Lease"),
    "discovery.k8s.io/v1": ("k8s.io/api/discovery/v1", "EndpointSlice"),
    "rbac.authorization.k8s.io/v1": ("k8s.io/api/rbac/v1", "Role RoleBinding ClusterRole ClusterRoleBinding"),
    "apiextensions.k8s.io/v1": (APIEXTENSIONS, "CustomResourceDefinition"),
    "authentication.k8s.io/v1": ("k8s.io/api/authentication/v1", "SelfSubjectReview"),
    "authorization.k8s.io/v1": ("k8s.io/api/authorization/v1", "SelfSubjectAccessReview SelfSubjectRulesReview"),
    "meta.k8s.io/v1": (META, "DeleteOptions"),
}
SCALARS = ("string", "bytes", "bool", "int32", "int64", "double")
# Their JSON form is not an object of their fields; the decoder knows them by name.
SPECIAL = {f"{META}.{name}" for name in ("Time", "MicroTime", "Duration", "FieldsV1")} | {
    "k8s.io/apimachinery/pkg/api/resource.Quantity",
    "k8s.io/apimachinery/pkg/util/intstr.IntOrString",
    "k8s.io/apimachinery/pkg/runtime.RawExtension",
    APIEXTENSIONS + ".JSON",
}
PROTO_FIELD = re.compile(r"^  (optional|repeated|required|map<string, ([\w./]+)>)(?: ([\w./]+))? (\w+) = (\d+);$", re.M)
GO_FIELD = re.compile(r'^\t(\w+\s+)?(\S+)\s+`(?:(?=.*json:"([^"]*)"))?(?=.*protobuf:"\w+,(\d+),)', re.M)


def short(message):
    """`k8s.io/api/core/v1.Pod` as `core/v1.Pod`: packages are told apart by their last words."""
    package, name = message.rsplit(".", 1)
    words = package.split("/")
    return ("/".join(words[-2:]) if re.fullmatch(r"v\d\w*", words[-1]) else words[-1]) + "." + name


class Packages:
    """The messages of the published packages, each package read when first asked for."""

    def __init__(self):
        self.roots, self.packages = {}, {}
        for module in MODULES:
            command = ["go", "mod", "download", "-json", f"k8s.io/{module}@{VERSION}"]
            self.roots["k8s.io/" + module] = pathlib.Path(json.loads(subprocess.check_output(command, cwd="/"))["Dir"])

    def package(self, name):
        if name not in self.packages:
            module = next(m for m in self.roots if name.startswith(m + "/"))
            folder = self.roots[module] / name[len(module) + 1:]
            proto = dict(re.findall(r"^message (\w+) \{\n(.*?)^\}", (folder / "generated.proto").read_text(), re.M | re.S))
            go = "\n".join(p.read_text() for p in sorted(folder.glob("*.go")) if not p.name.endswith("_test.go"))
            structs = dict(re.findall(r"^type (\w+) struct \{\n(.*?)^\}", go, re.M | re.S))
            lists = set(re.findall(r"^type (\w+) \[\]", go, re.M))
            self.packages[name] = proto, structs, lists
        return self.packages[name]

    def resolve(self, package, kind):
        """The full name of a type as a field of `package` writes it."""
        if kind in SCALARS:
            return kind
        if not kind.startswith("."):
            assert re.fullmatch(r"[A-Z]\w*", kind), f"unknown scalar {kind} in {package}"
            return f"{package}.{kind}"
        path, name = kind[1:].rsplit(".", 1)
        return "k8s.io/" + path.removeprefix("k8s.io.").replace(".", "/") + "." + name

    def fields(self, message):
        """(number, JSON name, type, flags) of every field of a message."""
        package, name = message.rsplit(".", 1)
        proto, structs, lists = self.package(package)
        body = re.sub(r"^\s*//.*\n", "", proto[name], flags=re.M)
        go = {int(number): (bool(field), kind, tag.split(","))
              for field, kind, tag, number in GO_FIELD.findall(structs.get(name, ""))}
        assert body.count(";") == len(PROTO_FIELD.findall(body)), f"unread fields in {message}"
        for label, value, kind, proto_name, number in PROTO_FIELD.findall(body):
            kind = self.resolve(package, value or kind)
            if name in lists:
                assert (proto_name, label) == ("items", "repeated"), f"{message} is a list of another form"
                yield int(number), proto_name, kind, "rl"
                continue
            assert int(number) in go, f"{message}.{proto_name} is not in the Go type"
            named, go_kind, (json_name, *options) = go[int(number)]
            flags = "r" if label == "repeated" else "m" if value else ""
            if not json_name and not named:
                flags += "i"
            elif not flags and not go_kind.startswith("*") and {"omitempty", "omitzero"} & set(options):
                flags = "z"
            yield int(number), json_name or proto_name, kind, flags


def main():
    packages = Packages()
    kinds = {f"{api_version} {kind}": f"{package}.{kind}"
             for api_version, (package, names) in KINDS.items() for kind in names.split()}
    found, todo = {}, list(kinds.values())
    while todo:
        message = todo.pop()
        if message in found or message in SPECIAL:
            continue
        found[message] = sorted(packages.fields(message))
        todo.extend(kind for _, _, kind, _ in found[message] if kind not in SCALARS)
    assert len({short(message) for message in found} | {short(m) for m in SPECIAL}) == len(found) + len(SPECIAL)
    lines = [f"{kind}\t{short(message)}" for kind, message in sorted(kinds.items())]
    for message in sorted(found, key=short):
        fields = (f"{number} {name} {kind if kind in SCALARS else short(kind)} {flags}".rstrip()
                  for number, name, kind, flags in found[message])
        lines.append(short(message) + "\t" + ",".join(fields))
    root = pathlib.Path(__file__).resolve().parent.parent
    target = root / "crates/pure/apimodel/src/builtin/protobuf.txt"
    target.write_text("\n".join(lines) + "\n")
    print(f"{target.relative_to(root)}: {len(kinds)} kinds, {len(found)} messages, {target.stat().st_size} bytes")


if __name__ == "__main__":
    main()
