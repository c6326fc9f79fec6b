"""How good topics are: likelihood of what was trained on, perplexity of what was not.

Both are of counts, so that whoever sampled can be measured: topics come as word counts
``n_wk`` (words, K) and document counts ``n_dk`` (documents, K).

Pure.
"""

import math
from typing import NamedTuple

import numba
import numpy as np
from numpy.typing import NDArray

Counts = NDArray[np.int32]
Int32s = NDArray[np.int32]
Int64s = NDArray[np.int64]
Float64s = NDArray[np.float64]

STEPS = 50  # from a flat mixture of topics to that of a document
# What numba keeps of a file can be read under one module name only: that of the scripts.
_IS_SCRIPTS = __name__ == "quality"


class Priors(NamedTuple):
    """Dirichlet priors, symmetric: of topics in a document, of words in a topic."""

    alpha: float = 0.1
    beta: float = 0.01


def log_likelihood(n_dk: Counts, n_wk: Counts, priors: Priors) -> float:
    """Log p(words, topics | alpha, beta) in nats (Griffiths and Steyvers 2004, 2 and 3)."""
    return log_of_topics(n_dk, priors.alpha) + log_of_words(n_wk, priors.beta)


def log_of_topics(n_dk: Counts, alpha: float) -> float:
    """Log p(topics | alpha) of the documents of ``n_dk``; a sum over documents."""
    return _log_dirichlet_multinomials(n_dk, alpha)


def log_of_words(n_wk: Counts, beta: float) -> float:
    """Log p(words | topics, beta)."""
    return _log_dirichlet_multinomials(n_wk.T, beta)


def _log_dirichlet_multinomials(counts: Counts, prior: float) -> float:
    """The sum of log DirichletMultinomial of each row of ``counts``."""
    width = counts.shape[1]
    return _sum_of_rises(counts, prior) - _sum_of_rises(counts.sum(axis=1), width * prior)


def _sum_of_rises(counts: NDArray[np.integer], prior: float) -> float:
    """The sum of lgamma(prior + n) - lgamma(prior): by how often each n occurs."""
    times = np.bincount(np.maximum(counts, 0).ravel())
    rises = np.array([math.lgamma(prior + n) if t else 0.0 for n, t in enumerate(times)])
    return float(times @ rises - times.sum() * math.lgamma(prior))


def perplexity(n_wk: Counts, words: Int32s, starts: Int64s, priors: Priors) -> float:
    """Perplexity of held-out documents by document completion; lower is better.

    Document d is ``words[starts[d] : starts[d + 1]]``.
    Of each document the tokens at even places tell its mixture of topics (50 steps of
    expectation and maximisation with the prior's alpha, from a flat one), those at odd
    places are scored. No random number is drawn.
    """
    smooth = n_wk.sum(axis=0, dtype=np.int64) + n_wk.shape[0] * priors.beta
    phi = (np.maximum(n_wk, 0) + priors.beta) / smooth  # (words, K): p(word | topic)
    logs, scored = complete(words, starts, phi, priors.alpha, STEPS)
    return math.exp(-logs / scored)


@numba.njit(cache=_IS_SCRIPTS, nogil=True, error_model="numpy")
def complete(  # noqa: C901  # loops: whole rows would take numba five times as long
    words: Int32s, starts: Int64s, phi: Float64s, alpha: float, steps: int
) -> tuple[float, int]:
    """Sum of log p of tokens at odd places, and how many they are; see `perplexity`."""
    num_topics = phi.shape[1]
    theta, weights, p = np.empty(num_topics), np.empty(num_topics), np.empty(num_topics)
    logs, scored = 0.0, 0
    for document in range(len(starts) - 1):
        first, last = starts[document], starts[document + 1]
        for k in range(num_topics):
            theta[k] = 1.0 / num_topics
        for _ in range(steps):
            for k in range(num_topics):
                weights[k] = alpha
            for i in range(first, last, 2):
                total = 0.0
                for k in range(num_topics):
                    p[k] = theta[k] * phi[words[i], k]
                    total += p[k]
                for k in range(num_topics):
                    weights[k] += p[k] / total
            total = num_topics * alpha + (last - first + 1) // 2
            for k in range(num_topics):
                theta[k] = weights[k] / total
        for i in range(first + 1, last, 2):
            total = 0.0
            for k in range(num_topics):
                total += theta[k] * phi[words[i], k]
            logs += math.log(total)
            scored += 1
    return logs, scored


def top_words(n_wk: Counts, vocabulary: list[str], count: int = 8) -> list[list[str]]:
    """The most frequent words of each topic, the most frequent first."""
    places = np.argsort(-n_wk, axis=0, kind="stable")[:count]
    return [[vocabulary[word] for word in column] for column in places.T]
