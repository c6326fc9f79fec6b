"""A trainer of the topics example that is measured: all its numbers are an argument.

Compiled loops are loaded, and trainers meet, before the clock begins; it stands while one
looks at the likelihood. ``plain`` is no trainer: the kernel in a loop, alone in its
process, which is what nobody who draws like this can be faster than.
"""

import itertools
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "examples" / "topics"))

# The example's modules import each other by plain names, as those of any script do.
import corpus  # noqa: E402
import lda  # noqa: E402
import quality  # noqa: E402

import paceline  # noqa: E402


class Told(msgspec.Struct, frozen=True, kw_only=True):
    """What a trainer is to do; as `lda.Work`, with a file of arrays for data.

    Args:
        data: what `write_texts` has made.
        out: where one trainer writes what it saw, as `Seen`.
        model: of computation, or ``plain``.
        topics: K.
        epochs: how many.
        parts: of the documents.
        look_every: epochs between looks at the likelihood.
        priors: alpha and beta.
        slices: blocks of words for each part.
    """

    data: str
    out: str
    model: str
    topics: int
    epochs: int
    parts: int
    look_every: int
    priors: tuple[float, float]
    slices: int = 2


class Seen(msgspec.Struct, frozen=True, kw_only=True):
    """What came of a run.

    Args:
        epochs: after which there was a look.
        seconds: from the beginning to each of them.
        log_likelihood: per token, then.
        kernel_s: what the trainer that writes this was in its kernel.
        cpu_s: of this trainer's process in the loop; a peer's with all threads.
        waited_s: what it waited for cells and their rows, in a rotation.
        is_exact: whether counts are the histogram of topics.
    """

    epochs: list[int]
    seconds: list[float]
    log_likelihood: list[float]
    kernel_s: float
    cpu_s: float
    waited_s: float = 0.0
    is_exact: bool = True


def write_texts(train: corpus.Corpus, held_out: corpus.Corpus, path: Path) -> None:
    """Keep documents as arrays of one file, which peers read too."""
    held = {"held_words": held_out.words, "held_starts": held_out.starts}
    size = np.array(len(train.vocabulary))
    np.savez(path, words=train.words, starts=train.starts, vocabulary=size, **held)


def read_work(told: Told) -> lda.Work:
    """What `write_texts` kept, as work."""
    with np.load(told.data, allow_pickle=False) as arrays:
        names = [str(word) for word in range(int(arrays["vocabulary"]))]
        train, held_out = (
            corpus.Corpus(arrays[f"{kind}words"], arrays[f"{kind}starts"], names, [])
            for kind in ("", "held_")
        )
    sizes = told.topics, told.epochs, told.parts, 0, told.look_every
    train, held_out = (
        texts._replace(titles=[""] * texts.num_documents) for texts in (train, held_out)
    )
    return lda.Work(train, held_out, quality.Priors(*told.priors), *sizes)


def zeros(work: lda.Work, part: corpus.Part) -> tuple[Any, ...]:
    """Topics and counts of a part before anything was drawn."""
    k = work.num_topics
    return (
        np.zeros(len(part.tokens), np.int32),
        np.zeros((len(part.documents), k), np.int32),
        np.zeros((len(part.words), k), np.int32),
        np.zeros(k, np.int64),
    )


def warm(work: lda.Work) -> None:
    """Load the compiled loops, as a first call does."""
    part = work.train.part(np.arange(1))
    counts = zeros(work, part)
    lda.sample(work, part, counts, 0)
    lda.gibbs.histogram(part.all_docs, counts[0], counts[1])
    n_wk = np.ones((len(work.train.vocabulary), work.num_topics), np.int32)
    quality.perplexity(n_wk, work.held_out.words, work.held_out.starts, work.priors)


def run_plain(work: lda.Work) -> Seen:
    """The kernel alone, document by document."""
    part = work.train.part(np.arange(work.train.num_documents))
    counts = zeros(work, part)
    whole = np.zeros((len(work.train.vocabulary), work.num_topics), np.int32)
    spent, used, seconds, logs = 0.0, 0.0, [], []
    for begin, end in itertools.pairwise(work.looks()):
        began, used_before = time.perf_counter(), time.process_time()
        for epoch in range(begin, end):
            lda.sample(work, part, counts, epoch)
        spent += time.perf_counter() - began
        used += time.process_time() - used_before
        seconds.append(spent)
        whole[part.words] = counts[2]
        found = quality.log_likelihood(counts[1], whole, work.priors)
        logs.append(found / len(work.train.words))
    return Seen(
        epochs=work.looks()[1:],
        seconds=seconds,
        log_likelihood=logs,
        kernel_s=spent,
        cpu_s=used,
    )


def run_model(work: lda.Work, model: str) -> Seen | None:
    """In tables, with whoever else is there; None where another one tells.

    Nothing stops for a look: the loop over all epochs is one.
    """
    kernel, waited = _Sum(), _Sum()
    lda.sample = kernel.around(lda.sample)
    rotate = paceline.Table.rotate

    def watched(*words: Any, **more: Any) -> Iterator[Any]:  # noqa: ANN401  (as it is)
        for cell in rotate(*words, **more):
            waited.seconds += cell.waited_s
            yield cell

    paceline.Table.rotate = watched
    session = paceline.connect()
    tables = lda.make_tables(session, work, model)
    lda.look(session, work, tables, 0)  # nobody is over before all are here
    looker = Looker(work, tables) if session.once("look") else None
    if looker is not None:
        lda.sample = looker.before(lda.sample)
    used = time.process_time()
    lda.LOOPS[model](session, work, tables, lda.Stage(0, work.epochs, {}))
    used = time.process_time() - used
    if looker is None:
        return None
    looker.look(work.epochs)
    return looker.seen(kernel_s=kernel.seconds, cpu_s=used, waited_s=waited.seconds)


class Looker:
    """Topics as they are when an epoch begins, with the time; what they say is for later.

    All that was drawn in the epochs before is in them; and of the one that begins, what
    others have drawn by then.
    """

    def __init__(self, work: lda.Work, tables: lda.Tables) -> None:
        """The clock begins with the first draw."""
        self._work, self._tables = work, tables
        self._began_s: float | None = None
        self._due = work.looks()[1:]
        self._found: list[tuple[int, float, Any]] = []

    def before(self, sample: Callable[..., Any]) -> Callable[..., Any]:
        """The same, with a look before the first draws of an epoch that is due."""

        def looked(work: lda.Work, part: corpus.Part, counts: Any, epoch: int) -> None:  # noqa: ANN401  (as it is)
            self.look(epoch)
            sample(work, part, counts, epoch)

        return looked

    def look(self, epoch: int) -> None:
        """Keep the topics, if it is time."""
        now_s = time.perf_counter()
        if self._began_s is None:
            self._began_s = now_s
        if self._due and epoch >= self._due[0]:
            del self._due[0]
            topics = self._tables.topics.pull()
            self._found.append((epoch, now_s - self._began_s, topics))

    def seen(self, **spent: float) -> Seen:
        """What all looks say, and whether counts are right in the end."""
        logs = []
        for _, _, lines in self._found:
            n_dk, n_wk = lda.histograms(self._work, lines)
            found = quality.log_likelihood(n_dk, n_wk, self._work.priors)
            logs.append(found / len(self._work.train.words))
        return Seen(
            epochs=[epoch for epoch, _, _ in self._found],
            seconds=[seconds for _, seconds, _ in self._found],
            log_likelihood=logs,
            is_exact=bool((n_wk == self._tables.words.pull()).all()),
            **spent,
        )


class _Sum:
    """Seconds inside a function."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def around(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """The function, timed."""

        def timed(*words: Any) -> Any:  # noqa: ANN401  (as the function)
            began = time.perf_counter()
            found = function(*words)
            self.seconds += time.perf_counter() - began
            return found

        return timed


def main() -> None:
    """Draw, and write what was seen."""
    told = msgspec.json.decode(sys.argv[1], type=Told)
    lda.SLICES = told.slices
    work = read_work(told)
    warm(work)
    seen = run_plain(work) if told.model == "plain" else run_model(work, told.model)
    if seen is not None:
        Path(told.out).write_bytes(msgspec.json.encode(seen))


if __name__ == "__main__":
    main()
