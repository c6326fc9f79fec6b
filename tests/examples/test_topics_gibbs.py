"""The sampler's kernel beside a plain NumPy twin, to the bit, and beside what is known."""

from collections import Counter
from typing import Any, NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray

from examples.topics import corpus, gibbs

ALPHA, BETA = 0.1, 0.01
Counts = tuple[NDArray[Any], NDArray[Any], NDArray[Any]]  # n_dk, n_wk, n_k


class When(NamedTuple):
    seed: int
    epoch: int


def twin_mix64(x: int) -> int:
    mask = (1 << 64) - 1
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9 & mask
    x = (x ^ (x >> 27)) * 0x94D049BB133111EB & mask
    return x ^ (x >> 31)


def twin_uniform(seed: int, epoch: int, token: int) -> np.float32:
    golden, mask = 0x9E3779B97F4A7C15, (1 << 64) - 1
    key = twin_mix64((twin_mix64((seed + golden) & mask) + epoch * golden) & mask)
    bits = twin_mix64((key + token * golden) & mask)
    return np.float32(bits >> 40) * np.float32(2.0**-24)


def twin_draw(p: NDArray[np.float32], uniform: np.float32) -> int:
    """The topic whose share of the sum holds the mark: sums by eights, then singly."""
    groups = np.zeros(-(-len(p) // 8) * 8, np.float32).reshape(-1, 8)
    groups.reshape(-1)[: len(p)] = p
    pairs = groups[:, 0::2] + groups[:, 1::2]
    fours = pairs[:, 0::2] + pairs[:, 1::2]
    up_to = np.cumsum(fours[:, 0] + fours[:, 1], dtype=np.float32)
    mark = uniform * up_to[-1]
    group = min(int(np.searchsorted(up_to, mark, side="right")), len(up_to) - 1)
    before = up_to[group - 1] if group else np.float32(0)
    inside = p[group * 8 : group * 8 + 8]
    reached = np.cumsum(np.append(before, inside), dtype=np.float32)[1:]
    found = min(int(np.searchsorted(reached, mark, side="right")), len(inside) - 1)
    return group * 8 + found


def twin_sweep(
    part: corpus.Part,
    topics: NDArray[Any],
    counts: Counts,
    num_words: int,
    when: When,
) -> None:
    n_dk, n_wk, n_k = counts
    one, smooth = np.float32(1), np.float32(BETA * num_words)
    for i, token in enumerate(part.tokens):
        d, w, old = part.doc_of[i], part.row_of[i], topics[i] - 1
        if old >= 0:
            n_dk[d, old] -= 1
            n_wk[w, old] -= 1
            n_k[old] -= 1
        inverse = one / (np.maximum(n_k, 0).astype(np.float32) + smooth)
        of_doc = n_dk[d].astype(np.float32) + np.float32(ALPHA)
        of_word = np.maximum(n_wk[w], 0).astype(np.float32) + np.float32(BETA)
        new = twin_draw(of_doc * of_word * inverse, twin_uniform(*when, int(token)))
        topics[i] = new + 1
        n_dk[d, new] += 1
        n_wk[w, new] += 1
        n_k[new] += 1


def zeros(part: corpus.Part, num_topics: int) -> Counts:
    return (
        np.zeros((len(part.documents), num_topics), np.int32),
        np.zeros((len(part.words), num_topics), np.int32),
        np.zeros(num_topics, np.int64),
    )


def sweep(
    part: corpus.Part,
    topics: NDArray[Any],
    counts: Counts,
    num_words: int,
    when: When,
) -> None:
    places = part.doc_of, part.row_of, part.tokens
    gibbs.sweep(*places, topics, *counts, ALPHA, BETA, num_words, *when)


@pytest.fixture(scope="module")
def texts() -> corpus.Corpus:
    return corpus.generate(documents=12, length=25, vocabulary=60, topics=4, seed=1)


@pytest.mark.parametrize("num_topics", [1, 4, 8, 9, 20])
def test_the_kernel_and_its_twin_have_the_same_bits(
    texts: corpus.Corpus, num_topics: int
) -> None:
    part = texts.part(np.arange(12))
    ours, theirs = zeros(part, num_topics), zeros(part, num_topics)
    topics, twins = np.zeros((2, len(part.tokens)), np.int32)
    for epoch in range(3):
        sweep(part, topics, ours, 60, When(5, epoch))
        twin_sweep(part, twins, theirs, 60, When(5, epoch))
        assert topics.tolist() == twins.tolist()
        assert all((one == other).all() for one, other in zip(ours, theirs, strict=True))


def test_counts_stay_the_histogram_of_the_topics(texts: corpus.Corpus) -> None:
    part = texts.part(np.array([7, 2, 3]))
    counts, topics = zeros(part, 6), np.zeros(len(part.tokens), np.int32)
    for epoch in range(4):
        sweep(part, topics, counts, 60, When(0, epoch))
        n_dk, n_wk, _ = zeros(part, 6)
        gibbs.histogram(part.doc_of, topics, n_dk)
        gibbs.histogram(part.row_of, topics, n_wk)
        assert (counts[0] == n_dk).all()
        assert (counts[1] == n_wk).all()
        assert (counts[2] == n_wk.sum(axis=0)).all()
        assert topics.min() >= 1


def test_counts_that_lag_behind_are_no_reason_to_stop(texts: corpus.Corpus) -> None:
    part = texts.part(np.arange(3))
    counts, topics = zeros(part, 6), np.full(len(part.tokens), 2, np.int32)
    sweep(part, topics, counts, 60, When(0, 0))  # tables still say that nobody has a topic
    assert topics.min() >= 1
    assert topics.max() <= 6
    assert counts[1].sum() == 0


def test_a_token_draws_alike_in_whichever_part_it_is(texts: corpus.Corpus) -> None:
    whole, alone = texts.part(np.array([4, 5])), texts.part(np.array([5]))
    drawn = np.zeros(len(whole.tokens), np.int32)
    again = np.zeros(len(alone.tokens), np.int32)
    # With one word count for all topics and none of the document, only the number draws.
    sweep(whole, drawn, zeros(whole, 5), 60, When(3, 9))
    first = len(whole.tokens) - len(alone.tokens)
    sweep(alone, again, zeros(alone, 5), 60, When(3, 9))
    assert drawn[0] == twin_draw(np.ones(5, np.float32), twin_uniform(3, 9, 100)) + 1
    assert again[0] == twin_draw(np.ones(5, np.float32), twin_uniform(3, 9, 125)) + 1
    assert whole.tokens[first:].tolist() == alone.tokens.tolist()


@pytest.mark.slow
def test_topics_that_were_put_in_are_found() -> None:
    made = corpus.generate(documents=200, length=60, vocabulary=400, topics=5, seed=2)
    part = made.part(np.arange(200))
    counts, topics = zeros(part, 5), np.zeros(len(part.tokens), np.int32)
    for epoch in range(60):
        sweep(part, topics, counts, 400, When(0, epoch))
    n_wk = np.zeros((400, 5), np.int32)
    n_wk[part.words] = counts[1]
    found = []
    for column in n_wk.T:
        names = Counter(word % 5 for word in np.argsort(-column)[:10].tolist())
        (topic, times) = names.most_common(1)[0]
        found.append(topic)
        assert times >= 8
    assert sorted(found) == [0, 1, 2, 3, 4]
