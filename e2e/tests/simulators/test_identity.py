"""Is a simulator taken for ours only where it is: its port, its name, its way of counting?"""

from __future__ import annotations

import asyncio
import re
from contextlib import suppress
from pathlib import Path

import httpx
import pytest

from loadproof.errors import UsageProblem
from loadproof.simulators import answers
from loadproof.simulators.answers import Answers
from loadproof.simulators.offline_tokenizer import TEXTS, disposable_copy, expected_counts
from loadproof.simulators.problems import (
    SimExitedEarly,
    SimPortInUse,
    SimWrongTokenizer,
)
from tests.simulators.asking import DEADLINE_S, DEADLINES_S, asked_twice, refused, too_late
from tests.simulators.conftest import GivePorts, MakeFake, MakeStranger, notes_of

pytestmark = [pytest.mark.asyncio, pytest.mark.usefixtures("nothing_left")]


async def test_a_stranger_is_waited_out(
    fake: MakeFake, stranger: MakeStranger, give_ports: GivePorts, tmp_path: Path
) -> None:
    """The stranger answers while ours has not bound; when it leaves, ours binds."""
    may_bind = tmp_path / "may-bind"
    async with stranger() as other:
        other.leaves_after, other.leaving = 7, may_bind.touch
        give_ports(other.port)
        async with fake({"bind": str(may_bind)}) as sim:
            assert sim.port == other.port
            await sim.wait_ready()
        assert other.asked == 7
    assert len(notes_of(sim, "started")) == 1


async def test_a_stranger_is_never_taken_for_ours(
    fake: MakeFake, stranger: MakeStranger, give_ports: GivePorts
) -> None:
    async with stranger() as other:
        give_ports(*[other.port] * len(DEADLINES_S))
        told = await too_late(
            lambda deadline_s: fake({"bind": "/never"}, ready_deadline_s=deadline_s), lambda *_: other.asked > 2
        )
    assert "somebody else answers there: /v1/models lists ['org/m', 'nonce-of-somebody-else'] and not this" in told


async def test_a_stranger_does_not_hide_an_exit(fake: MakeFake, stranger: MakeStranger, give_ports: GivePorts) -> None:
    async with stranger() as other:
        give_ports(other.port)
        assert type(await refused(fake({"exits": 0}))) is SimExitedEarly


async def test_one_who_answers_under_our_name_alone_is_a_stranger(fake: MakeFake) -> None:
    told = await too_late(
        lambda deadline_s: fake({"names": ["org/m"]}, ready_deadline_s=deadline_s), lambda sim, _: asked_twice(sim)
    )
    assert "somebody else answers there: /v1/models lists ['org/m']" in told


async def test_a_port_in_use_is_exchanged(fake: MakeFake, stranger: MakeStranger, give_ports: GivePorts) -> None:
    async with stranger() as other, stranger() as another:
        give_ports(other.port, another.port)
        async with fake() as sim:
            assert sim.port not in {other.port, another.port}
            await sim.wait_ready()
    assert len(notes_of(sim, "started")) == 3


async def test_ports_in_use_again_and_again(fake: MakeFake, stranger: MakeStranger, give_ports: GivePorts) -> None:
    async with stranger() as other:
        give_ports(*[other.port] * 9)
        sim = fake()
        problem = await refused(sim)
    assert type(problem) is SimPortInUse
    assert re.match(rf"5 ports were free, .* it said: .*listen tcp4 :{other.port}: bind: address already", str(problem))
    assert len(notes_of(sim, "started")) == 5


async def test_it_counts_as_we_do(fake: MakeFake, small_tokenizer: Path) -> None:
    counts = expected_counts(small_tokenizer)
    assert counts["hello world"] == 3  # BOS is one
    sim = fake({"counts": counts}, tokenizer_dir=small_tokenizer)
    async with sim:
        [folder] = notes_of(sim, "tokenizers")
        copy = Path(folder) / "org" / "m"
        assert (copy / "tokenizer.json").read_bytes() == (small_tokenizer / "tokenizer.json").read_bytes()
        assert sorted(path.name for path in copy.iterdir()) == [
            "added_tokens.json", "merges.txt", "special_tokens_map.json", "tokenizer.json", "tokenizer_config.json",
            "vocab.txt",
        ]  # fmt: skip
        (copy / "tokenizer.json").unlink()
    assert not copy.exists()
    assert (small_tokenizer / "tokenizer.json").exists()
    assert notes_of(sim, "asked").count("/tokenize") == len(TEXTS)


@pytest.mark.parametrize("text", TEXTS)
async def test_it_counts_otherwise(fake: MakeFake, small_tokenizer: Path, text: str) -> None:
    """One text too many is enough: BOS forgotten, say."""
    counts = expected_counts(small_tokenizer)
    problem = await refused(fake({"counts": counts | {text: counts[text] - 1}}, tokenizer_dir=small_tokenizer))
    assert type(problem) is SimWrongTokenizer
    says = f"/tokenize counts {counts[text] - 1} tokens for {text!r}, where ours counts {counts[text]} with BOS"
    assert says in str(problem)


async def test_it_cannot_count(fake: MakeFake, small_tokenizer: Path) -> None:
    problem = await refused(fake({"tokenize_status": 500}, tokenizer_dir=small_tokenizer))
    assert type(problem) is SimWrongTokenizer
    assert "/tokenize answers HTTP 500: Failed to tokenize, the model was not found for 'hello world'" in str(problem)


async def test_a_folder_without_a_tokenizer(fake: MakeFake, tmp_path: Path) -> None:
    sim = fake(tokenizer_dir=tmp_path)
    with pytest.raises(UsageProblem, match=r"^tokenizer_dir: .*tokenizer\.json cannot be loaded \(.*\); name the"):
        await sim.__aenter__()
    assert notes_of(sim, "started") == []


async def test_no_place_for_the_copy(small_tokenizer: Path, tmp_path: Path) -> None:
    says = r"cannot be copied: .*no-folder.*Make room there, or name another log_dir"
    with pytest.raises(UsageProblem, match=says), disposable_copy(small_tokenizer, "org/m", tmp_path / "no-folder"):
        pytest.fail("there is no such folder")


async def test_an_answer_without_end_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answers, "LARGEST_BYTES", 100_000)

    talking: list[asyncio.Task[None]] = []

    async def talk(writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
        with suppress(ConnectionError):
            while True:
                writer.write(b" " * 10_000)
                await writer.drain()
        writer.transport.abort()

    def accept(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        talking.append(asyncio.create_task(talk(writer)))

    async with await asyncio.start_server(accept, "127.0.0.1") as server:
        port = server.sockets[0].getsockname()[1]
        async with Answers(f"http://127.0.0.1:{port}") as asked:
            with pytest.raises(httpx.ReadError, match="more than 100000 bytes"):
                await asked.names()
        await asyncio.wait_for(talking[0], DEADLINE_S)
