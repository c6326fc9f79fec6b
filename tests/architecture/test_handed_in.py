"""Time, randomness and the network are handed in; nothing that runs code is read.

`timing` alone reads a clock. Decisions are pure: they know no socket, thread, clock or
randomness of their own, so the simulator and the journal's replay run the very same ones.
"""

import re
from collections.abc import Iterator

import pytest

from tests.architecture.house import (
    Module,
    assert_clean,
    calls,
    complaints,
    imports,
    is_within,
    modules,
    planted,
    references,
)

RUNS_CODE = (
    "cloudpickle",
    "dill",
    "eval",
    "exec",
    "joblib",
    "marshal",
    "pickle",
    "shelve",
    "torch.jit.load",
    "torch.load",
    "torch.save",
    "yaml.load",
    "yaml.unsafe_load",
)
# Code that its user hands over from Python comes to trainers of the same run through it.
CARRIES_CODE = "paceline.launch.carried"
CLOCKS = (
    "datetime.date.today",
    "datetime.datetime.now",
    "datetime.datetime.today",
    "datetime.datetime.utcnow",
    "time.clock_gettime",
    "time.clock_gettime_ns",
    "time.gmtime",
    "time.localtime",
    "time.monotonic",
    "time.monotonic_ns",
    "time.perf_counter",
    "time.perf_counter_ns",
    "time.process_time",
    "time.process_time_ns",
    "time.strftime",
    "time.thread_time",
    "time.thread_time_ns",
    "time.time",
    "time.time_ns",
)
CLOCK_ROOM = "paceline.timing"
OUTSIDE_WORLD = (
    "asyncio",
    "concurrent",
    "multiprocessing",
    "queue",
    "select",
    "selectors",
    "signal",
    "socket",
    "sqlite3",
    "subprocess",
    "threading",
    "time",
)
# Decisions, by module name; a service waits and carries, and is not one.
PURE = re.compile(
    r"paceline\.(params|pace|parking)(\.|$)"
    r"|paceline\.data\.(order|split)$"
    r"|paceline\.trainer\.(protocol|holdings)(\.|$)"
    r"|paceline\.coordinator\.(durable|ledgers|decisions)(\.|$)"
    r"|paceline\.coordinator\.(state|full_disk)$"
    r"|paceline\.server\.(requests|decisions)(\.|$)"
    r"|paceline\.server\.(locks\.(locks|part_locks)|slots\.(merging|rounds|rates|block_reads))$"
)
# Made from a seed that is handed in, these are as good as an argument.
SEEDED = {
    "numpy.random.Generator",
    "numpy.random.PCG64",
    "numpy.random.Philox",
    "numpy.random.SeedSequence",
    "numpy.random.default_rng",
    "random.Random",
}
TORCH_DRAWS = re.compile(r"torch\.(rand\w*|normal|bernoulli|multinomial|poisson)$")
OWN_RANDOMNESS = ("numpy.random", "os.urandom", "random", "secrets", "torch.manual_seed")


def is_pure(module: Module) -> bool:
    """Whether a module holds decisions."""
    return PURE.match(module.name) is not None


def runs_code(module: Module) -> Iterator[str]:
    """Whatever would run code that came with data."""
    for name, line in references(module):
        is_carried = module.name == CARRIES_CODE and is_within(name, ("cloudpickle",))
        if is_within(name, RUNS_CODE) and not is_carried:
            yield module.at(
                line, f"{name} can run what it reads: msgspec, safetensors or JSON"
            )
    for _, call in calls(module):
        for keyword in call.keywords:
            if keyword.arg == "allow_pickle" and getattr(keyword.value, "value", True):
                yield module.at(call.lineno, "allow_pickle can run what it reads")


def reads_clock(module: Module) -> Iterator[str]:
    """Clocks read outside of `timing`."""
    for name, line in references(module) if module.name != CLOCK_ROOM else ():
        if is_within(name, CLOCKS):
            yield module.at(
                line,
                f"{name} reads a clock: take a paceline.timing.Clock, or `now` as a number",
            )


def reaches_out(module: Module) -> Iterator[str]:
    """What a pure module may not import."""
    for name, line in imports(module) if is_pure(module) else ():
        if is_within(name, OUTSIDE_WORLD):
            yield module.at(
                line, f"a decision imports {name}: move the waiting to a service"
            )


def draws_at_random(module: Module) -> Iterator[str]:
    """Randomness that was not handed in, in a pure module."""
    if not is_pure(module):
        return
    for name, call in calls(module):
        is_seeded = name in SEEDED and bool(call.args or call.keywords)
        has_source = any(keyword.arg == "generator" for keyword in call.keywords)
        draws = TORCH_DRAWS.match(name) is not None and not has_source
        if draws or (is_within(name, OWN_RANDOMNESS) and not is_seeded):
            yield module.at(call.lineno, f"{name}: hand in a seed or a generator")


def test_nothing_that_can_run_code_is_read() -> None:
    assert_clean(runs_code, "src")


@pytest.mark.parametrize(
    "text",
    [
        "import pickle",
        "from marshal import loads",
        "eval(text)",
        "import torch as t\nt.load(path)",
        "import numpy as np\nnp.load(path, allow_pickle=True)",
        "import numpy as np\nnp.load(path, allow_pickle=flag)",
        "from yaml import load",
    ],
)
def test_reading_what_runs_code_is_caught(text: str) -> None:
    assert complaints(runs_code, [planted(text)])


def test_a_function_is_unpickled_by_trainers_alone() -> None:
    """Nobody imports what unpickles but the call that pickles; trainers run it by name."""
    knows = {
        module.name
        for module in modules("src")
        if any(is_within(name, (CARRIES_CODE,)) for name, _ in imports(module))
    }
    assert knows == {"paceline.cli.called.call"}
    assert complaints(runs_code, [planted("import cloudpickle")])
    assert complaints(runs_code, [planted("import pickle", CARRIES_CODE)])


def test_a_model_may_be_put_into_eval_mode() -> None:
    assert not complaints(
        runs_code, [planted("model.eval()\nnp.load(p, allow_pickle=False)")]
    )


def test_only_timing_reads_a_clock() -> None:
    assert_clean(reads_clock, "src")


@pytest.mark.parametrize(
    "text",
    [
        "import time\nnow = time.monotonic()",
        "import time as t\nnow = t.time",
        "from time import perf_counter",
        "import datetime\ndatetime.datetime.now()",
        "from datetime import datetime\ndatetime.now()",
    ],
)
def test_a_clock_read_elsewhere_is_caught(text: str) -> None:
    assert complaints(reads_clock, [planted(text, "paceline.launch.planted")])
    assert not complaints(reads_clock, [planted(text, CLOCK_ROOM)])


@pytest.mark.parametrize(
    ("name", "pure"),
    [
        ("paceline.params.rows.compiled.kernels", True),
        ("paceline.pace", True),
        ("paceline.coordinator.state", True),
        ("paceline.coordinator.service", False),
        ("paceline.server.control", False),
        ("paceline.server.decisions.planted", True),
        ("paceline.trainer.protocol.replay", True),
        ("paceline.trainer.session", False),
        ("paceline.data.order", True),
        ("paceline.data.sources", False),
    ],
)
def test_decisions_are_known_by_name(name: str, pure: bool) -> None:
    assert is_pure(planted("", name)) is pure


def test_decisions_reach_no_socket_thread_or_clock() -> None:
    assert_clean(reaches_out, "src")


@pytest.mark.parametrize(
    "text", ["import threading", "from concurrent.futures import Future"]
)
def test_a_decision_that_reaches_out_is_caught(text: str) -> None:
    assert complaints(reaches_out, [planted(text, "paceline.server.decisions.planted")])
    assert not complaints(reaches_out, [planted(text, "paceline.server.service")])


def test_decisions_draw_nothing_at_random() -> None:
    assert_clean(draws_at_random, "src")


@pytest.mark.parametrize(
    "text",
    [
        "import random\nrandom.shuffle(tasks)",
        "import numpy as np\nnp.random.rand(3)",
        "import numpy as np\nnp.random.default_rng()",
        "import torch\ntorch.randn(3)",
        "from random import Random\nRandom()",
    ],
)
def test_a_decision_that_draws_at_random_is_caught(text: str) -> None:
    assert complaints(draws_at_random, [planted(text)])


def test_a_decision_may_use_a_seed_that_is_handed_in() -> None:
    text = (
        "from random import Random\nRandom(seed)\nimport torch\ntorch.rand(3, generator=g)"
    )
    assert not complaints(draws_at_random, [planted(text)])
