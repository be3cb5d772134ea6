"""How does llm-d-inference-sim get a tokenizer without a network, and what must it then count?

Method: it looks for `FOLDER/MODEL/tokenizer.json` and for files beside it that only need to be there; a failed
look-up makes it delete the model's folder. So it gets a copy that may be lost. What it must count is what our own
counter says of a few texts, in which wrong normalisation, wrong special tokens and another vocabulary all show.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from loadproof.errors import UsageProblem
from loadproof.tokenizer import TokenCounter, bundled_counter, tokenizer_dir

TEXTS = (
    "hello world",
    "na\u00efve caf\u00e9, Stra\u00dfe",
    "\u6771\u4eac\u306f\u591c \U0001f680\U0001f30d",
    "def f(x):\n\treturn  x[0]\n\n",
)
"""Plain words, accents, other scripts with emoji, code with tabs and runs of spaces."""

_PREFIX = "loadproof-tokenizer-"
_FILES = ("tokenizer.json", "tokenizer_config.json", "vocab.txt", "merges.txt", "special_tokens_map.json",
          "added_tokens.json")  # fmt: skip


def expected_counts(folder: Path) -> dict[str, int]:
    """Return text -> number of tokens, BOS included, by the tokenizer in `folder`.

    It blocks, and keeps the GIL, for about 3 s when this process has not loaded that tokenizer yet.
    Raises UsageProblem if `folder` has none that can be loaded.
    """
    bundled = folder.resolve() == tokenizer_dir().resolve()
    counter = bundled_counter() if bundled else TokenCounter(folder)
    try:
        return dict(zip(TEXTS, counter.with_bos(TEXTS), strict=True))
    except UsageProblem as problem:
        if bundled:
            raise
        raise UsageProblem(f"tokenizer_dir: {folder / 'tokenizer.json'} cannot be loaded ({problem.__cause__}); name "
                           "the folder of a whole tokenizer") from problem  # fmt: skip


@contextmanager
def disposable_copy(folder: Path, model: str, parent: Path) -> Iterator[Path]:
    """Hold a folder F in `parent`, with `F/MODEL/tokenizer.json` and what must lie beside it; it is gone in the end.

    It blocks for some tens of milliseconds, and not in a thread, which could go on writing after a cancellation.
    Raises UsageProblem when it cannot be written.
    """
    with ExitStack() as stack:
        try:
            place = Path(
                stack.enter_context(tempfile.TemporaryDirectory(prefix=_PREFIX, dir=parent, ignore_cleanup_errors=True))
            )
            _copy(folder, place / model)
        except OSError as problem:
            raise UsageProblem(f"The tokenizer in {folder} cannot be copied: {problem}. Make room there, or name "
                               "another log_dir.") from problem  # fmt: skip
        yield place


def _copy(folder: Path, to: Path) -> None:
    to.mkdir(parents=True)
    for name in _FILES:
        if (folder / name).is_file():
            shutil.copyfile(folder / name, to / name)
        else:
            (to / name).touch()
