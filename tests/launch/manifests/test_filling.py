"""A manifest says what a job is; no word of a user is more than a word in it."""

import re
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from paceline.launch.manifests.filling import (
    Kind,
    filled,
    manifest_of,
    quoted,
    quoted_word,
)
from paceline.launch.manifests.wish import needs_by_role, shared_place
from paceline.transport.handshake import Secret
from tests.launch.manifests.reading import (
    KINDS,
    Object,
    faults,
    job_specs,
    made,
    objects_of,
    wish,
)

ROOT = Path(__file__).parents[3]
TEXTS = st.text(st.characters(exclude_categories=["Cs"]))
ODD = (
    *("", "'", '"', "a: b", "- a", "# a", "a\nkind: Job\n---\n", "\\", "%", "<b>&amp;</b>"),
    *(
        "${name}",
        "$(HOME)",
        "$$(HOME)",
        "null",
        "0400",
        "\x85\u2028\ufeff\x00\x7f",
        "\U0001f600",
    ),
)


def each_kind(test: Callable[..., None]) -> Callable[..., None]:
    return pytest.mark.parametrize("kind", KINDS)(test)


def container(objects: list[Object], role: str) -> Object:
    found: Object = job_specs(objects)[role]["template"]["spec"]["containers"][0]
    return found


@given(TEXTS)
def test_a_quoted_text_is_read_as_it_was(text: str) -> None:
    assert yaml.safe_load(quoted(text)) == text
    assert "\n" not in quoted(text)


@given(TEXTS)
def test_a_word_has_no_variable_of_a_kubelet_in_it(text: str) -> None:
    read = yaml.safe_load(quoted_word(text))
    assert not re.sub(r"\$\$", "", read).count("$")
    assert read.replace("$$", "$") == text


@each_kind
def test_no_word_breaks_out_of_a_manifest(kind: Kind) -> None:
    plain = made(kind)

    odd = made(kind, words=ODD)

    assert len(odd) == len(plain)
    command = container(odd, "coordinator")["command"]
    assert [word.replace("$$", "$") for word in command[-len(ODD) :]] == list(ODD)
    assert not faults(odd)


@settings(max_examples=10, deadline=None)
@given(st.lists(TEXTS, min_size=1, max_size=4))
def test_no_words_break_out_of_a_manifest(words: list[str]) -> None:
    text = manifest_of(wish(words=tuple(words)), "jobset", Secret.fresh())
    command = container(objects_of(text), "coordinator")["command"]
    assert [word.replace("$$", "$") for word in command[-len(words) :]] == words


@each_kind
def test_a_manifest_has_a_secret_of_its_own_in_one_place_alone(kind: Kind) -> None:
    secret = Secret.fresh()

    text = manifest_of(wish(), kind, secret)

    assert text.count(secret.text()) == 1
    [found] = [one for one in objects_of(text) if one["kind"] == "Secret"]
    assert found["stringData"] == {"secret": secret.text()}


@each_kind
def test_a_job_has_as_many_pods_as_it_may_have_roles(kind: Kind) -> None:
    specs = job_specs(made(kind, trainers=64, servers=16))

    counts = {
        role: (spec["completions"], spec["parallelism"]) for role, spec in specs.items()
    }
    assert counts == {"coordinator": (1, 1), "server": (16, 16), "trainer": (64, 64)}


@each_kind
def test_all_pods_find_the_coordinator_by_the_name_that_it_says(kind: Kind) -> None:
    objects = made(kind)

    command = container(objects, "coordinator")["command"]
    name = command[command.index("--advertise") + 1]
    assert name == "demo"
    for role in ("server", "trainer"):
        assert container(objects, role)["command"][:5] == [
            *("paceline", "role", role, "--join", f"{name}:7070")
        ]


@each_kind
def test_ends_mean_to_a_cluster_what_they_mean(kind: Kind) -> None:
    specs = job_specs(made(kind))

    def meant(role: str) -> dict[Any, str]:
        rules = specs[role].get("podFailurePolicy", {"rules": ()})["rules"]
        found: dict[Any, str] = {}
        for rule in rules:
            values = rule["onExitCodes"]["values"] if "onExitCodes" in rule else ["lost"]
            found |= dict.fromkeys(values, rule["action"])
        return found

    going_on = {"lost": "Ignore", 75: "Ignore"}
    failing = dict.fromkeys((1, 2, 3), "FailJob")
    assert meant("coordinator") == going_on | failing
    assert meant("trainer") == going_on | {2: "FailIndex"}
    assert meant("server") == {}
    assert specs["server"]["podReplacementPolicy"] == "TerminatingOrFailed"
    assert [specs[role]["backoffLimitPerIndex"] for role in ("server", "trainer")] == [
        20
    ] * 2
    assert [specs[role].get("successPolicy") for role in ("server", "trainer")] == [
        {"rules": [{"succeededCount": 1}]}
    ] * 2


@each_kind
def test_pods_run_as_nobody_in_particular_and_know_no_cluster(kind: Kind) -> None:
    for spec in job_specs(made(kind, user=4711)).values():
        pod = spec["template"]["spec"]
        assert (
            pod["securityContext"]["runAsUser"] == pod["securityContext"]["fsGroup"] == 4711
        )
        assert not pod["automountServiceAccountToken"]
        assert not pod["enableServiceLinks"]
        [inside] = pod["containers"]
        assert inside["securityContext"]["capabilities"] == {"drop": ["ALL"]}
        [secret] = [one["secret"] for one in pod["volumes"] if one["name"] == "secret"]
        assert secret["defaultMode"] == 0o400


@each_kind
def test_only_pods_of_the_job_reach_the_ports_that_it_has(kind: Kind) -> None:
    objects = made(kind)

    [policy] = [one["spec"] for one in objects if one["kind"] == "NetworkPolicy"]
    [let_in] = policy["ingress"]
    [ports] = let_in["ports"]
    assert let_in["from"] == [{"podSelector": policy["podSelector"]}]
    for role, spec in job_specs(objects).items():
        command = container(objects, role)["command"]
        first, last = map(int, command[command.index("--ports") + 1].split("-"))
        assert ports["port"] <= first < last <= ports["endPort"]
        assert policy["podSelector"]["matchLabels"].items() <= (
            spec["template"]["metadata"]["labels"].items()
        )


def test_what_is_said_of_pods_is_in_the_manifest() -> None:
    objects = made(
        "k8s",
        place=shared_place("claim:shared/a/cuts"),
        needs=needs_by_role("trainer=8,server=500m", "64Gi"),
        gpus=2,
        ranks_per_trainer=2,
        namespace="team",
        storage="1Ti",
        storage_class="fast",
        env_from="keys",
        service_account="reader",
        is_plain=True,
    )

    assert {one["metadata"]["namespace"] for one in objects} == {"team"}
    inside = container(objects, "trainer")
    assert inside["resources"]["requests"] == {"cpu": "8", "memory": "64Gi"}
    assert inside["resources"]["limits"] == {"memory": "64Gi", "nvidia.com/gpu": 2}
    assert {"name": "OMP_NUM_THREADS", "value": "4"} in inside["env"]
    assert container(objects, "server")["resources"]["requests"]["cpu"] == "500m"
    command = container(objects, "coordinator")["command"]
    assert "/run/paceline/checkpoints/a/cuts" in command
    assert all(
        "--plain" in container(objects, role)["command"] for role in ("server", "trainer")
    )
    assert "--plain" in command
    [claim] = [o["spec"] for o in objects if o["kind"] == "PersistentVolumeClaim"]
    assert claim["storageClassName"] == "fast"
    assert claim["resources"] == {"requests": {"storage": "1Ti"}}
    assert not faults(objects, outside=("keys", "reader", "shared"))
    assert len(faults(objects)) == 3 * 3, "each role needs all three"


def test_drains_take_one_server_at_a_time() -> None:
    for servers, least in ((1, 0), (16, 15)):
        objects = made("k8s", servers=servers)
        [budget] = [o["spec"] for o in objects if o["kind"] == "PodDisruptionBudget"]
        assert budget["minAvailable"] == least


def test_a_gap_alone_on_a_line_takes_lines_or_none() -> None:
    template = "a:\n  ${lines}\n  ${nothing}\nb: ${word}\n"
    gaps = {"lines": "- 1\n-\n  2", "nothing": "", "word": "$(x)"}
    assert filled(template, gaps) == "a:\n  - 1\n  -\n    2\nb: $(x)\n"
    with pytest.raises(KeyError):
        filled("${unknown}", {})


def test_templates_are_in_what_is_installed() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    package = ROOT / "src" / "paceline"
    patterns = project["tool"]["setuptools"]["package-data"]["paceline"]
    installed = {path for pattern in patterns for path in package.glob(pattern)}
    assert set(package.rglob("*.yaml")) <= installed
