"""A server stays in touch with its coordinator, whatever happens to that."""

from collections.abc import Callable

import pytest

from paceline.errors import JobFailed
from paceline.messages.server import CreatePart, MarksReport, SendMarks, ShutDown
from paceline.messages.shared import OptimizerSpec
from tests.server.conftest import INCARNATION, Server, make_plan

MakeServer = Callable[..., Server]


def test_a_server_joins_and_keeps_its_incarnation(make_server: MakeServer) -> None:
    server = make_server()
    report = server.coordinator.order(until=lambda _: True)
    assert report.server == "server-0"
    assert report.address == "inproc:data"
    assert report.ready


def test_the_same_part_is_created_once(make_server: MakeServer) -> None:
    server = make_server(plan=make_plan())
    order = CreatePart(plan=server.plan)
    seen: list[int] = []

    def is_third(_: object) -> bool:
        seen.append(1)
        return len(seen) == 3

    report = server.coordinator.order(order, until=is_third)
    assert report.parts[0].version == 0


def test_a_new_coordinator_is_found_by_the_same_member(make_server: MakeServer) -> None:
    server = make_server(plan=make_plan())
    server.replace_coordinator()
    report = server.coordinator.order(until=lambda _: True)
    assert report.incarnation == INCARNATION
    assert server.coordinator.hellos == [INCARNATION]
    assert 0 in report.parts


def test_an_answer_is_sent_until_it_is_acknowledged(make_server: MakeServer) -> None:
    server = make_server()
    marks = MarksReport(timeline=0, has_slots=False, marks=())
    server.coordinator.order(SendMarks(), until=lambda report: bool(report.answers))
    server.replace_coordinator()
    report = server.coordinator.order(until=lambda _: True)
    assert report.answers == (marks,)
    server.coordinator.order(until=lambda report: not report.answers)


def test_a_server_ends_when_it_is_told_to(make_server: MakeServer) -> None:
    server = make_server()
    assert not server.service.wait_over(0.0)
    server.coordinator.order_last(ShutDown(reason="the job is over"))
    assert server.service.wait_over(10.0)


def test_a_part_that_no_server_can_make_ends_the_server(
    make_server: MakeServer, caplog: pytest.LogCaptureFixture
) -> None:
    server = make_server()
    plan = make_plan(optimizer=OptimizerSpec("LBFGS", ({"lr": 1.0},)))
    server.coordinator.order_last(CreatePart(plan=plan))
    with pytest.raises(JobFailed, match="LBFGS"):
        server.service.wait_over(10.0)
    assert "cannot go on" in caplog.text
