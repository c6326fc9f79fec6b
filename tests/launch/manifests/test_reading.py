"""What no schema tells of a manifest is found: planted mistakes are."""

from typing import Any

import pytest

from paceline.launch.manifests.filling import Kind
from tests.launch.manifests.reading import KINDS, Object, at, faults, made

JOBS = {"k8s": 5, "jobset": 4}  # where the coordinator's Job, or the JobSet, stands
COORDINATOR = {"k8s": "spec", "jobset": "spec.replicatedJobs.0.template.spec"}
TRAINERS = {"k8s": "spec", "jobset": "spec.replicatedJobs.2.template.spec"}


def plant(one: Object, path: str, value: Any) -> None:
    """Put a value where a path leads; None takes away what is there."""
    *way, last = at(path)
    node: Any = one
    for key in way:
        node = node[key]
    if value is None:
        del node[last]
    else:
        node[last] = value


@pytest.mark.parametrize("kind", KINDS)
def test_a_manifest_is_without_faults(kind: Kind) -> None:
    assert faults(made(kind)) == []


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("path", "value", "told"),
    [
        ("template.spec.restartPolicy", "Neverr", "'Neverr' is none of"),
        ("completionMode", "Indexd", "'Indexd' is none of"),
        ("podReplacementPolicy", "failed", "'failed' is none of"),
        ("podFailurePolicy.rules.2.action", "FailJobb", "'FailJobb' is none of"),
        ("podFailurePolicy.rules.2.onExitCodes.operator", "in", "'in' is none of"),
        ("podFailurePolicy.rules.2.onExitCodes.containerName", "x", "no such container"),
        ("template.spec.volumes.0.secret.secretName", "x", "there is no Secret x"),
        ("template.spec.volumes.1.name", "x", "volumes are"),
        ("template.spec.containers.0.env.0.value", "/x", "is expected at /x"),
        ("template.spec.containers.0.env.0.name", "X", "is expected at None"),
        (
            "template.spec.containers.0.volumeMounts.0.mountPath",
            "/x",
            "is at {'/x/secret'}",
        ),
        ("template.spec.containers.0.envFrom", [{"secretRef": {"name": "x"}}], "Secret x"),
        ("template.spec.serviceAccountName", "x", "there is no ServiceAccount x"),
    ],
)
def test_a_mistake_within_a_job_is_found(
    kind: Kind, path: str, value: Any, told: str
) -> None:
    objects = made(kind)

    plant(objects[JOBS[kind]], f"{COORDINATOR[kind]}.{path}", value)

    [fault] = [found for found in faults(objects) if told in found]
    assert fault


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("number", "path", "value", "told"),
    [
        (0, "metadata.name", "x", "there is no Secret demo"),
        (0, "stringData", {"key": "x"}, "the secret is expected at"),
        (1, "metadata.name", "x", "there is no PersistentVolumeClaim demo"),
        (1, "spec.accessModes", ["ReadWriteOncePods"], "is none of"),
        (2, "spec.podSelector.matchLabels", {"app": "x"}, "NetworkPolicy: no pod has"),
        (2, "spec.policyTypes", ["ingress"], "is none of"),
        (3, "spec.selector.matchLabels", {"app": "x"}, "Budget: no pod has"),
    ],
)
def test_a_mistake_between_objects_is_found(
    kind: Kind, number: int, path: str, value: Any, told: str
) -> None:
    objects = made(kind)

    plant(objects[number], path, value)

    assert any(told in found for found in faults(objects))


def test_a_name_that_leads_to_no_coordinator_is_found() -> None:
    plain, jobset = made("k8s"), made("jobset")

    plant(plain[4], "metadata.name", "x")
    plant(jobset[4], "spec.replicatedJobs.0.name", "x")

    for objects in (plain, jobset):
        told = [found for found in faults(objects) if "leads nowhere" in found]
        assert len(told) == 2
    quiet = made("k8s")
    plant(quiet[4], "spec.publishNotReadyAddresses", False)
    assert any("leads nowhere" in found for found in faults(quiet))


def test_a_wrong_value_of_a_job_set_is_found() -> None:
    objects = made("jobset")
    plant(objects[4], "spec.successPolicy.operator", "any")
    assert any("'any' is none of" in found for found in faults(objects))
