"""Which texts have exactly as many tokens as asked, without a tokenizer at hand?

Method: `data/words.txt` holds words that are one token each under the bundled tokenizer, with a leading space
and without. No token of that vocabulary joins a letter to a following space, so no token spans two words, and
any n of them joined by single spaces are exactly n bare tokens. The tests prove both with the tokenizer itself.
Left out: special tokens (a server's BOS is one more), chat templates and every other tokenizer. Nothing here
loads a tokenizer, so that clients start at once.
"""

from __future__ import annotations

import random
from importlib.resources import files

WORDS: tuple[str, ...] = tuple(files("loadproof.data").joinpath("words.txt").read_text("ascii").split())
"""Lower-case ASCII English words, sorted, no word twice; at least 512."""

_LATER = tuple(f" {word}" for word in WORDS)
_SPACED = tuple(f"{word} " for word in WORDS)


def pieces(count: int, start: int = 0, *, trailing_space: bool = False) -> list[str]:
    """Return `count` pieces of text, as a stream sends them; joined they are `count` bare tokens.

    The words follow each other cyclically from index `start` (any integer, modulo len(WORDS)); the first piece
    has no leading space, the later ones have one, and each alone is one token, too. With `trailing_space` the same
    text is cut behind its spaces: each piece but the last ends with one, and is two tokens alone. The last has
    none, because a space at the end of the text would be a token more than is claimed.

    Raises:
        ValueError: `count` is negative.
    """
    _must_not_be_negative(count)
    words, size = _SPACED if trailing_space else _LATER, len(WORDS)
    cyclic = [words[index % size] for index in range(start, start + count)]
    end = slice(-1, None) if trailing_space else slice(1)
    cyclic[end] = [piece.strip() for piece in cyclic[end]]
    return cyclic


def random_text(tokens: int, rng: random.Random) -> str:
    """Return a text of exactly `tokens` bare tokens, drawn uniformly with replacement.

    The state of `rng` alone decides: the same state gives the same text.

    Raises:
        ValueError: `tokens` is negative.
    """
    _must_not_be_negative(tokens)
    return " ".join(rng.choices(WORDS, k=tokens))


def _must_not_be_negative(tokens: int) -> None:
    if tokens < 0:
        raise ValueError(f"a text cannot have {tokens} tokens")
