"""Topics of documents: latent Dirichlet allocation by collapsed Gibbs sampling.

One algorithm, and the model of computation is one option:

::

    --model push-pull   pull counts, draw, push what changed; in rounds of all trainers
    --model no-sync     the same, and nobody waits for anybody
    --model rotation    words go round: each block of counts is with one trainer at a time

In tables lie the topic of every token (``topics``), how often each word has each topic
(``words``), how often each topic was drawn (``sums``), and what is told about each epoch
(``history``). How often a topic stands in a document is counted anew from ``topics``: a
document is with one trainer at a time, in all three models.
"""

import argparse
import json
import time
from pathlib import Path
from typing import Any, NamedTuple

import corpus
import gibbs
import numpy as np
import quality
import torch
from corpus import LINE, Corpus, Part
from numpy.typing import NDArray

import paceline

MODELS = ("push-pull", "no-sync")
TOLD = ("log_of_topics", "log_of_words", "perplexity", "began_s", "looked_s")  # of an epoch
Array = NDArray[Any]
Pace = paceline.Sync | paceline.Async


class Work(NamedTuple):
    """What is to be done, the same on every trainer."""

    train: Corpus
    held_out: Corpus
    priors: quality.Priors
    num_topics: int
    epochs: int
    parts: int
    seed: int
    look_every: int


class Tables(NamedTuple):
    """What all trainers share."""

    topics: paceline.Table  # (lines, 64) int32: 1..K, 0 is none yet
    words: paceline.Table  # (words, K) int32, n_wk
    sums: paceline.Table  # (1, K) int64, n_k
    history: paceline.Table  # {epoch: (5,)} float64, as `TOLD`


class Counts(NamedTuple):
    """What a sampler changes: of some documents and some words."""

    topics: Array  # (tokens,)
    n_dk: Array  # (documents, K)
    n_wk: Array  # (words, K)
    n_k: Array  # (K,)


def make_tables(session: paceline.Session, work: Work, pace: Pace) -> Tables:
    """All begin with zeros: nobody has a topic."""
    k, num_words = work.num_topics, len(work.train.vocabulary)
    num_lines = int(work.train.line_starts[-1])
    return Tables(
        session.table("topics", (num_lines, LINE), "int32", pace=pace),
        session.table("words", (num_words, k), "int32", blocks=work.parts, pace=pace),
        session.table("sums", (1, k), "int64", pace=pace),
        session.table("history", (None, len(TOLD)), "float64"),
    )


def in_parts(session: paceline.Session, work: Work, tables: Tables) -> None:
    """Models C and D: draw the topics of a batch of documents, push what has changed."""
    documents = torch.arange(work.train.num_documents)
    size = -(-len(documents) // work.parts)
    parts: dict[int, Part] = {}  # {first document: its batch}; unshuffled, they stay
    for batch in session.batches(documents, size, epochs=work.epochs, shuffle=False):
        first = int(batch[0])
        if first == 0:
            look_back(session, work, tables)
        part = parts.get(first) or parts.setdefault(first, work.train.part(batch.numpy()))
        lines = tables.topics.pull(part.lines)
        n_wk, n_k = tables.words.pull(part.words), tables.sums.pull()[0]
        topics = lines.reshape(-1)[part.place_of]
        counts = Counts(topics, count(part.doc_of, topics, len(batch), work), n_wk, n_k)
        before = n_wk.copy(), n_k.copy()
        draw(part, counts, work, session.epoch)
        drawn = np.zeros_like(lines)
        drawn.reshape(-1)[part.place_of] = topics
        tables.topics.push(part.lines, drawn - lines)
        tables.words.push(part.words, n_wk - before[0])
        tables.sums.push(None, (n_k - before[1])[None])
        tables.history.push([session.epoch], mixtures(counts, work))


def mixtures(counts: Counts, work: Work) -> Array:
    """What a part's documents add to the history of their epoch: log p(topics)."""
    return np.array([quality.log_of_topics(counts.n_dk, work.priors.alpha), 0, 0, 0, 0])


def count(rows: Array, topics: Array, num_rows: int, work: Work) -> Array:
    """How often the tokens of each row have each topic, int32 (rows, K)."""
    counts = np.zeros((num_rows, work.num_topics), np.int32)
    gibbs.histogram(rows, topics, counts)
    return counts


def draw(part: Part, counts: Counts, work: Work, epoch: int) -> None:
    """Draw the topic of each token of a part; ``counts`` are changed."""
    gibbs.sweep(
        part.doc_of,
        part.row_of,
        part.tokens,
        *counts,
        *work.priors,
        len(work.train.vocabulary),
        work.seed,
        epoch,
    )


def recount(session: paceline.Session, work: Work, tables: Tables) -> None:
    """Counts become the histogram of the topics again, exactly once, whoever dies.

    Each table has each batch's push exactly once. A batch that was drawn twice, since its
    trainer died when one table had its push and another had not, may have drawn otherwise:
    then two tables disagree by that batch. All others wait at the loop's end meanwhile.
    """
    for _ in session.batches(torch.zeros(1), 1):
        n_wk = words_of(work, tables.topics.pull())
        tables.words.push(None, n_wk - tables.words.pull())
        tables.sums.push(None, n_wk.sum(axis=0, dtype=np.int64) - tables.sums.pull())


def words_of(work: Work, lines: Array) -> Array:
    """The histogram (words, K) of the topics (lines, 64)."""
    whole = work.train.part(np.arange(work.train.num_documents))
    topics = lines.reshape(-1)[whole.place_of]
    return count(work.train.words, topics, len(work.train.vocabulary), work)


def documents_of(work: Work, lines: Array) -> Array:
    """The histogram (documents, K) of the topics (lines, 64)."""
    whole = work.train.part(np.arange(work.train.num_documents))
    topics = lines.reshape(-1)[whole.place_of]
    return count(whole.doc_of, topics, work.train.num_documents, work)


def look_back(session: paceline.Session, work: Work, tables: Tables) -> None:
    """Who has the first batch of an epoch looks at what has become of the one before.

    An epoch begins when all pushes of the one before have been acknowledged. Nobody waits
    for the look, so others may have pushed something of this one.
    """
    row = np.zeros((2, len(TOLD)))  # of the epoch before, and of this one
    row[1, 3] = began = time.time()
    if session.epoch and session.epoch % work.look_every == 0:
        row[0, 1:3] = look(work, tables.words.pull())
        logs = tables.history.pull([session.epoch - 1])[0, 0] + row[0, 1]
        say(session, work, logs, row[0, 2])
        row[1, 4] = time.time() - began
    tables.history.push([session.epoch - 1, session.epoch], row)


def look(work: Work, n_wk: Array) -> tuple[float, float]:
    """Log p(words | topics), and perplexity of the documents held out."""
    texts, priors = work.held_out, work.priors
    logs = quality.log_of_words(n_wk, priors.beta)
    return logs, quality.perplexity(n_wk, texts.words, texts.starts, priors)


def say(session: paceline.Session, work: Work, logs: float, perplexity: float) -> None:
    """Likelihood is told per token: 84,010 tokens make large numbers."""
    session.log(
        log_likelihood=float(logs) / len(work.train.words), perplexity=float(perplexity)
    )


def report(
    session: paceline.Session, work: Work, tables: Tables, flags: argparse.Namespace
) -> None:
    """Say what was found, and draw it, in one trainer."""
    lines, n_wk = tables.topics.pull(), tables.words.pull()
    n_dk = documents_of(work, lines)
    logs = quality.log_likelihood(n_dk, n_wk, work.priors)
    told = tables.history.pull(np.arange(work.epochs))
    told[-1, :3] = quality.log_of_topics(n_dk, work.priors.alpha), *look(work, n_wk)
    say(session, work, logs, told[-1, 2])
    for number, words in enumerate(quality.top_words(n_wk, work.train.vocabulary)):
        print(f"topic {number:3}: {' '.join(words)}")
    if flags.out is not None:
        same = bool((words_of(work, lines) == n_wk).all())
        same = same and bool((n_wk.sum(axis=0) == tables.sums.pull()[0]).all())
        history = dict(zip(TOLD, told.T.tolist(), strict=True))
        found = {"log_likelihood": logs, "perplexity": told[-1, 2], "exact": same}
        tokens = len(work.train.words)
        flags.out.write_text(json.dumps({**found, "tokens": tokens, "history": history}))
    if flags.picture is not None:
        draw_history(work, told, flags.picture)


def draw_history(work: Work, told: Array, picture: Path) -> None:
    """Likelihood and perplexity by epoch."""
    import matplotlib.pyplot as plt  # noqa: PLC0415  # a second, only for a picture

    seen = told[:, 2] > 0
    epochs = np.flatnonzero(seen) + 1
    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.4), layout="constrained")
    left.plot(epochs, told[seen, :2].sum(axis=1) / len(work.train.words))
    left.set(xlabel="epoch", ylabel="log-likelihood per token")
    right.plot(epochs, told[seen, 2])
    right.set(xlabel="epoch", ylabel="perplexity of documents held out")
    figure.savefig(picture, dpi=140)
    plt.close(figure)


def parse_flags() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--model", choices=MODELS, default="no-sync", help="of computation")
    parser.add_argument("--data", choices=corpus.NAMES, default="reuters")
    parser.add_argument("--topics", type=int, default=20)
    parser.add_argument("--alpha", type=float, default=0.1, help="prior of a mixture")
    parser.add_argument("--beta", type=float, default=0.01, help="prior of a topic")
    parser.add_argument("--epochs", type=int, default=100)
    parser.add_argument("--parts", type=int, default=4, help="batches of an epoch")
    parser.add_argument("--look-every", type=int, default=10, help="epochs, for progress")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, help="a JSON file of likelihood by epoch")
    parser.add_argument("--picture", type=Path, help="a PNG of the same")
    return parser.parse_args()


def main() -> None:
    """Draw topics, then show them."""
    flags = parse_flags()
    train, held_out = corpus.load(flags.data, flags.seed).split()
    priors = quality.Priors(flags.alpha, flags.beta)
    sizes = flags.topics, flags.epochs, flags.parts, flags.seed, flags.look_every
    work = Work(train, held_out, priors, *sizes)

    session = paceline.connect()
    paces: dict[str, Pace] = {
        "push-pull": paceline.Sync(reduce="sum"),
        "no-sync": paceline.Async(),
    }
    tables = make_tables(session, work, paces[flags.model])
    in_parts(session, work, tables)
    recount(session, work, tables)
    if session.once("report"):
        report(session, work, tables, flags)


if __name__ == "__main__":
    main()
