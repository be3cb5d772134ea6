"""Where does the bundled tokenizer lie on disk, and how many tokens has a text?

Method: the tarball is unpacked once into a cache folder whose name carries the tarball's sha256. Everything is
checked in memory first; then one process at a time writes the files under a temporary name and renames the
folder, so a folder with the final name is whole. Only names from a literal list are ever written: no name from
an archive reaches the disk. Counts are the `tokenizers` library's own, with the conventions that vLLM uses: BOS
before a completions prompt, the model's chat template (which holds BOS itself) for a chat.
Left out: threads (callers keep counting off their event loop; the library releases the GIL meanwhile), images
and tools in chats, and other models' tokenizers.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import shutil
import tarfile
import threading
import zlib
from collections.abc import Mapping, Sequence
from functools import cache, cached_property
from importlib.resources import as_file, files
from pathlib import Path

from tokenizers import Encoding, Tokenizer

from loadproof.cache import VARIABLE, cache_root, turn
from loadproof.chat_template import ChatTemplate, Message, written
from loadproof.errors import UsageProblem

NAME = "google_gemma-3-270m"
FILES = ("NOTICE", "tokenizer.json", "tokenizer_config.json")
TARBALL_SHA256 = "58424b344d482818b279870bf8a10d40e1d9e25b02d6d6b1f46a267d5eb1074f"
"""Of the bundled tarball: a clone that lost half of it (or holds a pointer file) is told at once."""

MOST_BYTES = 64 << 20
"""Of a tarball, packed and unpacked: the bundled one has 5.5 and 35 million."""


def tokenizer_dir(tarball: Path | None = None, root: Path | None = None) -> Path:
    """Return the absolute folder with `FILES`, unpacked from `tarball` (None: the bundled one) below `root`.

    Any number of processes may ask at once. `root` (None: `cache_root()`) is made if it is not there. The
    folder's name is `NAME`, a hyphen and the first 16 digits of the tarball's sha256.

    Raises:
        UsageProblem: the tarball cannot be read, is cut or holds something else than expected (nothing was
            written then), or the folder cannot be written.
    """
    if tarball is None:
        with as_file(files("loadproof.data").joinpath(f"{NAME}.tar.gz")) as bundled:
            return _unpacked(bundled, root, expected=TARBALL_SHA256)
    return _unpacked(tarball, root, expected=None)


def _unpacked(tarball: Path, root: Path | None, *, expected: str | None) -> Path:
    try:
        with tarball.open("rb") as handle:
            packed = handle.read(MOST_BYTES + 1)
    except OSError as problem:
        raise _wrong(tarball, problem.strerror or str(problem)) from problem
    sha256 = hashlib.sha256(packed).hexdigest()
    if expected not in {None, sha256}:
        raise _wrong(tarball, f"its sha256 is {sha256} and not {expected}; it is cut or was changed")
    folder = (root.absolute() if root else cache_root()) / f"{NAME}-{sha256[:16]}"
    if not _is_whole(folder):
        _install(_contents(packed, tarball), folder)
    return folder


def _wrong(tarball: Path, why: str) -> UsageProblem:
    return UsageProblem(
        f"The tokenizer tarball {tarball} cannot be used: {why}. "
        "Get it again: in a clone `git checkout -- FILE`, otherwise reinstall loadproof."
    )


def _is_whole(folder: Path) -> bool:
    # The rename promises whole files. An emptied or missing one is damage from outside (a cleaner of old files,
    # a power cut before the data reached the disk) and is repaired by unpacking again.
    return all((path := folder / name).is_file() and path.stat().st_size > 0 for name in FILES)


def _contents(packed: bytes, tarball: Path) -> dict[str, bytes]:
    """Return name -> content of exactly `FILES`, or raise what is wrong with the archive."""
    try:
        # The whole gzip stream is read, because tar stops before the checksum at its end.
        with gzip.GzipFile(fileobj=io.BytesIO(packed)) as stream:
            plain = stream.read(MOST_BYTES + 1)
        if max(len(plain), len(packed)) > MOST_BYTES:
            raise _wrong(tarball, f"it holds more than {MOST_BYTES} bytes")
        contents: dict[str, bytes] = {}
        with tarfile.open(fileobj=io.BytesIO(plain), mode="r:") as tar:
            for entry in tar:
                name = entry.name.removeprefix(f"{NAME}/")
                if entry.name != f"{NAME}/{name}" or name not in FILES or name in contents:
                    raise _wrong(tarball, f"unexpected entry {entry.name!r}")
                # A sparse file may claim any size; links and devices have no content of their own.
                stored = None if entry.issparse() or not entry.isreg() else tar.extractfile(entry)
                if stored is None:
                    raise _wrong(tarball, f"the entry {entry.name!r} is not a plain file")
                contents[name] = stored.read()
    except (OSError, EOFError, zlib.error, tarfile.TarError) as problem:
        raise _wrong(tarball, f"{problem}") from problem
    if missing := [name for name in FILES if not contents.get(name)]:
        raise _wrong(tarball, f"missing or empty: {', '.join(missing)}")
    return contents


def _install(contents: Mapping[str, bytes], folder: Path) -> None:
    """Make `folder` hold `contents`, whole or not at all, and clear away what a killed process left."""
    partial = folder.with_name(f".{folder.name}.partial")
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with turn(folder.with_name(f".{folder.name}.lock")):
            if _is_whole(folder):
                return
            for leftover in (partial, folder):
                if leftover.exists():
                    shutil.rmtree(leftover)
            try:
                partial.mkdir()
                for name, content in contents.items():
                    (partial / name).write_bytes(content)
                partial.rename(folder)
            finally:
                shutil.rmtree(partial, ignore_errors=True)
    except OSError as problem:
        raise UsageProblem(
            f"The tokenizer cannot be unpacked to {folder}: {problem.strerror or problem}. "
            f"Make room there, or set {VARIABLE} to another folder that you may write."
        ) from problem


class TokenCounter:
    """Exact counts under the tokenizer in `folder`, as `tokenizer_dir` returns it.

    Making one costs nothing; the first count loads the tokenizer (about 3 s and 373 MB), once, also when
    several threads ask at once. Loading keeps the GIL all the while, so count something before an event loop
    has to be on time; the counts after that release it. Every method raises `UsageProblem` if the folder cannot
    be loaded and `ValueError` for a text that is not valid Unicode (a lone surrogate).
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._loading = threading.Lock()
        self._loaded: Tokenizer | None = None

    @property
    def vocab_size(self) -> int:
        """How many token ids there are, special ones included; every id is in [0, vocab_size)."""
        return self._tokenizer().get_vocab_size()

    def bare(self, texts: Sequence[str]) -> list[int]:
        """Return each text's number of tokens without special tokens."""
        return [len(encoding) for encoding in self._encodings(texts, special=False)]

    def with_bos(self, texts: Sequence[str]) -> list[int]:
        """Return each text's number of tokens as vLLM counts a completions prompt: BOS and the text."""
        return [len(encoding) for encoding in self._encodings(texts, special=True)]

    def chat(self, messages: Sequence[Message]) -> int:
        """Return the number of tokens of a chat as vLLM counts it: the rendered template, with the reply's head.

        Raises:
            ValueError: the template refuses the messages, in its own words.
        """
        return len(self.encode_chat(messages))

    def encode_chat(self, messages: Sequence[Message]) -> list[int]:
        """Return the token ids of a chat as `chat` counts them. Raises ValueError as `chat` does."""
        return self.encode(self._chat_template.prompt(messages), bos=False)

    def chat_bare(self, messages: Sequence[Message]) -> int:
        """Return the tokens of the messages' texts alone, each trimmed where the template trims it, summed."""
        return sum(self.bare([written(message) for message in messages]))

    def encode(self, text: str, bos: bool) -> list[int]:  # noqa: FBT001 - the one flag is the question
        """Return the token ids of `text`, with BOS before them if `bos`."""
        return self._encodings([text], special=bos)[0].ids

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of the ids, special tokens spelled out.

        Raises:
            ValueError: an id is not in [0, vocab_size).
        """
        size = self.vocab_size
        if wrong := [i for i in ids if not 0 <= i < size]:
            raise ValueError(f"token id {wrong[0]} is not between 0 and {size - 1}")
        return self._tokenizer().decode(list(ids), skip_special_tokens=False)

    def _encodings(self, texts: Sequence[str], *, special: bool) -> list[Encoding]:
        try:
            # `encode` would keep the GIL, and with it the caller's event loop, for milliseconds.
            return self._tokenizer().encode_batch_fast(list(texts), add_special_tokens=special)
        except TypeError as problem:
            raise ValueError("a text is not valid Unicode") from problem

    def _tokenizer(self) -> Tokenizer:
        with self._loading:
            if self._loaded is None:
                path = self.folder / "tokenizer.json"
                try:
                    self._loaded = Tokenizer.from_file(str(path))
                except Exception as problem:  # the library raises nothing narrower
                    raise _unloadable(path, problem) from problem
            return self._loaded

    @cached_property
    def _chat_template(self) -> ChatTemplate:
        path = self.folder / "tokenizer_config.json"
        try:
            return ChatTemplate(path)
        except (OSError, ValueError, KeyError, TypeError) as problem:
            raise _unloadable(path, problem) from problem


@cache
def bundled_counter() -> TokenCounter:
    """Return this process's one counter of the bundled tokenizer, unpacked into the cache; see `tokenizer_dir`."""
    return TokenCounter(tokenizer_dir())


def _unloadable(path: Path, problem: Exception) -> UsageProblem:
    return UsageProblem(f"{path} cannot be loaded: {problem}. Delete its folder; it is unpacked again when needed.")
