"""Documents as numbers: Reuters news, the King James Bible by chapter, or generated ones.

A corpus is one flat array of words, document behind document. Tokens keep their place in
it: the number of a token is what its random numbers and its topic are found by.
"""

import re
import sqlite3
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from paceline.data.sets import sets

NAMES = ("reuters", "king-james", "generated")
HELD_OUT = 10  # every tenth document
LINE = 64  # tokens whose topics are one row of a table: one id for 64 of them
_CACHE_NAME = "topics-king-james-1.npz"  # another encoding, another number
_WORD = re.compile(r"[a-z]{3,}")
_RARE, _COMMON = 5, 0.5  # fewer times than that, or in more than that share of chapters
_WORDS_OF_A_TOPIC = 20  # of a generated one, with most of its weight

Int32s = NDArray[np.int32]
Int64s = NDArray[np.int64]


class Corpus(NamedTuple):
    """Tokens ``words`` int32 (T,); document d is ``words[starts[d] : starts[d + 1]]``."""

    words: Int32s
    starts: Int64s
    vocabulary: list[str]
    titles: list[str]

    @property
    def num_documents(self) -> int:
        """How many documents there are."""
        return len(self.starts) - 1

    @property
    def lengths(self) -> Int64s:
        """Tokens of each document, int64 (documents,)."""
        return np.diff(self.starts)

    def part(self, documents: Int64s) -> "Part":
        """All tokens of these documents, as a sampler takes them."""
        tokens = tokens_of(self.starts, documents)
        words, row_of = np.unique(self.words[tokens], return_inverse=True)
        return self._part(documents, np.arange(len(tokens)), words, row_of)

    def cell(self, tokens: Int64s, words: Int64s) -> "Part":
        """Some tokens, ascending, whose words are in a range of words."""
        documents = np.unique(np.searchsorted(self.starts, tokens, side="right") - 1)
        chosen = np.searchsorted(tokens_of(self.starts, documents), tokens)
        return self._part(documents, chosen, words, self.words[tokens] - words[:1])

    def _part(
        self, documents: Int64s, chosen: Int64s, words: Int64s, row_of: Int64s
    ) -> "Part":
        lengths = self.lengths[documents]
        num_lines = -(-lengths // LINE)
        first_place = np.repeat((np.cumsum(num_lines) - num_lines) * LINE, lengths)
        first_token = np.repeat(np.cumsum(lengths) - lengths, lengths)
        all_docs = np.repeat(np.arange(len(documents), dtype=np.int32), lengths)
        all_places = first_place + np.arange(len(first_token)) - first_token
        lines = tokens_of(self.line_starts, documents)
        places = all_places[chosen]
        return Part(
            documents=documents,
            words=words.astype(np.int64),
            lines=lines,
            all_docs=all_docs,
            all_places=all_places,
            tokens=tokens_of(self.starts, documents)[chosen],
            doc_of=all_docs[chosen],
            row_of=row_of.astype(np.int32),
            place_of=places,
            document_of=documents[all_docs[chosen]].astype(np.int32),
            anywhere=lines[places // LINE] * LINE + places % LINE,
        )

    @property
    def line_starts(self) -> Int64s:
        """Where each document begins among lines of 64 tokens, int64 (documents + 1,)."""
        return starts_of(-(-self.lengths // LINE))

    def take(self, documents: Int64s) -> "Corpus":
        """These documents alone, in this order; the same vocabulary."""
        tokens = tokens_of(self.starts, documents)
        titles = [self.titles[document] for document in documents]
        starts = starts_of(self.lengths[documents])
        return Corpus(self.words[tokens], starts, self.vocabulary, titles)

    def split(self) -> tuple["Corpus", "Corpus"]:
        """For training, and every tenth document held out."""
        documents = np.arange(self.num_documents)
        is_held = documents % HELD_OUT == HELD_OUT - 1
        return self.take(documents[~is_held]), self.take(documents[is_held])


class Part(NamedTuple):
    """Some documents, and those of their tokens whose topics are to be drawn."""

    documents: Int64s  # (documents,)
    words: Int64s  # (rows,) whose counts are needed, ascending
    lines: Int64s  # (lines,) that the documents lie in; a line is of one document
    all_docs: Int32s  # (all tokens,) place in ``documents``
    all_places: Int64s  # (all tokens,) place in the lines, one behind the other
    tokens: Int64s  # (tokens,) to be drawn: number in the corpus
    doc_of: Int32s  # (tokens,) place in ``documents``
    row_of: Int32s  # (tokens,) place in ``words``
    place_of: Int64s  # (tokens,) place in the lines
    document_of: Int32s  # (tokens,) number in the corpus
    anywhere: Int64s  # (tokens,) place in all lines of the corpus


def starts_of(lengths: Int64s) -> Int64s:
    """Where things of these lengths begin, one behind the other; the last is the end."""
    return np.append(0, np.cumsum(lengths))


def tokens_of(starts: Int64s, documents: Int64s) -> Int64s:
    """The numbers of all tokens of these documents, in order, int64."""
    lengths = starts[documents + 1] - starts[documents]
    begins = np.cumsum(lengths) - lengths
    return np.arange(lengths.sum()) + np.repeat(starts[documents] - begins, lengths)


def load(name: str, seed: int = 0) -> Corpus:
    """A corpus of `NAMES`; what is public is fetched once, checked and kept.

    Words are numbered in no order, so that ranges of words have about as many tokens each.

    Args:
        name: which one.
        seed: of the generated one.
    """
    if name == "generated":
        texts = generate(documents=300, length=100, vocabulary=1000, topics=10, seed=seed)
    elif name == "reuters":
        texts = _read_reuters(sets.wait_for_files("reuters-topics"))
    elif name == "king-james":
        arrays = sets.wait_for_arrays(_CACHE_NAME, _make_king_james)
        names = arrays["vocabulary"].tolist(), arrays["titles"].tolist()
        texts = Corpus(arrays["words"], arrays["starts"], *names)
    else:
        raise ValueError(f"corpus {name!r} is not one of {', '.join(NAMES)}")
    order = np.random.default_rng(0).permutation(len(texts.vocabulary))
    return texts._replace(
        words=np.argsort(order)[texts.words].astype(np.int32),
        vocabulary=[texts.vocabulary[word] for word in order],
    )


def generate(
    documents: int, length: int, vocabulary: int, topics: int, seed: int = 0
) -> Corpus:
    """Documents drawn from known topics, as latent Dirichlet allocation says.

    Topic k favours words k, k + topics, k + 2 topics and so on, twenty of them; documents
    have one to three topics. Words are named for the topic that favours them: ``t3-13``.
    """
    draw = np.random.default_rng(seed)
    weights = np.full((topics, vocabulary), 0.1 / vocabulary)
    for topic in range(topics):
        favoured = topic + topics * np.arange(_WORDS_OF_A_TOPIC)
        weights[topic, favoured[favoured < vocabulary]] += 1 / _WORDS_OF_A_TOPIC
    weights /= weights.sum(axis=1, keepdims=True)
    texts = []
    for _ in range(documents):
        chosen = draw.choice(topics, draw.integers(1, min(3, topics) + 1), replace=False)
        counts = draw.multinomial(length, draw.dirichlet(np.ones(len(chosen))))
        drawn = [
            draw.choice(vocabulary, count, p=weights[topic])
            for topic, count in zip(chosen, counts, strict=True)
        ]
        texts.append(draw.permutation(np.concatenate(drawn)))
    return Corpus(
        np.concatenate(texts).astype(np.int32),
        np.arange(documents + 1, dtype=np.int64) * length,
        [f"t{word % topics}-{word}" for word in range(vocabulary)],
        [f"document {number}" for number in range(documents)],
    )


def read_ldac(lines: list[str]) -> tuple[Int32s, Int64s]:
    """Words and starts of documents given as ``distinct word:count word:count ...``."""
    words: list[int] = []
    starts = [0]
    for line in lines:
        for pair in line.split()[1:]:
            word, _, count = pair.partition(":")
            words += [int(word)] * int(count)
        starts.append(len(words))
    return np.array(words, np.int32), np.array(starts, np.int64)


def encode(texts: list[str]) -> tuple[Int32s, Int64s, list[str]]:
    """Words, starts and vocabulary of texts: words of three letters at least.

    Left out: a word that stands fewer than five times, or in more than half of the texts.
    """
    found = [_WORD.findall(text.lower()) for text in texts]
    times = Counter(word for words in found for word in words)
    texts_with = Counter(word for words in found for word in set(words))
    most = _COMMON * len(texts)
    vocabulary = sorted(
        word for word, n in times.items() if n >= _RARE and texts_with[word] <= most
    )
    number = {word: place for place, word in enumerate(vocabulary)}
    numbers = [[number[word] for word in words if word in number] for words in found]
    starts = np.cumsum([0, *map(len, numbers)])
    return np.concatenate(numbers).astype(np.int32), starts.astype(np.int64), vocabulary


def _read_reuters(files: dict[str, Path]) -> Corpus:
    def lines(name: str) -> list[str]:
        return files[f"reuters.{name}"].read_text(encoding="utf-8").splitlines()

    titles = [line.partition(" ")[2] for line in lines("titles")]
    return Corpus(*read_ldac(lines("ldac")), lines("tokens"), titles)


def _make_king_james() -> dict[str, NDArray[Any]]:
    """One document a chapter, from the passages of a database."""
    path = sets.wait_for_files("king-james")["Bible.db"]
    chapters: dict[str, list[str]] = {}
    with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro&immutable=1", uri=True)) as base:
        for book, chapter, first, second in base.execute(
            "SELECT ShortName, ChapterID, Passage1, Passage2 FROM Bible "
            "JOIN Books USING (TestamentID, BookID) ORDER BY Bible.rowid"
        ):
            chapters.setdefault(f"{book} {chapter}", []).append(f"{first} {second}")
    words, starts, vocabulary = encode([" ".join(texts) for texts in chapters.values()])
    return {
        "words": words,
        "starts": starts,
        "vocabulary": np.array(vocabulary),
        "titles": np.array(list(chapters)),
    }
