"""Another sampler on the same documents: one run of one, in an environment of its own.

::

    tomotopy   LDAModel of tomotopy (C++ with AVX), collapsed Gibbs sampling
    lda        the Python package lda (Cython), the same

What it counts is written as arrays, after every so many epochs; `benchmarks topics`
measures them all by one function. The clock stands while counts are read out.
"""

import argparse
import itertools
import json
import logging
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

Array = Any  # NumPy's, in an environment of its own


class Looks(NamedTuple):
    """Seconds up to each look, without what the looks took, and counts as of then."""

    seconds: list[float]
    cpu_s: list[float]  # of all threads, alike
    n_dk: list[Array]  # (documents, K) each
    n_wk: list[Array]  # (words, K) each


def run_tomotopy(data: dict[str, Array], flags: argparse.Namespace) -> Looks:
    """Documents are added as names of words, topics read out by document."""
    import tomotopy  # noqa: PLC0415  (each peer needs its own library alone)

    words, starts = data["words"], data["starts"]
    priors = {"alpha": flags.alpha, "eta": flags.beta, "seed": 0}
    model = tomotopy.LDAModel(k=flags.topics, **priors)
    for first, last in itertools.pairwise(starts):
        model.add_doc([str(word) for word in words[first:last]])
    model.optim_interval = model.burn_in = 0  # the priors stay as they are
    model.train(0)
    number = np.array([int(word) for word in model.used_vocabs])
    looks, spent, used = Looks([], [], [], []), 0.0, 0.0
    for _ in range(0, flags.epochs, flags.look_every):
        began, used_before = time.perf_counter(), time.process_time()
        with warnings.catch_warnings():  # of several threads: results may differ
            warnings.simplefilter("ignore")
            model.train(flags.look_every, workers=flags.threads)
        spent += time.perf_counter() - began
        used += time.process_time() - used_before
        looks.seconds.append(spent)
        looks.cpu_s.append(used)
        n_dk = np.zeros((len(starts) - 1, flags.topics), np.int32)
        n_wk = np.zeros((flags.vocabulary, flags.topics), np.int32)
        for document, row in zip(model.docs, n_dk, strict=True):
            topics = np.asarray(document.topics)
            np.add.at(row, topics, 1)
            np.add.at(n_wk, (number[np.asarray(document.words)], topics), 1)
        looks.n_dk.append(n_dk)
        looks.n_wk.append(n_wk)
    return looks


def run_lda(data: dict[str, Array], flags: argparse.Namespace) -> Looks:
    """Its own look at the likelihood is where counts are read out."""
    import lda  # noqa: PLC0415  (as above)

    class Watched(lda.LDA):  # type: ignore[misc, name-defined]  # it is not typed
        def loglikelihood(self) -> float:
            now, used = time.perf_counter(), time.process_time()
            self.seen.append((now, used, self.ndz_.copy(), self.nzw_.T.copy()))
            after = time.perf_counter() - now, time.process_time() - used
            self.looked.append(after)
            return 0.0

    logging.disable(logging.CRITICAL)
    counts = np.zeros((len(data["starts"]) - 1, flags.vocabulary), np.int64)
    documents = np.repeat(np.arange(len(counts)), np.diff(data["starts"]))
    np.add.at(counts, (documents, data["words"]), 1)
    model = Watched(
        n_topics=flags.topics,
        n_iter=flags.epochs,  # it looks before an epoch, the first time before the first
        alpha=flags.alpha,
        eta=flags.beta,
        random_state=0,
        refresh=flags.look_every,
    )
    model.seen, model.looked = [], []
    model.fit(counts)
    times = np.array([seen[:2] for seen in model.seen])  # (looks, 2): wall, CPU
    spent = times - times[0] - np.cumsum([(0.0, 0.0), *model.looked], axis=0)[:-1]
    return Looks(
        spent[1:, 0].tolist(),
        spent[1:, 1].tolist(),
        [seen[2] for seen in model.seen[1:]],
        [seen[3] for seen in model.seen[1:]],
    )


PEERS: dict[str, Callable[[dict[str, Array], argparse.Namespace], Looks]] = {
    "tomotopy": run_tomotopy,
    "lda": run_lda,
}


def main() -> None:
    """Run one peer; write seconds and counts."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("peer", choices=PEERS)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    for name in ("topics", "vocabulary", "epochs", "look-every", "threads"):
        parser.add_argument(f"--{name}", type=int, required=True)
    for name in ("alpha", "beta"):
        parser.add_argument(f"--{name}", type=float, required=True)
    flags = parser.parse_args()
    with np.load(flags.data, allow_pickle=False) as arrays:
        looks = PEERS[flags.peer](dict(arrays), flags)
    np.savez(flags.out, n_dk=np.stack(looks.n_dk), n_wk=np.stack(looks.n_wk))
    flags.out.with_suffix(".json").write_text(
        json.dumps({"seconds": looks.seconds, "cpu_s": looks.cpu_s})
    )


if __name__ == "__main__":
    main()
