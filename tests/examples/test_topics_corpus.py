"""Documents as numbers: what is read, what is left out, and which are held out."""

import numpy as np
import pytest

from examples.topics import corpus


def test_counts_of_words_become_tokens() -> None:
    words, starts = corpus.read_ldac(["2 0:1 3:2", "1 1:1", "0"])
    assert words.tolist() == [0, 3, 3, 1]
    assert starts.tolist() == [0, 3, 4, 4]


def test_rare_and_common_words_and_short_ones_are_left_out() -> None:
    texts = ["Shepherd is shepherd, the shepherd of the flock"] * 2 + ["the sea"] * 3
    words, starts, vocabulary = corpus.encode(texts)
    assert vocabulary == ["shepherd"]  # flock twice, sea in more than half, is and of short
    assert words.tolist() == [0] * 6
    assert starts.tolist() == [0, 3, 6, 6, 6, 6]


def test_every_tenth_document_is_held_out_whole() -> None:
    made = corpus.generate(documents=25, length=7, vocabulary=50, topics=3)
    train, test = made.split()
    assert test.titles == ["document 9", "document 19"]
    assert (test.num_documents, train.num_documents) == (2, 23)
    assert test.words[:7].tolist() == made.words[63:70].tolist()
    assert len(train.words) + len(test.words) == len(made.words)


def test_a_part_knows_each_tokens_document_word_and_number() -> None:
    made = corpus.Corpus(
        np.array([5, 2, 5, 7, 2], np.int32), np.array([0, 2, 2, 5]), [], ["a", "b", "c"]
    )
    part = made.part(np.array([2, 1, 0]))
    assert part.tokens.tolist() == [2, 3, 4, 0, 1]
    assert part.doc_of.tolist() == [0, 0, 0, 2, 2]
    assert part.words[part.row_of].tolist() == [5, 7, 2, 5, 2]
    assert part.words.tolist() == [2, 5, 7]


def test_the_same_seed_generates_the_same_documents() -> None:
    one, same, other = (
        corpus.generate(documents=4, length=30, vocabulary=90, topics=3, seed=seed)
        for seed in (1, 1, 2)
    )
    assert one.words.tolist() == same.words.tolist() != other.words.tolist()


def test_an_unknown_corpus_is_refused_with_the_known_ones() -> None:
    with pytest.raises(ValueError, match="'kos' is not one of reuters, king"):
        corpus.load("kos")


def test_a_cell_has_the_tokens_of_its_words_and_all_places_of_its_documents() -> None:
    made = corpus.Corpus(
        np.array([5, 2, 5, 7, 2], np.int32), np.array([0, 2, 2, 5]), [], ["a", "b", "c"]
    )
    cell = made.cell(np.array([2, 3]), np.array([5, 6, 7]))
    assert cell.documents.tolist() == [2]
    assert cell.row_of.tolist() == [0, 2]
    assert cell.tokens.tolist() == [2, 3]
    assert cell.place_of.tolist() == [0, 1]
    assert cell.all_places.tolist() == [0, 1, 2]


def test_a_line_is_of_one_document() -> None:
    made = corpus.generate(documents=3, length=100, vocabulary=50, topics=3)
    part = made.part(np.array([2, 0]))
    assert part.lines.tolist() == [4, 5, 0, 1]
    assert part.place_of.tolist() == [*range(100), *range(128, 228)]
