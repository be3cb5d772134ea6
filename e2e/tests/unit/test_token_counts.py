"""Are our counts the model's own, of texts and of chats, and is what cannot be counted refused?"""

from __future__ import annotations

import json
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest
from tokenizers import Tokenizer
from tokenizers.models import WordLevel

from loadproof import tokenizer
from loadproof.chat_template import ChatTemplate
from loadproof.errors import UsageProblem
from loadproof.tokenizer import TokenCounter, bundled_counter


@pytest.fixture(scope="module")
def counter() -> TokenCounter:
    return bundled_counter()


# From `transformers` 5.13 (AutoTokenizer on the same folder), without BOS.
KNOWN = {
    "": 0,
    "hello world": 2,
    " hello": 1,
    "  \n\t": 3,
    "1234567890": 10,
    "naïve café ☕ 日本語": 8,
    "<bos>x<end_of_turn>": 3,
    "👩‍👩‍👧‍👦": 7,
    "\x00": 1,
    "def f(x):\n    return x**2\n": 12,
}


def test_bare_and_bos_counts_are_the_known_ones(counter: TokenCounter) -> None:
    assert dict(zip(KNOWN, counter.bare([*KNOWN]), strict=True)) == KNOWN
    assert counter.with_bos([*KNOWN]) == [count + 1 for count in KNOWN.values()]
    assert counter.with_bos(["hello world"]) == [3]
    assert counter.bare([]) == []


def test_a_chat_of_one_word_costs_nine_tokens_more_than_its_text(counter: TokenCounter) -> None:
    assert counter.chat_bare([user("word")]) == 1
    assert counter.chat([user("word")]) == 1 + 9


def system(content: object) -> dict[str, object]:
    return {"role": "system", "content": content}


def user(content: object) -> dict[str, object]:
    return {"role": "user", "content": content}


def part(text: str) -> dict[str, str]:
    return {"type": "text", "text": text}


# Counted by `transformers` 5.13, `apply_chat_template` with add_generation_prompt; the second number by hand.
CHATS: list[tuple[list[dict[str, object]], int, int]] = [
    ([user("word"), {"role": "assistant", "content": "yes"}, user("word")], 22, 3),
    ([user("  word \n")], 10, 1),
    ([user("")], 9, 0),
    ([system("Be brief."), user("word")], 14, 4),
    ([system(" Be brief. "), user("word")], 15, 5),
    ([system([part("Be brief.")]), user([part(" one"), part("two ")])], 15, 5),
    ([user([part("a"), {"type": "image_url"}])], 10, 1),
    ([user("naïve ☕ 日本語")], 16, 7),
    ([user("<start_of_turn>")], 10, 1),
    ([system([part("one"), part("two")]), user("word")], 12, 2),
]


@pytest.mark.parametrize(("messages", "tokens", "bare"), CHATS)
def test_chat_counts_are_the_known_ones(
    messages: list[dict[str, object]], tokens: int, bare: int, counter: TokenCounter
) -> None:
    assert counter.chat(messages) == tokens
    assert counter.chat_bare(messages) == bare


@pytest.mark.parametrize(
    ("messages", "words"),
    [
        ([], "at least one message"),
        ([user("a"), user("b")], "Conversation roles must alternate user/assistant/user/assistant/..."),
        ([{"role": "assistant", "content": "a"}], "Conversation roles must alternate"),
        ([user(None)], "Invalid content type"),
        ([user(5)], "Invalid content type"),
        ([system([]), user("a")], "has no element 0"),
        ([user("a"), {"role": 7, "content": "b"}], "concatenate str"),
        ([user("\ud800")], "not valid Unicode"),
    ],
)
def test_what_the_template_refuses_is_refused_in_its_words(
    messages: list[dict[str, object]], words: str, counter: TokenCounter
) -> None:
    with pytest.raises(ValueError, match=words):
        counter.chat(messages)


def test_white_space_around_blocks_goes_as_it_does_in_transformers(tmp_path: Path) -> None:
    template = "{{ bos_token }}\n  {% for m in messages %}\n  {{ m.content }}\n  {% endfor %}\nend"
    config = tmp_path / "tokenizer_config.json"
    config.write_text(json.dumps({"chat_template": template, "bos_token": "<bos>"}))
    assert ChatTemplate(config).prompt([user("a")]) == "<bos>\n  a\nend"


def test_a_content_that_is_no_text_has_no_bare_count(counter: TokenCounter) -> None:
    with pytest.raises(ValueError, match="Invalid content type"):
        counter.chat_bare([user(5)])


def test_ids_and_texts_go_both_ways(counter: TokenCounter) -> None:
    assert counter.encode("hello world", bos=True) == [2, *counter.encode("hello world", bos=False)]
    assert counter.decode(counter.encode("hello world", bos=True)) == "<bos>hello world"
    for text in KNOWN:
        assert counter.decode(counter.encode(text, bos=False)) == text
    assert counter.vocab_size == 262_145
    assert counter.decode([counter.vocab_size - 1]) == "<image_soft_token>"


@pytest.mark.parametrize("wrong", [-1, 262_145, 2**70])
def test_an_id_out_of_range_is_refused(wrong: int, counter: TokenCounter) -> None:
    with pytest.raises(ValueError, match=f"token id {wrong} is not between 0 and 262144"):
        counter.decode([2, wrong])


def test_a_lone_surrogate_is_refused(counter: TokenCounter) -> None:
    with pytest.raises(ValueError, match="not valid Unicode"):
        counter.bare(["fine", "\ud800"])


def test_a_folder_that_cannot_be_loaded_is_named(tmp_path: Path) -> None:
    broken = TokenCounter(tmp_path)
    with pytest.raises(UsageProblem, match=r"tokenizer\.json cannot be loaded"):
        broken.bare(["text"])
    for content in (b"not json", b"{}", b'{"chat_template": "{% if", "bos_token": "x"}'):
        (tmp_path / "tokenizer_config.json").write_bytes(content)
        with pytest.raises(UsageProblem, match=r"tokenizer_config\.json cannot be loaded: .*Delete its folder"):
            broken.chat([user("a")])


def test_threads_that_ask_at_once_load_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    loads: list[str] = []
    two_are_loading = threading.Barrier(2)

    class Slow:
        @staticmethod
        def from_file(path: str) -> Tokenizer:
            loads.append(path)
            with suppress(threading.BrokenBarrierError):
                two_are_loading.wait(timeout=0.3)
            return Tokenizer(WordLevel({"a": 0}))

    monkeypatch.setattr(tokenizer, "Tokenizer", Slow)
    counter = TokenCounter(tmp_path)
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(counter.bare, [["a"]] * 4)) == [[1]] * 4
    assert loads == [str(tmp_path / "tokenizer.json")]
