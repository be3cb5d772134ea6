"""Which words of a list are one token each, first in a text and after a space?

    python -m loadproof.data.make_words CANDIDATES

Method: each candidate of the file is counted twice by the bundled tokenizer, as `word` and as ` word`, and is
kept when both are one token. Writes the kept words, sorted, over `words.txt` and prints the dropped ones.
Source: the candidates are a list of everyday English words written for this project, taken from no other list.
Run on `words.txt` itself it drops nothing; new words are added to that file and the maker is run on it.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from loadproof.errors import UsageProblem
from loadproof.tokenizer import TokenCounter, bundled_counter

LEAST = 512


def kept(candidates: set[str], counter: TokenCounter) -> list[str]:
    """Return, sorted, the candidates of lower-case ASCII letters that are one token with and without a space."""
    words = sorted(word for word in candidates if re.fullmatch("[a-z]+", word))
    first = counter.bare(words)
    later = counter.bare([f" {word}" for word in words])
    return [word for word, tokens in zip(words, zip(first, later, strict=True), strict=True) if tokens == (1, 1)]


def main(argv: list[str]) -> None:
    """Filter the file that is named and write `words.txt` beside this module."""
    if len(argv) != 1:
        raise UsageProblem("usage: python -m loadproof.data.make_words CANDIDATES")
    candidates = set(Path(argv[0]).read_text("ascii").split())
    words = kept(candidates, bundled_counter())
    if len(words) < LEAST:
        raise UsageProblem(f"Only {len(words)} words are one token each; at least {LEAST} are needed: add candidates.")
    Path(__file__).with_name("words.txt").write_text("\n".join(words) + "\n", "ascii")
    sys.stdout.write(f"kept {len(words)}, dropped: {' '.join(sorted(candidates - set(words))) or 'none'}\n")


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except UsageProblem as problem:
        sys.exit(str(problem))
