"""Collapsed Gibbs sampling for latent Dirichlet allocation: the numbers, compiled.

Three histograms of the same thing, the topic of each token:

::

    doc_topics  n_dk (documents, K)   how often topic k stands in document d
    word_topics n_wk (words, K)       how often word w stands for topic k
    topic_sums  n_k  (K,)             how often topic k stands anywhere

A token leaves them, draws topic k with a probability that is proportional to
(n_dk + alpha) (n_wk + beta) / (n_k + V beta), and enters them again (Griffiths and
Steyvers 2004). Topics are numbered from 1; 0 is a token that has none yet, so that tables
of zeros are a right beginning.

The draw of a token is a function of (seed, epoch, token) and of the counts, whoever draws
it (splitmix64, Steele, Lea, Flood 2014). Probabilities are float32 and summed in groups of
eight topics, in one fixed order: a NumPy twin in the tests has the same bits.

Pure: callers keep two calls from writing to the same arrays.
"""

import numba
import numpy as np
from numpy.typing import NDArray

Int32s = NDArray[np.int32]
Int64s = NDArray[np.int64]

GROUP = 8  # topics whose probabilities are summed together: eight floats are one register
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
# What numba keeps of a file can be read under one module name only: that of the scripts.
_IS_SCRIPTS = __name__ == "gibbs"


@numba.njit(cache=_IS_SCRIPTS, nogil=True, error_model="numpy")
def mix64(x: np.uint64) -> np.uint64:
    """A bijection of 64 bits in which every input bit stirs all output bits."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


@numba.njit(cache=_IS_SCRIPTS, nogil=True, error_model="numpy")
def sweep(  # noqa: PLR0913  # arrays as numba takes them
    doc_of: Int32s,  # (tokens,) row of each token's document in doc_topics
    row_of: Int32s,  # (tokens,) row of each token's word in word_topics
    token_of: Int64s,  # (tokens,) its number in the corpus: names its random number
    topics: Int32s,  # (tokens,) 1..K, or 0: none yet; changed
    doc_topics: Int32s,  # (documents, K) changed
    word_topics: Int32s,  # (rows, K) changed
    topic_sums: Int64s,  # (K,) changed
    alpha: float,
    beta: float,
    vocabulary: int,  # words of the whole corpus, V
    seed: int,
    epoch: int,
) -> None:
    """Draw the topic of each token anew, in order.

    Counts that lag behind the topics (others write to them, too) may be too small by some:
    one below zero counts as zero.
    """
    num_topics = len(topic_sums)
    num_groups = (num_topics + GROUP - 1) // GROUP
    a, b, smooth = np.float32(alpha), np.float32(beta), np.float32(beta * vocabulary)
    none, one = np.int32(0), np.float32(1)  # none: an int64 here would halve the speed
    key = mix64(mix64(np.uint64(seed) + _GOLDEN) + np.uint64(epoch) * _GOLDEN)
    grouped = np.zeros((num_groups, GROUP), np.float32)  # zeros behind the last topic
    p = grouped.reshape(-1)
    up_to = np.empty(num_groups, np.float32)
    inverse = np.empty(num_topics, np.float32)  # 1 / (n_k + V beta)
    for k in range(num_topics):
        inverse[k] = one / (np.float32(max(topic_sums[k], 0)) + smooth)

    for i in range(len(topics)):
        of_doc, of_word, old = doc_topics[doc_of[i]], word_topics[row_of[i]], topics[i] - 1
        if old >= 0:
            of_doc[old] -= 1
            of_word[old] -= 1
            topic_sums[old] -= 1
            inverse[old] = one / (np.float32(max(topic_sums[old], 0)) + smooth)
        for k in range(num_topics):
            n_wk = np.float32(max(of_word[k], none))
            p[k] = (np.float32(of_doc[k]) + a) * (n_wk + b) * inverse[k]
        total = np.float32(0)
        for g in range(num_groups):
            q = grouped[g]
            total += ((q[0] + q[1]) + (q[2] + q[3])) + ((q[4] + q[5]) + (q[6] + q[7]))
            up_to[g] = total

        bits = mix64(key + np.uint64(token_of[i]) * _GOLDEN)
        mark = np.float32(bits >> np.uint64(40)) * np.float32(2.0**-24) * total
        group = 0
        while group < num_groups - 1 and up_to[group] <= mark:
            group += 1
        new = group * GROUP
        last = min(new + GROUP, num_topics) - 1
        reached = p[new] if group == 0 else up_to[group - 1] + p[new]
        while new < last and reached <= mark:
            new += 1
            reached += p[new]

        topics[i] = new + 1
        of_doc[new] += 1
        of_word[new] += 1
        topic_sums[new] += 1
        inverse[new] = one / (np.float32(max(topic_sums[new], 0)) + smooth)


@numba.njit(cache=_IS_SCRIPTS, nogil=True, error_model="numpy")
def histogram(rows: Int32s, topics: Int32s, counts: Int32s) -> None:
    """Add to ``counts`` (rows, K) how often each row's tokens have each topic."""
    for i in range(len(topics)):
        if topics[i] > 0:
            counts[rows[i], topics[i] - 1] += 1
