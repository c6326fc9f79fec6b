"""Who asks a run to stop is counted; what was ignored before stays ignored."""

import os
import signal
from collections.abc import Iterator

import pytest

from paceline.launch.processes.signals import CAUGHT, Interrupts


@pytest.fixture(autouse=True)
def nothing_is_caught() -> Iterator[None]:
    """Afterwards all is as the interpreter had it."""
    before = {number: signal.getsignal(number) for number in CAUGHT}
    for number in CAUGHT:
        signal.signal(number, signal.SIG_DFL)
    yield
    for number, action in before.items():
        signal.signal(number, action)


def test_a_scheduler_that_repeats_itself_hurries_nobody() -> None:
    with Interrupts() as interrupts:
        term, cont, usr1 = signal.SIGTERM, signal.SIGCONT, signal.SIGUSR1
        for number in (term, cont, term, usr1, usr1):
            os.kill(os.getpid(), number)
        assert interrupts.count == 1
        os.kill(os.getpid(), signal.SIGINT)
        assert interrupts.count == 2


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGINT])
def test_a_request_to_stop_is_counted(number: signal.Signals) -> None:
    with Interrupts() as interrupts:
        os.kill(os.getpid(), number)
        os.kill(os.getpid(), number)
        assert interrupts.count == 2
    assert signal.getsignal(number) is signal.SIG_DFL


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGINT, signal.SIGUSR1])
def test_what_is_ignored_stays_ignored(number: signal.Signals) -> None:
    signal.signal(number, signal.SIG_IGN)
    with Interrupts() as interrupts:
        os.kill(os.getpid(), number)
        assert interrupts.count == 0
        assert signal.getsignal(number) is signal.SIG_IGN
    assert signal.getsignal(number) is signal.SIG_IGN


def test_the_notice_that_slurm_sends_beforehand_is_a_request_to_stop() -> None:
    with Interrupts() as interrupts:
        os.kill(os.getpid(), signal.SIGUSR1)
        assert interrupts.count == 1


def test_an_ignored_sigterm_is_counted_all_the_same() -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    with Interrupts() as interrupts:
        os.kill(os.getpid(), signal.SIGTERM)
        assert interrupts.count == 1
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_IGN
