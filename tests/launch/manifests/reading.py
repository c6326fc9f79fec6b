"""Manifests as tests read them, and what is wrong with one that no schema would tell.

::

    values    fields whose values Kubernetes takes from a list
    links     names of other objects, of containers and of volumes, that lead nowhere
    pairs     fields of a Job that an API server does not take together

Pure.
"""

import functools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import yaml

from paceline.launch.manifests.filling import Kind, manifest_of
from paceline.launch.manifests.wish import ManifestWish, needs_by_role, shared_place
from paceline.transport.handshake import Secret

Object = dict[str, Any]
Place = tuple[str, ...]
KINDS: tuple[Kind, ...] = ("k8s", "jobset")
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

# {field, behind the one that has it where that matters: what it may be}
VALUES: Mapping[Place, set[str]] = {
    ("kind",): {
        *("Secret", "PersistentVolumeClaim", "NetworkPolicy", "PodDisruptionBudget"),
        *("Service", "Job", "JobSet"),
    },
    ("restartPolicy",): {"Never", "OnFailure"},  # of a Job's pods
    ("completionMode",): {"Indexed", "NonIndexed"},
    ("podReplacementPolicy",): {"Failed", "TerminatingOrFailed"},
    ("podFailurePolicy", "rules", "action"): {"FailJob", "FailIndex", "Ignore", "Count"},
    ("onExitCodes", "operator"): {"In", "NotIn"},
    ("onPodConditions", "status"): {"True", "False", "Unknown"},
    ("onPodConditions", "type"): {"DisruptionTarget"},
    ("tolerations", "operator"): {"Exists", "Equal"},
    ("tolerations", "effect"): {"NoSchedule", "PreferNoSchedule", "NoExecute"},
    ("successPolicy", "operator"): {"All", "Any"},
    ("accessModes",): {
        *("ReadWriteOnce", "ReadOnlyMany", "ReadWriteMany", "ReadWriteOncePod"),
    },
    ("policyTypes",): {"Ingress", "Egress"},
    ("protocol",): {"TCP", "UDP", "SCTP"},
    ("fsGroupChangePolicy",): {"OnRootMismatch", "Always"},
    ("seccompProfile", "type"): {"RuntimeDefault", "Localhost", "Unconfined"},
    ("whenUnsatisfiable",): {"DoNotSchedule", "ScheduleAnyway"},
    ("medium",): {"", "Memory"},
    ("clusterIP",): {"None"},
}


def wish(**said: Any) -> ManifestWish:
    """A job of a few pods."""
    usual: dict[str, Any] = {
        "name": "demo",
        "image": "registry.example/job:1",
        "place": shared_place("s3://bucket/cuts"),
        "words": ("--trainers", "2:3", "--servers", "2", "train.py"),
        "trainers": 3,
        "servers": 2,
        "needs": needs_by_role(None, None),
    }
    return ManifestWish(**usual | said)


def objects_of(text: str) -> list[Object]:
    """The objects of a manifest."""
    return list(yaml.load_all(text, _LOADER))


def made(kind: Kind, **said: Any) -> list[Object]:
    """The objects that a job is for a kind."""
    return objects_of(manifest_of(wish(**said), kind, Secret.fresh()))


def job_specs(objects: Sequence[Object]) -> dict[str, Object]:
    """Of Jobs, also those of a JobSet: {role: spec}."""
    specs = [one["spec"] for one in objects if one["kind"] == "Job"]
    for one in objects:
        if one["kind"] == "JobSet":
            specs += [job["template"]["spec"] for job in one["spec"]["replicatedJobs"]]
    return {spec["template"]["spec"]["containers"][0]["name"]: spec for spec in specs}


def faults(objects: Sequence[Object], outside: Sequence[str] = ()) -> list[str]:
    """What is wrong with a manifest; ``outside`` names objects that a cluster has."""
    wrong = [told for one in objects for told in _wrong_values(one, ())]
    there = {(one["kind"], one["metadata"]["name"]) for one in objects}
    for role, spec in job_specs(objects).items():
        for kind, name in _named(spec["template"]["spec"]):
            if (kind, name) not in there and name not in outside:
                wrong.append(f"{role}: there is no {kind} {name}")
        wrong += [f"{role}: {told}" for told in (*_loose(spec), *_refused(spec))]
    return wrong + _unselected(objects) + _unreached(objects) + _without_secret(objects)


def _wrong_values(node: Any, place: Place) -> Iterator[str]:
    if isinstance(node, dict):
        for key, value in node.items():
            yield from _wrong_values(value, (*place, key))
    elif isinstance(node, list):
        for value in node:
            yield from _wrong_values(value, place)
    else:
        for field, values in VALUES.items():
            if place[-len(field) :] == field and node not in values:
                yield f"{'.'.join(place)}: {node!r} is none of {sorted(values)}"


def _named(pod: Object) -> Iterator[tuple[str, str]]:
    """Objects that a pod needs: (kind, name)."""
    for volume in pod.get("volumes", ()):
        if "secret" in volume:
            yield "Secret", volume["secret"]["secretName"]
        if "persistentVolumeClaim" in volume:
            yield "PersistentVolumeClaim", volume["persistentVolumeClaim"]["claimName"]
    if "serviceAccountName" in pod:
        yield "ServiceAccount", pod["serviceAccountName"]
    for container in pod["containers"]:
        for source in container.get("envFrom", ()):
            yield "Secret", source["secretRef"]["name"]
        for variable in container.get("env", ()):
            if "valueFrom" in variable:
                yield "Secret", variable["valueFrom"]["secretKeyRef"]["name"]


def _loose(spec: Object) -> Iterator[str]:
    """Names within one Job that lead nowhere."""
    pod = spec["template"]["spec"]
    containers = {one["name"] for one in pod["containers"]}
    for rule in spec.get("podFailurePolicy", {}).get("rules", ()):
        name = rule.get("onExitCodes", {}).get("containerName")
        if name is not None and name not in containers:
            yield f"a rule is about {name}, and there is no such container"
    volumes = {one["name"] for one in pod.get("volumes", ())}
    for container in pod["containers"]:
        mounted = {one["name"] for one in container.get("volumeMounts", ())}
        if mounted != volumes:
            yield f"volumes are {sorted(volumes)}, and {sorted(mounted)} are mounted"


def _refused(spec: Object) -> Iterator[str]:
    """What `ValidateJob` of Kubernetes says of fields that do not go together."""
    if spec["completionMode"] != "Indexed":
        for field in ("backoffLimitPerIndex", "successPolicy"):
            if field in spec:
                yield f"{field} wants completionMode Indexed"
    if "podFailurePolicy" not in spec:
        return
    if spec.get("podReplacementPolicy", "Failed") != "Failed":
        yield "with podFailurePolicy, podReplacementPolicy is Failed"
    if spec["template"]["spec"]["restartPolicy"] != "Never":
        yield "with podFailurePolicy, restartPolicy is Never"
    yield from _refused_rules(spec)


def _refused_rules(spec: Object) -> Iterator[str]:
    for rule in spec["podFailurePolicy"]["rules"]:
        if len(rule.keys() & {"onExitCodes", "onPodConditions"}) != 1:
            yield "a rule is about exit codes or about conditions"
        if rule["action"] == "FailIndex" and "backoffLimitPerIndex" not in spec:
            yield "FailIndex wants backoffLimitPerIndex"
        codes = rule.get("onExitCodes", {"values": [1]})["values"]
        if codes != sorted(set(codes) - {0}) or not codes:
            yield f"exit codes rise, and 0 is none of them: {codes}"


def _unselected(objects: Sequence[Object]) -> Iterator[str] | list[str]:
    """Selectors that no pod has the labels of."""
    pods = [spec["template"]["metadata"]["labels"] for spec in job_specs(objects).values()]
    found = []
    for one in objects:
        spec = one.get("spec", {})
        at_labels = [spec.get(key, {}) for key in ("selector", "podSelector")]
        for selector in at_labels:
            labels = selector.get("matchLabels", selector).items()
            if labels and not any(labels <= pod.items() for pod in pods):
                found.append(f"{one['kind']}: no pod has {dict(labels)}")
    return found


def _unreached(objects: Sequence[Object]) -> list[str]:
    """Names that roles join at, which lead to no coordinator."""
    known = {
        one["metadata"]["name"]
        for one in objects
        if one["kind"] == "Service" and one["spec"]["publishNotReadyAddresses"]
    }
    joined = {
        role: command[command.index("--join") + 1].partition(":")[0]
        for role, spec in job_specs(objects).items()
        if "--join" in (command := spec["template"]["spec"]["containers"][0]["command"])
    }
    return [
        f"{role}: joins at {name}, which leads nowhere"
        for role, name in joined.items()
        if name not in known
    ]


def _without_secret(objects: Sequence[Object]) -> list[str]:
    """Roles whose file of the secret is not where it is mounted."""
    wrong = []
    for role, spec in job_specs(objects).items():
        pod = spec["template"]["spec"]
        [container] = pod["containers"]
        variables = {one["name"]: one.get("value") for one in container["env"]}
        file = variables.get("PACELINE_SECRET_FILE")
        files = {
            f"{mount['mountPath']}/{key}"
            for mount, volume in _pairs(container, pod)
            for one in objects
            if one["kind"] == "Secret"
            and one["metadata"]["name"] == volume.get("secret", {}).get("secretName")
            for key in {**one.get("stringData", {}), **one.get("data", {})}
        }
        if file not in files:
            wrong.append(f"{role}: the secret is expected at {file}, and is at {files}")
    return wrong


def _pairs(container: Object, pod: Object) -> Iterator[tuple[Object, Object]]:
    volumes = {one["name"]: one for one in pod.get("volumes", ())}
    for mount in container.get("volumeMounts", ()):
        if mount["name"] in volumes:
            yield mount, volumes[mount["name"]]


@functools.cache
def at(path: str) -> tuple[str | int, ...]:
    """A path as a test writes it: ``spec.rules.0.action``."""
    return tuple(int(key) if key.isdecimal() else key for key in path.split("."))
