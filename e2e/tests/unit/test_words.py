"""Are our texts exactly as many tokens as they claim, whole and piece by piece, under the real tokenizer?"""

from __future__ import annotations

import json
import random
import re
from pathlib import Path

import pytest

import loadproof.data
from loadproof.data.make_words import kept
from loadproof.tokenizer import TokenCounter, bundled_counter
from loadproof.words import WORDS, pieces, random_text

SEED = 20_260


@pytest.fixture(scope="module")
def counter() -> TokenCounter:
    return bundled_counter()


def test_the_list_is_what_it_says() -> None:
    assert len(WORDS) >= 512
    assert list(WORDS) == sorted(set(WORDS))
    assert [word for word in WORDS if not re.fullmatch("[a-z]+", word)] == []


def test_every_word_alone_is_one_token_with_and_without_a_space(counter: TokenCounter) -> None:
    assert set(counter.bare(WORDS)) == {1}
    assert set(counter.bare([f" {word}" for word in WORDS])) == {1}
    # The commonest other way to cut a stream, "word ", is not one token: the counts above could have differed.
    assert set(counter.bare([f"{word} " for word in WORDS])) == {2}


def test_no_token_of_the_vocabulary_spans_two_words(counter: TokenCounter) -> None:
    # "▁" is the vocabulary's space. With this, n words are n tokens in any order, not only in those drawn below.
    vocabulary = counter._tokenizer().get_vocab()
    assert "▁the" in vocabulary
    assert [token for token in vocabulary if re.search("[a-z]▁", token)] == []


def test_random_sequences_have_one_token_a_word(counter: TokenCounter) -> None:
    rng = random.Random(SEED)
    lengths = [rng.randint(1, 300) for _ in range(3000)]
    assert counter.bare([random_text(length, rng) for length in lengths]) == lengths


def test_random_pairs_have_two_tokens(counter: TokenCounter) -> None:
    rng = random.Random(SEED + 1)
    assert set(counter.bare([random_text(2, rng) for _ in range(20_000)])) == {2}


def test_a_long_text_has_one_token_a_word_and_bos_is_one_more(counter: TokenCounter) -> None:
    text = random_text(8192, random.Random(SEED + 2))
    assert counter.bare([text]) == [8192]
    assert counter.with_bos([text]) == [8193]


@pytest.mark.parametrize("start", [0, 1, len(WORDS) - 2, len(WORDS), -3, 10**12])
@pytest.mark.parametrize("count", [0, 1, 2, 5, 2 * len(WORDS) + 3])
def test_pieces_are_one_token_each_and_together(counter: TokenCounter, count: int, start: int) -> None:
    stream = pieces(count, start)
    assert len(stream) == count
    assert counter.bare(stream) == [1] * count
    assert counter.bare(["".join(stream)]) == [count]
    assert "".join(stream) == " ".join(WORDS[(start + i) % len(WORDS)] for i in range(count))


@pytest.mark.parametrize("start", [0, len(WORDS) - 2, -3])
@pytest.mark.parametrize("count", [0, 1, 2, 5, 2 * len(WORDS) + 3])
def test_pieces_that_end_with_their_space_are_the_same_text(counter: TokenCounter, count: int, start: int) -> None:
    stream = pieces(count, start, trailing_space=True)
    assert len(stream) == count
    assert "".join(stream) == "".join(pieces(count, start))
    assert [piece.endswith(" ") for piece in stream] == [True] * (count - 1) + [False] * min(count, 1)
    assert counter.bare(stream) == [2] * (count - 1) + [1] * min(count, 1)
    if count:  # why the last has none
        assert counter.bare(["".join(stream) + " "]) == [count + 1]


def test_the_seed_alone_decides_the_text() -> None:
    assert random_text(50, random.Random(1)) == random_text(50, random.Random(1))
    assert random_text(50, random.Random(1)) != random_text(50, random.Random(2))
    assert not random_text(0, random.Random(1))


def test_a_negative_length_is_refused() -> None:
    with pytest.raises(ValueError, match="-1 tokens"):
        random_text(-1, random.Random(1))
    with pytest.raises(ValueError, match="-1 tokens"):
        pieces(-1)


def test_the_maker_keeps_the_list_and_drops_what_is_not_one_token(counter: TokenCounter) -> None:
    # Two tokens, two tokens, not lower case, not ASCII letters.
    assert kept({*WORDS, "xylophonist", "vowel", "The", "don't"}, counter) == list(WORDS)


def test_each_answer_of_the_conversations_has_as_many_tokens(counter: TokenCounter) -> None:
    """Tools that read the file ask for as many tokens as the answer has, so a run's total is known beforehand."""
    conversations = json.loads(Path(loadproof.data.__file__).with_name("conversations.json").read_text())
    answers = [turn["value"] for each in conversations for turn in each["conversations"] if turn["from"] == "gpt"]
    assert len(answers) == len(conversations) >= 8
    assert set(counter.bare(answers)) == {15}
