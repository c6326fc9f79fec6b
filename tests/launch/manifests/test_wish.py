"""What a cluster would refuse is refused before, by the option that says it."""

import pytest

from paceline.errors import UsageError
from paceline.launch.manifests.wish import (
    MOST_NAME,
    RoleNeeds,
    SharedPlace,
    needs_by_role,
    require_count,
    require_image,
    require_label,
    require_name,
    require_quantity,
    shared_place,
)


@pytest.mark.parametrize("text", ["a", "train-2", "a" * MOST_NAME])
def test_a_dns_label_is_a_name(text: str) -> None:
    assert require_label("--name", text, MOST_NAME) == text


@pytest.mark.parametrize(
    "text", ["", "1a", "-a", "a-", "A", "a_b", "a.b", "a" * 41, "a\n", "a: b", "é", '"a"']
)
def test_no_dns_label_is_refused_by_name(text: str) -> None:
    with pytest.raises(UsageError, match="--name: expected at most 40 small letters"):
        require_label("--name", text, MOST_NAME)


def test_a_namespace_may_begin_with_a_digit() -> None:
    assert require_label("--namespace", "3d-team", is_namespace=True) == "3d-team"
    with pytest.raises(UsageError, match="no hyphen first or last, got '-a'"):
        require_label("--namespace", "-a", is_namespace=True)


@pytest.mark.parametrize("text", ["keys", "a.b-c.d", "0"])
def test_a_dns_name_names_an_object(text: str) -> None:
    assert require_name("--env-from", text) == text


@pytest.mark.parametrize("text", ["", "A", "a..b", ".a", "a.", "a/b", "a\n", "a" * 254])
def test_no_dns_name_names_no_object(text: str) -> None:
    with pytest.raises(UsageError, match="--env-from: expected the name of an object"):
        require_name("--env-from", text)


@pytest.mark.parametrize(
    "text", ["a", "registry.example:5000/team/job:1.2", "job@sha256:" + "0" * 64]
)
def test_an_image_is_taken(text: str) -> None:
    assert require_image(text) == text


@pytest.mark.parametrize("text", ["", "-a", "a b", "a\nb", 'a"', "a$b", ":1"])
def test_no_image_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="--image: expected"):
        require_image(text)


@pytest.mark.parametrize("text", ["10Gi", "500Mi", "1.5Ti", "1000000000", "5k"])
def test_an_amount_is_taken(text: str) -> None:
    assert require_quantity("--storage", text) == text


@pytest.mark.parametrize(
    "text", ["", "10GB", "-1Gi", "0", "0Gi", "1e9", "10 Gi", "10Gi\n", "m"]
)
def test_no_amount_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="--storage: expected an amount such as 8Gi"):
        require_quantity("--storage", text)


def test_pods_ask_for_what_is_said_and_else_for_the_usual() -> None:
    needs = needs_by_role("trainer=8,server=500m", "64Gi")
    assert needs == {
        "coordinator": RoleNeeds("1", "64Gi"),
        "server": RoleNeeds("500m", "64Gi"),
        "trainer": RoleNeeds("8", "64Gi"),
    }


@pytest.mark.parametrize(
    ("cpu", "told"),
    [
        ("four", "--cpu: expected a number such as 4, 1.5 or 500m, got 'four'"),
        ("0", "got '0'"),
        ("trainer=", "got ''"),
        ("rank=4", "for each of coordinator, server, trainer once"),
        ("trainer=4,trainer=8", "got 'trainer=8'"),
        ("trainer=4,", "got ''"),
    ],
)
def test_no_need_is_refused(cpu: str, told: str) -> None:
    with pytest.raises(UsageError, match=told):
        needs_by_role(cpu, None)


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("s3://bucket/cuts", SharedPlace("s3://bucket/cuts")),
        ("claim:shared/a/cuts", SharedPlace("a/cuts", "shared")),
    ],
)
def test_a_place_that_all_pods_reach_is_taken(text: str, place: SharedPlace) -> None:
    assert shared_place(text) == place


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("cuts", "each container has its own disk"),
        ("/shared/cuts", "each container has its own disk"),
        ("file:///shared/cuts", "each container has its own disk"),
        ("memory://cuts", "each container has its own disk"),
        ("s3://", "each container has its own disk"),
        ("claim:shared", "expected claim:NAME/FOLDER"),
        ("claim:shared/", "expected claim:NAME/FOLDER"),
        ("claim:shared/../cuts", "expected claim:NAME/FOLDER"),
        ("claim:Shared/cuts", "expected the name of an object"),
    ],
)
def test_a_place_of_one_container_is_refused(text: str, told: str) -> None:
    with pytest.raises(UsageError, match=told):
        shared_place(text)


@pytest.mark.parametrize("number", [0, 11])
def test_a_number_out_of_bounds_is_refused(number: int) -> None:
    assert require_count("--gpus", 10, 1, 10) == 10
    with pytest.raises(UsageError, match="--gpus: expected 1 to 10"):
        require_count("--gpus", number, 1, 10)
