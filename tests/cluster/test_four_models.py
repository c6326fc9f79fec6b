"""Four models of computation come to one result, with any number of trainers."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.system.four_models_job import MODELS, expected

RECORDS = 203


@pytest.mark.parametrize("trainers", [1, 3])
@pytest.mark.parametrize("model", MODELS)
def test_each_model_comes_to_the_one_result(
    model: str, trainers: int, run: Callable[..., list[Any]]
) -> None:
    results = run(lambda session: MODELS[model](session, RECORDS), trainers=trainers)
    assert len(results) == trainers
    for found in results:
        assert found.tolist() == expected(RECORDS).tolist()
