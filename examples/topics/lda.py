"""Topics of documents: latent Dirichlet allocation by collapsed Gibbs sampling.

One algorithm, and the model of computation is one option:

::

    --model locking     lock counts, draw, write them back: whoever draws, draws alone
    --model push-pull   pull counts, draw, push what changed; in rounds of all trainers
    --model no-sync     the same, and nobody waits for anybody
    --model rotation    words go round: each block of counts is with one trainer at a time

In tables lie the topic of every token (``topics``), how often each word has each topic
(``words``), how often each topic was drawn (``sums``), and what was seen every few epochs
(``looks``). How often a topic stands in a document is counted anew from ``topics``: a
document is with one trainer at a time, in all models.
"""

import argparse
import itertools
import json
import time
from collections.abc import Iterator
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

FLAT = quality.Priors(1e9, 1e9)  # beside it no count counts: topics by chance
SLICES = 2  # blocks of words for each part of the documents: one travels meanwhile
LOOK = ("log_likelihood", "perplexity", "began_s", "ended_s", "mended")
Array = NDArray[Any]


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

    def looks(self) -> list[int]:
        """After how many epochs there is a look; the first is before all."""
        return [*range(0, self.epochs, self.look_every), self.epochs]


class Tables(NamedTuple):
    """What all trainers share."""

    topics: paceline.Table  # (lines, 64) int32: 1..K, 0 is none yet
    words: paceline.Table  # (words, K) int32, n_wk
    sums: paceline.Table  # (1, K) int64, n_k
    looks: paceline.Table  # {epochs that are over: (5,)} float64, as `LOOK`


class Stage(NamedTuple):
    """Some epochs between two looks."""

    begin: int
    end: int
    parts: dict[tuple[int, ...], Part]  # what this trainer has had before; they stay


def make_tables(session: paceline.Session, work: Work, model: str) -> Tables:
    """All begin with zeros: nobody has a topic."""
    in_rounds = model == "push-pull"
    pace = paceline.Sync(reduce="sum") if in_rounds else paceline.Async()
    way = {"pace": pace, "atomic": not in_rounds}  # each table has rounds of its own
    # Every batch reads and changes the sums: without rounds, from a copy of one's own.
    copied = {"replicate_every": 1} if model in {"no-sync", "rotation"} else {}
    k, num_words = work.num_topics, len(work.train.vocabulary)
    num_lines, blocks = int(work.train.line_starts[-1]), SLICES * work.parts
    return Tables(
        session.table("topics", (num_lines, LINE), "int32", **way),
        session.table("words", (num_words, k), "int32", blocks=blocks, **way),
        session.table("sums", (1, k), "int64", **way, **copied),
        session.table("looks", (None, len(LOOK)), "float64"),
    )


def lock(session: paceline.Session, work: Work, tables: Tables, stage: Stage) -> None:
    """Locking: no draw misses another, and since all change the sums, all take turns."""
    for part in parts_of(session, work, stage):
        with (
            tables.topics.lock(part.lines) as lines,
            tables.words.lock(part.words) as n_wk,
            tables.sums.lock(None) as sums,
        ):
            counts = lines.values, n_wk.values, sums.values[0]
            change(work, part, counts, stage.begin + session.epoch)


def push_and_pull(
    session: paceline.Session, work: Work, tables: Tables, stage: Stage
) -> None:
    """Push-pull and no-sync: documents draw by counts as they are at the beginning.

    What others draw meanwhile they do not see; all that is drawn adds up.
    """
    for part in parts_of(session, work, stage):
        n_wk = tables.words.pull(part.words)
        before = n_wk.copy()
        draw(work, tables, part, n_wk, stage.begin + session.epoch)
        tables.words.push(part.words, n_wk - before)


def parts_of(session: paceline.Session, work: Work, stage: Stage) -> Iterator[Part]:
    """This trainer's share of the documents, some at a time."""
    documents = torch.arange(work.train.num_documents)
    size, epochs = -(-len(documents) // work.parts), stage.end - stage.begin
    for batch in session.batches(documents, size, epochs=epochs, shuffle=False):
        key = (int(batch[0]),)
        part = stage.parts.get(key) or work.train.part(batch.numpy())
        stage.parts[key] = part
        yield part


def rotate(session: paceline.Session, work: Work, tables: Tables, stage: Stage) -> None:
    """Rotation: a cell is the tokens of some documents that are of one block of words.

    Nobody else has these documents or these words meanwhile; only sums lag behind.
    """
    train, mine = work.train, Mine(work)
    for cell in tables.words.rotate(
        torch.arange(len(train.words)),
        by=train.words,
        group=np.repeat(np.arange(train.num_documents), train.lengths),
        parts=work.parts,
        epochs=stage.end - stage.begin,
        seed=work.seed + stage.begin,
        slices=SLICES,
    ):
        key = cell.part, cell.block
        part = stage.parts.get(key) or train.cell(cell.positions, cell.ids)
        stage.parts[key] = part
        mine.recall(tables, part, cell.part, is_new=cell.is_new_part)
        mine.draw(tables, part, cell.rows, stage.begin + session.epoch)


class Mine:
    """What a trainer remembers of documents that nobody else has: topics and n_dk.

    Whoever loses a document to somebody else fetches its topics when it comes back.
    """

    def __init__(self, work: Work) -> None:
        """Of no document."""
        num_documents, num_lines = work.train.num_documents, work.train.line_starts[-1]
        self._work = work
        self._topics = np.zeros((num_lines, LINE), np.int32)
        self._n_dk = np.zeros((num_documents, work.num_topics), np.int32)
        self._data_part = np.full(num_documents, -1)  # with which it came; -1: it did not

    def recall(self, tables: Tables, part: Part, data_part: int, *, is_new: bool) -> None:
        """Fetch the topics of documents that are not known."""
        if is_new:
            self._data_part[self._data_part == data_part] = -1
        missing = part.documents[self._data_part[part.documents] != data_part]
        if len(missing):
            text = self._work.train.part(missing)
            lines = self._topics[text.lines] = tables.topics.pull(text.lines)
            n_dk = np.zeros((len(missing), self._work.num_topics), np.int32)
            gibbs.histogram(text.all_docs, lines.reshape(-1)[text.all_places], n_dk)
            self._n_dk[missing] = n_dk
            self._data_part[missing] = data_part

    def draw(self, tables: Tables, part: Part, n_wk: Array, epoch: int) -> None:
        """As `draw`, of documents that are known."""
        n_k = tables.sums.pull()[0]
        before_k, at = n_k.copy(), part.anywhere
        topics = self._topics.reshape(-1)[at]
        before = topics.copy()
        there = part._replace(doc_of=part.document_of)
        sample(self._work, there, (topics, self._n_dk, n_wk, n_k), epoch)
        self._topics.reshape(-1)[at] = topics
        change = np.zeros((len(part.lines), LINE), np.int32)
        change.reshape(-1)[part.place_of] = topics - before
        tables.topics.push(part.lines, change)
        tables.sums.push(None, (n_k - before_k)[None])


LOOPS = {
    "locking": lock,
    "push-pull": push_and_pull,
    "no-sync": push_and_pull,
    "rotation": rotate,
}


def draw(work: Work, tables: Tables, part: Part, n_wk: Array, epoch: int) -> None:
    """Draw the topics of a part's tokens anew; ``n_wk``, its words' counts, is changed."""
    lines, n_k = tables.topics.pull(part.lines), tables.sums.pull()[0]
    drawn, before = lines.copy(), n_k.copy()
    change(work, part, (drawn, n_wk, n_k), epoch)
    tables.topics.push(part.lines, drawn - lines)
    tables.sums.push(None, (n_k - before)[None])


def change(work: Work, part: Part, counts: tuple[Array, ...], epoch: int) -> None:
    """The same on what is at hand: lines of topics, n_wk and n_k, which are changed."""
    lines, n_wk, n_k = counts
    places = lines.reshape(-1)
    n_dk = np.zeros((len(part.documents), work.num_topics), np.int32)
    gibbs.histogram(part.all_docs, places[part.all_places], n_dk)
    topics = places[part.place_of]
    sample(work, part, (topics, n_dk, n_wk, n_k), epoch)
    places[part.place_of] = topics


def sample(work: Work, part: Part, counts: tuple[Array, ...], epoch: int) -> None:
    """One sweep over a part's tokens; topics, n_dk, n_wk and n_k are changed.

    In the first epoch topics are by chance: drawn by the few tokens before, they would be
    alike in the beginning and stay so for long.
    """
    vocabulary, when = len(work.train.vocabulary), (work.seed, epoch)
    places = part.doc_of, part.row_of, part.tokens
    priors = work.priors if epoch else FLAT
    gibbs.sweep(*places, *counts, *priors, vocabulary, *when)


def look(session: paceline.Session, work: Work, tables: Tables, epochs: int) -> None:
    """One trainer sees how far it is, and makes counts what they should be.

    The others wait at the end of this loop over one record, so nothing changes meanwhile.

    Atomic tables agree at any moment. Those in rounds have each batch's push exactly once,
    but a batch that was drawn twice, since its trainer died when one table had its push and
    another had not, may have drawn otherwise; then two tables disagree by that batch. The
    topics are what is true.
    """
    for _ in session.batches(torch.zeros(1), 1):
        began_s = time.time()
        n_dk, n_wk = histograms(work, tables.topics.pull())
        missing = n_wk - tables.words.pull()
        tables.words.push(None, missing)
        tables.sums.push(None, n_wk.sum(axis=0, dtype=np.int64) - tables.sums.pull())
        logs = quality.log_likelihood(n_dk, n_wk, work.priors) / len(work.train.words)
        held = work.held_out.words, work.held_out.starts
        perplexity = quality.perplexity(n_wk, *held, work.priors)
        session.log(log_likelihood=logs, perplexity=perplexity)
        mended = np.abs(missing).sum()
        tables.looks.push([epochs], [[logs, perplexity, began_s, time.time(), mended]])


def histograms(work: Work, lines: Array) -> tuple[Array, Array]:
    """How often topics stand in documents, and words for topics, by all lines of topics."""
    whole = work.train.part(np.arange(work.train.num_documents))
    topics = lines.reshape(-1)[whole.place_of]
    n_dk = np.zeros((work.train.num_documents, work.num_topics), np.int32)
    n_wk = np.zeros((len(work.train.vocabulary), work.num_topics), np.int32)
    gibbs.histogram(whole.doc_of, topics, n_dk)
    gibbs.histogram(work.train.words, topics, n_wk)
    return n_dk, n_wk


def report(work: Work, tables: Tables, out: Path | None, picture: Path | None) -> None:
    """Say what was found, and draw how it went, in one trainer."""
    n_wk = tables.words.pull()
    for number, words in enumerate(quality.top_words(n_wk, work.train.vocabulary)):
        print(f"topic {number:3}: {' '.join(words)}")
    looks = dict(zip(LOOK, tables.looks.pull(work.looks()).T.tolist(), strict=True))
    if out is not None:
        is_exact = (histograms(work, tables.topics.pull())[1] == n_wk).all()
        is_exact &= (n_wk.sum(axis=0) == tables.sums.pull()[0]).all()
        found = {"exact": bool(is_exact), "tokens": len(work.train.words)}
        out.write_text(json.dumps({**found, "epochs": work.looks(), **looks}))
    if picture is not None:
        draw_looks(work.looks(), looks, picture)


def draw_looks(epochs: list[int], looks: dict[str, list[float]], picture: Path) -> None:
    """Likelihood and perplexity by epoch; before the first nobody has a topic."""
    import matplotlib.pyplot as plt  # noqa: PLC0415  # a second, only for a picture

    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.4), layout="constrained")
    left.plot(epochs[1:], looks["log_likelihood"][1:], marker=".")
    left.set(xlabel="epoch", ylabel="log-likelihood per token")
    right.plot(epochs[1:], looks["perplexity"][1:], marker=".")
    right.set(xlabel="epoch", ylabel="perplexity of documents held out")
    figure.savefig(picture, dpi=140)
    plt.close(figure)


def parse_flags() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--model", choices=LOOPS, default="rotation", help="of computation")
    parser.add_argument("--data", choices=corpus.NAMES, default="reuters")
    parser.add_argument("--topics", type=int, default=20)
    parser.add_argument("--alpha", type=float, default=0.1, help="prior of a mixture")
    parser.add_argument("--beta", type=float, default=0.01, help="prior of a topic")
    parser.add_argument("--epochs", type=int, default=100)
    parser.add_argument("--parts", type=int, default=4, help="of the documents")
    parser.add_argument("--look-every", type=int, default=10, help="epochs")
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
    tables = make_tables(session, work, flags.model)
    parts: dict[tuple[int, ...], Part] = {}
    looks = work.looks()
    look(session, work, tables, 0)
    for begin, end in itertools.pairwise(looks):
        LOOPS[flags.model](session, work, tables, Stage(begin, end, parts))
        look(session, work, tables, end)
    if session.once("report"):
        report(work, tables, flags.out, flags.picture)


if __name__ == "__main__":
    main()
