"""Likelihood and perplexity beside their definitions, term by term."""

import math

import numpy as np
import pytest

from examples.topics import quality
from examples.topics.quality import Priors

PRIORS = Priors(alpha=0.3, beta=0.2)


def test_likelihood_is_the_product_of_what_each_token_was_drawn_with() -> None:
    tokens = [
        (0, 0, 0),
        (0, 1, 0),
        (1, 2, 1),
        (0, 1, 1),
        (1, 2, 1),
    ]
    n_dk, n_wk = np.zeros((2, 2), np.int32), np.zeros((3, 2), np.int32)
    logs = 0.0
    for document, word, topic in tokens:  # by the chain rule, in any order
        of_document, of_topic = n_dk[document].sum(), n_wk[:, topic].sum()
        logs += math.log((n_dk[document, topic] + 0.3) / (of_document + 2 * 0.3))
        logs += math.log((n_wk[word, topic] + 0.2) / (of_topic + 3 * 0.2))
        n_dk[document, topic] += 1
        n_wk[word, topic] += 1
    assert quality.log_likelihood(n_dk, n_wk, PRIORS) == pytest.approx(logs, rel=1e-12)


def test_without_topics_to_tell_apart_perplexity_is_that_of_the_words() -> None:
    n_wk = np.array([[3, 3], [1, 1]], np.int32)
    words, starts = np.array([0, 0, 0, 1], np.int32), np.array([0, 2, 4])
    phi = np.array([3.2, 1.2]) / 4.4
    expected = math.exp(-(math.log(phi[0]) + math.log(phi[1])) / 2)  # places 1 and 3
    found = quality.perplexity(n_wk, words, starts, PRIORS)
    assert found == pytest.approx(expected, rel=1e-12)


def test_a_document_is_better_told_by_its_own_topic() -> None:
    n_wk = np.array([[90, 0], [90, 0], [0, 90], [0, 90]], np.int32)
    words, starts = np.array([0, 1] * 20, np.int32), np.array([0, 40])
    assert quality.perplexity(n_wk, words, starts, Priors(0.01, 0.01)) < 2.1
    mixed = np.tile(np.array([0, 2], np.int32), 20)
    assert quality.perplexity(n_wk, mixed, starts, Priors(0.01, 0.01)) > 100


def test_the_most_frequent_words_come_first() -> None:
    n_wk = np.array([[1, 9], [5, 0], [3, 2]], np.int32)
    assert quality.top_words(n_wk, ["sea", "ark", "dove"], 2) == [
        ["ark", "dove"],
        ["sea", "dove"],
    ]
