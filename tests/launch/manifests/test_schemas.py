"""Manifests are what the schemas of Kubernetes and of JobSet take, and no key more."""

import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from paceline.launch.manifests.wish import shared_place
from tests.launch.manifests.reading import Object, made
from tests.launch.manifests.test_reading import COORDINATOR, JOB, plant

pytestmark = [pytest.mark.around, pytest.mark.slow]
JOBSET = Path(__file__).parent / "jobset" / "schema.json"
OLDEST, NEWEST = "1.33", "1.37"
FULL: dict[str, Any] = {
    "place": shared_place("claim:shared/cuts"),
    "gpus": 1,
    "namespace": "team",
    "storage_class": "fast",
    "env_from": "keys",
    "service_account": "reader",
}


def complaint(one: Object, version: str = NEWEST) -> str:
    """What a schema says against an object; empty: nothing."""
    if one["kind"] == "JobSet":
        return complaint_of_job_set(one)
    import kubernetes_validate  # noqa: PLC0415

    try:
        kubernetes_validate.validate(one, version, strict=True)
    except kubernetes_validate.ValidationError as error:
        return str(error.message)
    return ""


def complaint_of_job_set(one: Object) -> str:
    import jsonschema  # noqa: PLC0415

    validator = jsonschema.Draft202012Validator(schema())
    return "; ".join(error.message for error in validator.iter_errors(one))


@cache
def schema() -> Object:
    """That of a JobSet, which takes no key that it does not name."""
    read = json.loads(JOBSET.read_text(encoding="utf-8"))
    read["properties"]["metadata"] = {"type": "object"}  # which every object has
    found: Object = strict(read)
    return found


def strict(node: Any) -> Any:
    """A schema in which an object has the properties that are named, and no others."""
    if isinstance(node, list):
        return [strict(one) for one in node]
    if not isinstance(node, dict):
        return node
    inner = {key: strict(value) for key, value in node.items()}
    if node.get("x-kubernetes-int-or-string"):
        return {"type": ["integer", "string"]}
    if isinstance(node.get("properties"), dict) and node.get("type") == "object":
        inner.setdefault("additionalProperties", False)
    return inner


@pytest.mark.parametrize("version", [OLDEST, NEWEST])
@pytest.mark.parametrize("said", [{}, FULL])
def test_plain_objects_are_what_kubernetes_takes(
    version: str, said: dict[str, Any]
) -> None:
    objects = made("k8s", **said)
    assert len(objects) == 8
    assert [complaint(one, version) for one in objects] == [""] * 8


@pytest.mark.parametrize("said", [{}, FULL])
def test_a_job_set_is_what_its_controller_takes(said: dict[str, Any]) -> None:
    objects = made("jobset", **said)
    assert [one["kind"] for one in objects].count("JobSet") == 1
    assert [complaint(one) for one in objects] == [""] * 6


@pytest.mark.parametrize(
    ("path", "value", "told"),
    [
        ("template.spec.restartPolcy", "Never", "restartPolcy"),
        ("template.spec.containers.0.imag", "x", "imag"),
        ("parallelism", "two", "'two'"),
        ("podFailurePolicy.rules.0.onExitCode", {}, "onExitCode"),
        ("template.spec.containers.0.name", None, "'name' is a required property"),
        ("template.spec.containers.0.command", "paceline role", "paceline role"),
    ],
)
@pytest.mark.parametrize("kind", ["k8s", "jobset"])
def test_a_mistyped_key_or_value_is_found(
    kind: Any, path: str, value: Any, told: str
) -> None:
    objects = made(kind)

    plant(objects[JOB], f"{COORDINATOR[kind]}.{path}", value)

    assert told in complaint(objects[JOB])


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("spec.succesPolicy", {}),
        ("spec.successPolicy.operator", "any"),
        ("spec.network.enableDNSHostname", True),
        ("spec.replicatedJobs.0.replica", 1),
    ],
)
def test_a_mistake_of_a_job_set_is_found(path: str, value: Any) -> None:
    objects = made("jobset")
    plant(objects[JOB], path, value)
    assert complaint(objects[JOB])
