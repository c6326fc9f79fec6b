"""What no schema tells of a manifest is found: planted mistakes are."""

from typing import Any

import pytest

from paceline.launch.manifests.filling import Kind
from tests.launch.manifests.reading import KINDS, Object, at, faults, job_specs, made

JOB = 5  # where the coordinator's Job, or the JobSet, stands
COORDINATOR = {"k8s": "spec", "jobset": "spec.replicatedJobs.0.template.spec"}


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
        ("podReplacementPolicy", "TerminatingOrFailed", "podReplacementPolicy is Failed"),
        ("template.spec.restartPolicy", "OnFailure", "restartPolicy is Never"),
        ("podFailurePolicy.rules.1.action", "FailIndex", "wants backoffLimitPerIndex"),
        ("podFailurePolicy.rules.1.onExitCodes.values", [0, 75], "exit codes rise"),
        ("podFailurePolicy.rules.2.onExitCodes.values", [2, 1, 3], "exit codes rise"),
        ("podFailurePolicy.rules.0.onPodConditions", None, "about exit codes or"),
    ],
)
def test_a_mistake_within_a_job_is_found(
    kind: Kind, path: str, value: Any, told: str
) -> None:
    objects = made(kind)

    plant(objects[JOB], f"{COORDINATOR[kind]}.{path}", value)

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
        (2, "metadata.name", "x", "trainer: joins at demo, which leads nowhere"),
        (2, "spec.publishNotReadyAddresses", False, "leads nowhere"),
        (2, "spec.selector", {"app": "x"}, "Service: no pod has"),
        (3, "spec.podSelector.matchLabels", {"app": "x"}, "NetworkPolicy: no pod has"),
        (3, "spec.policyTypes", ["ingress"], "is none of"),
        (4, "spec.selector.matchLabels", {"app": "x"}, "Budget: no pod has"),
    ],
)
def test_a_mistake_between_objects_is_found(
    kind: Kind, number: int, path: str, value: Any, told: str
) -> None:
    objects = made(kind)

    plant(objects[number], path, value)

    assert any(told in found for found in faults(objects))


def test_servers_may_have_both_policies_of_trainers_and_not_one() -> None:
    objects = made("k8s")
    server, trainer = (job_specs(objects)[role] for role in ("server", "trainer"))

    server["podFailurePolicy"] = {"rules": trainer["podFailurePolicy"]["rules"][:2]}
    told = faults(objects)
    server["podFailurePolicy"]["rules"][1]["onExitCodes"]["containerName"] = "server"
    server["podReplacementPolicy"] = trainer["podReplacementPolicy"]

    assert "server: with podFailurePolicy, podReplacementPolicy is Failed" in told
    assert [found for found in faults(objects) if found.startswith("server:")] == []


@pytest.mark.parametrize("field", ["backoffLimitPerIndex", "successPolicy"])
def test_what_only_an_indexed_job_may_have_is_found_elsewhere(field: str) -> None:
    objects = made("k8s")
    plant(job_specs(objects)["server"], "completionMode", "NonIndexed")
    assert f"server: {field} wants completionMode Indexed" in faults(objects)


def test_a_wrong_value_of_a_job_set_is_found() -> None:
    objects = made("jobset")
    plant(objects[JOB], "spec.successPolicy.operator", "any")
    assert any("'any' is none of" in found for found in faults(objects))
