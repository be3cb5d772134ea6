"""Is every tarball but the right one refused, with nothing left behind, and can the right one be made again?"""

from __future__ import annotations

import gzip
import hashlib
import os
import random
import tarfile
import tracemalloc
from io import BytesIO
from pathlib import Path

import pytest

from loadproof import tokenizer
from loadproof.data import make_tokenizer_tarball as maker
from loadproof.errors import Exit, UsageProblem
from loadproof.tokenizer import FILES, NAME, tokenizer_dir

STAND_IN = {
    "NOTICE": b"terms\n",
    "tokenizer.json": random.Random(1).randbytes(3000),
    "tokenizer_config.json": b'{"a": 1}',
}
SMALL = maker.tar_of(STAND_IN)


def written(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    return path


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def entry(name: str, content: bytes = b"x", kind: bytes = tarfile.REGTYPE) -> tuple[tarfile.TarInfo, bytes]:
    info = tarfile.TarInfo(name)
    info.type, info.size = kind, len(content)
    if kind in {tarfile.SYMTYPE, tarfile.LNKTYPE}:
        info.linkname = "NOTICE"
    return info, content


def archive(*extra: tuple[tarfile.TarInfo, bytes], without: str = "") -> bytes:
    """A gzipped tar of the stand-in files, but `without`, and then the extra entries."""
    plain = BytesIO()
    with tarfile.open(fileobj=plain, mode="w") as tar:
        kept = [entry(f"{NAME}/{name}", content) for name, content in STAND_IN.items() if name != without]
        for info, content in [*kept, *extra]:
            tar.addfile(info, BytesIO(content))
    return gzip.compress(plain.getvalue())


def sparse(name: str) -> tuple[tarfile.TarInfo, bytes]:
    """A file that takes no room in the archive and claims a terabyte."""
    info, content = entry(name, b"")
    info.pax_headers = {"GNU.sparse.major": "0", "GNU.sparse.map": f"{2**40},0", "GNU.sparse.size": f"{2**40}"}
    return info, content


def refused(data: bytes, tmp_path: Path) -> str:
    """Assert that a tarball of these bytes is refused, named, and leaves nothing; return the message."""
    tarball = written(tmp_path / "wrong.tar.gz", data)
    with pytest.raises(UsageProblem, match="cannot be used") as caught:
        tokenizer_dir(tarball, tmp_path / "root")
    assert str(tarball) in str(caught.value)
    assert "git checkout" in str(caught.value)
    assert caught.value.exit_code is Exit.USAGE
    assert list(tmp_path.iterdir()) == [tarball]
    return str(caught.value)


PACKED = maker.packed(SMALL)


@pytest.mark.parametrize("length", [0, 1, 9, 10, 11, 200, len(PACKED) // 2, *range(len(PACKED) - 9, len(PACKED))])
def test_a_cut_tarball_is_refused(length: int, tmp_path: Path) -> None:
    refused(PACKED[:length], tmp_path)


@pytest.mark.parametrize("place", [0, 3, 500, len(PACKED) // 2, len(PACKED) - 8, len(PACKED) - 1])
def test_a_changed_byte_is_refused(place: int, tmp_path: Path) -> None:
    changed = bytearray(PACKED)
    changed[place] ^= 0xFF
    refused(bytes(changed), tmp_path)


@pytest.mark.parametrize("length", [0, 511, 512, 600, 2048, 4000])
def test_a_cut_archive_in_a_whole_gzip_is_refused(length: int, tmp_path: Path) -> None:
    refused(gzip.compress(SMALL[:length]), tmp_path)


@pytest.mark.parametrize(
    "data",
    [b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 5476974\n", SMALL, gzip.compress(b"text" * 999)],
    ids=["pointer file", "not gzipped", "not a tar"],
)
def test_something_else_than_a_tarball_is_refused(data: bytes, tmp_path: Path) -> None:
    refused(data, tmp_path)


def test_the_archive_that_the_next_tests_spoil_is_good(tmp_path: Path) -> None:
    tarball = written(tmp_path / "good.tar.gz", archive())
    assert contents(tokenizer_dir(tarball, tmp_path / "root")) == STAND_IN


@pytest.mark.parametrize(
    "name",
    [
        "../x",
        f"{NAME}/../x",
        f"{NAME}/../../x",
        "/x",
        "x",
        NAME,
        f"{NAME}/x",
        f"{NAME}//NOTICE",
        f"{NAME}/deeper/NOTICE",
        f"{NAME}/{NAME}/NOTICE",
    ],
)
def test_an_unexpected_name_is_refused(name: str, tmp_path: Path) -> None:
    assert "unexpected entry" in refused(archive(entry(name)), tmp_path)


def test_a_file_beside_the_top_folder_is_refused(tmp_path: Path) -> None:
    assert "unexpected entry 'NOTICE'" in refused(archive(entry("NOTICE", b"terms\n"), without="NOTICE"), tmp_path)


def test_the_same_name_twice_is_refused(tmp_path: Path) -> None:
    assert "unexpected entry" in refused(archive(entry(f"{NAME}/NOTICE")), tmp_path)


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.DIRTYPE, tarfile.FIFOTYPE, tarfile.CHRTYPE])
def test_what_is_no_plain_file_is_refused(kind: bytes, tmp_path: Path) -> None:
    data = archive(entry(f"{NAME}/NOTICE", b"", kind), without="NOTICE")
    assert "not a plain file" in refused(data, tmp_path)


def test_a_sparse_file_is_refused_before_it_is_read(tmp_path: Path) -> None:
    assert "not a plain file" in refused(archive(sparse(f"{NAME}/NOTICE"), without="NOTICE"), tmp_path)


@pytest.mark.parametrize("name", FILES)
def test_a_missing_or_empty_file_is_named(name: str, tmp_path: Path) -> None:
    assert f"missing or empty: {name}" in refused(archive(without=name), tmp_path)
    (tmp_path / "wrong.tar.gz").unlink()
    assert f"missing or empty: {name}" in refused(archive(entry(f"{NAME}/{name}", b""), without=name), tmp_path)


def test_more_than_the_bound_is_refused_packed_or_unpacked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tokenizer, "MOST_BYTES", len(SMALL) - 1)
    assert f"more than {len(SMALL) - 1} bytes" in refused(PACKED, tmp_path)
    monkeypatch.setattr(tokenizer, "MOST_BYTES", len(SMALL))
    assert contents(tokenizer_dir(tmp_path / "wrong.tar.gz", tmp_path / "root")) == STAND_IN


def test_a_bomb_is_not_unpacked_to_find_its_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tokenizer, "MOST_BYTES", 100_000)
    bomb = gzip.compress(bytes(50_000_000))
    tracemalloc.start()
    try:
        refused(bomb, tmp_path)
        assert tracemalloc.get_traced_memory()[1] < 10_000_000
    finally:
        tracemalloc.stop()


def test_a_bundled_tarball_with_another_sha256_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    actual = tokenizer.TARBALL_SHA256
    monkeypatch.setattr(tokenizer, "TARBALL_SHA256", "0" * 64)
    with pytest.raises(UsageProblem, match=f"{NAME}.tar.gz cannot be used: its sha256 is {actual} and not 0000"):
        tokenizer_dir(root=tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_tarball_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageProblem, match=r"gone\.tar\.gz cannot be used: No such file"):
        tokenizer_dir(tmp_path / "gone.tar.gz", tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_equal_files_give_equal_bytes_from_a_folder_and_from_a_tarball(tmp_path: Path) -> None:
    names = ["tokenizer.json", "tokenizer_config.json"]
    wanted = {name: hashlib.sha256(STAND_IN[name]).hexdigest() for name in names}
    plain = tmp_path / "plain"
    deep = tmp_path / "deep" / "package" / "models"
    for folder, order, mode in [(plain, names, 0o600), (deep, names[::-1], 0o644)]:
        folder.mkdir(parents=True)
        for name in order:
            written(folder / name, STAND_IN[name]).chmod(mode)
            os.utime(folder / name, (mode, mode))
    written(deep.parent / "tokenizer.json", b"of the same name, not the one")
    with tarfile.open(tmp_path / "npm.tgz", "w:gz") as tar:
        tar.add(tmp_path / "deep" / "package", "package")

    sources = [plain, tmp_path / "deep", tmp_path / "npm.tgz"]
    targets = [tmp_path / f"{number}.tar.gz" for number in range(3)]
    digests = {maker.make(source, target, wanted) for source, target in zip(sources, targets, strict=True)}
    assert {target.read_bytes() for target in targets} == {targets[0].read_bytes()}
    assert targets[0].read_bytes()[4:8] == bytes(4)  # gzip's time of making
    assert digests == {hashlib.sha256(targets[0].read_bytes()).hexdigest()}
    made = contents(tokenizer_dir(targets[0], tmp_path / "root"))
    assert made == {**{name: STAND_IN[name] for name in names}, "NOTICE": maker.NOTICE.encode()}


@pytest.mark.parametrize("name", ["folder", "no.tgz", "gone.tgz"])
def test_a_source_without_the_right_files_makes_nothing(name: str, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    written(tmp_path / "folder" / "tokenizer.json", b"another")
    written(tmp_path / "no.tgz", b"not a tarball")
    with pytest.raises(UsageProblem, match=name):
        maker.make(tmp_path / name, tmp_path / "target")
    assert not (tmp_path / "target").exists()
