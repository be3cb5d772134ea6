"""Does the official client, which knows nothing of us, get from the absorber what OpenAI promises?"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import TYPE_CHECKING

import openai
import pytest
import pytest_asyncio

from loadproof.words import pieces

if TYPE_CHECKING:
    from openai.types.chat import ChatCompletionMessageParam

    from loadproof.tokenizer import TokenCounter
    from tests.absorber.conftest import Absorber

TALK = 9  # tokens, by the fixture's profile
PROMPTS = ["one two three", "naïve café — 東京 🎉", "tabs\tand\nlines\r\n", " leading and trailing  "]
MESSAGES: list[ChatCompletionMessageParam] = [
    {"role": "system", "content": "You are terse. Ünïcode 東京."},
    {"role": "user", "content": "  Say something.  "},
]


@pytest.fixture(scope="module")
def client(absorber: Absorber) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{absorber.url}/v1", api_key="sk-secret", max_retries=0) as made:
        yield made


@pytest_asyncio.fixture
async def aclient(absorber: Absorber) -> AsyncIterator[openai.AsyncOpenAI]:
    async with openai.AsyncOpenAI(base_url=f"{absorber.url}/v1", api_key="sk-secret", max_retries=0) as made:
        yield made


@pytest.mark.parametrize("prompt", PROMPTS)
def test_completion_gives_the_asked_tokens_and_exact_usage(
    client: openai.OpenAI, absorber: Absorber, counter: TokenCounter, prompt: str
) -> None:
    reply = client.completions.create(model=absorber.model, prompt=prompt, max_tokens=5)
    (choice,) = reply.choices
    assert (choice.text, choice.finish_reason, choice.index) == ("".join(pieces(5)), "length", 0)
    assert reply.object == "text_completion"
    assert reply.model == absorber.model
    assert reply.usage is not None
    assert reply.usage.prompt_tokens == counter.with_bos([prompt])[0]
    assert reply.usage.completion_tokens == 5 == counter.bare([choice.text])[0]
    assert reply.usage.total_tokens == reply.usage.prompt_tokens + 5


@pytest.mark.parametrize("content", PROMPTS)
def test_chat_gives_the_asked_tokens_and_exact_usage(
    client: openai.OpenAI, absorber: Absorber, counter: TokenCounter, content: str
) -> None:
    messages: list[ChatCompletionMessageParam] = [MESSAGES[0], {"role": "user", "content": content}]
    reply = client.chat.completions.create(model=absorber.model, messages=messages, max_completion_tokens=4)
    (choice,) = reply.choices
    assert (choice.message.role, choice.message.content) == ("assistant", "".join(pieces(4)))
    assert (reply.object, choice.finish_reason) == ("chat.completion", "length")
    assert reply.usage is not None
    assert reply.usage.prompt_tokens == counter.chat(messages)
    assert reply.usage.completion_tokens == 4


@pytest.mark.parametrize("usage", [False, True])
def test_completion_stream(client: openai.OpenAI, absorber: Absorber, counter: TokenCounter, *, usage: bool) -> None:
    options = {"stream_options": {"include_usage": True}} if usage else {}
    stream = client.completions.create(
        model=absorber.model, prompt=PROMPTS[0], max_tokens=6, stream=True, extra_body=options
    )
    events = list(stream)
    told = [event for event in events if event.choices]
    assert [event.choices[0].text for event in told] == pieces(6)
    assert [event.choices[0].finish_reason for event in told] == [None] * 5 + ["length"]
    assert {event.id for event in events} == {events[0].id}
    assert {event.object for event in events} == {"text_completion"}
    last = events[len(told) :]
    assert len(last) == usage
    for event in last:
        assert event.usage is not None
        assert event.usage.prompt_tokens == counter.with_bos([PROMPTS[0]])[0]
        assert event.usage.completion_tokens == 6


@pytest.mark.parametrize("usage", [False, True])
def test_chat_stream(client: openai.OpenAI, absorber: Absorber, counter: TokenCounter, *, usage: bool) -> None:
    options = {"stream_options": {"include_usage": True}} if usage else {}
    stream = client.chat.completions.create(
        model=absorber.model, messages=MESSAGES, max_tokens=6, stream=True, extra_body=options
    )
    events = list(stream)
    told = [event for event in events if event.choices]
    assert told[0].choices[0].delta.role == "assistant"
    assert told[0].choices[0].delta.content == ""
    assert [event.choices[0].delta.content for event in told[1:]] == pieces(6)
    assert [event.choices[0].finish_reason for event in told] == [None] * 6 + ["length"]
    assert {event.object for event in events} == {"chat.completion.chunk"}
    last = events[len(told) :]
    assert len(last) == usage
    for event in last:
        assert event.usage is not None
        assert event.usage.prompt_tokens == counter.chat(MESSAGES)
        assert event.usage.total_tokens == event.usage.prompt_tokens + 6


def test_prompt_of_token_ids_is_counted_as_it_is(client: openai.OpenAI, absorber: Absorber) -> None:
    reply = client.completions.create(model=absorber.model, prompt=[2, 100, 200, 300], max_tokens=1)
    assert reply.usage is not None
    assert reply.usage.prompt_tokens == 4


LISTS: list[tuple[list[str] | list[list[int]], int]] = [
    (["one two three", "naïve café — 東京 🎉", "x"], 0),
    ([[2, 100, 200], [300]], 4),
]


@pytest.mark.parametrize(("prompts", "ids"), LISTS)
@pytest.mark.parametrize("n", [1, 3])
@pytest.mark.parametrize("stream", [False, True])
def test_each_prompt_of_a_list_gets_its_choices_and_usage_is_their_sum(
    client: openai.OpenAI, absorber: Absorber, counter: TokenCounter, *, prompts: list[str] | list[list[int]], ids: int,
    n: int, stream: bool,
) -> None:  # fmt: skip
    choices = len(prompts) * n
    expected = ids or sum(counter.with_bos([text for text in prompts if isinstance(text, str)]))
    if stream:
        events = list(client.completions.create(
            model=absorber.model, prompt=prompts, n=n, max_tokens=4, stream=True, stream_options={"include_usage": True}
        ))  # fmt: skip
        told = [event.choices[0] for event in events if event.choices]
        texts = {index: [choice.text for choice in told if choice.index == index] for index in range(choices)}
        ends = sorted(choice.index for choice in told if choice.finish_reason == "length")
        usage = events[-1].usage
        assert len({event.id for event in events}) == 1
    else:
        reply = client.completions.create(model=absorber.model, prompt=prompts, n=n, max_tokens=4)
        texts = {choice.index: pieces(4) if choice.text == "".join(pieces(4)) else [] for choice in reply.choices}
        ends = [choice.index for choice in reply.choices if choice.finish_reason == "length"]
        usage = reply.usage
    assert texts == dict.fromkeys(range(choices), pieces(4))
    assert ends == list(range(choices))
    assert usage is not None
    assert (usage.prompt_tokens, usage.completion_tokens) == (expected, 4 * choices)
    assert usage.total_tokens == expected + 4 * choices


@pytest.mark.parametrize("stream", [False, True])
def test_several_choices_of_a_chat(
    client: openai.OpenAI, absorber: Absorber, counter: TokenCounter, *, stream: bool
) -> None:
    if stream:
        events = list(client.chat.completions.create(
            model=absorber.model, messages=MESSAGES, n=2, max_tokens=3, stream=True,
            stream_options={"include_usage": True},
        ))  # fmt: skip
        told = [event.choices[0] for event in events if event.choices]
        assert sorted(choice.index for choice in told if choice.delta.role == "assistant") == [0, 1]
        texts = ["".join(c.delta.content or "" for c in told if c.index == index) for index in (0, 1)]
        usage = events[-1].usage
    else:
        reply = client.chat.completions.create(model=absorber.model, messages=MESSAGES, n=2, max_tokens=3)
        assert [choice.index for choice in reply.choices] == [0, 1]
        texts = [choice.message.content or "" for choice in reply.choices]
        usage = reply.usage
    assert texts == ["".join(pieces(3))] * 2
    assert usage is not None
    assert (usage.prompt_tokens, usage.completion_tokens) == (counter.chat(MESSAGES), 6)


def test_the_newer_limit_wins_in_chat_and_is_no_field_of_completions(client: openai.OpenAI, absorber: Absorber) -> None:
    chat = client.chat.completions.create(
        model=absorber.model, messages=MESSAGES, max_tokens=2, max_completion_tokens=3
    )
    assert chat.usage is not None
    assert chat.usage.completion_tokens == 3
    completion = client.completions.create(
        model=absorber.model, prompt="x", max_tokens=2, extra_body={"max_completion_tokens": 3}
    )
    assert completion.usage is not None
    assert completion.usage.completion_tokens == 2


@pytest.mark.parametrize(
    ("asked", "ends"),
    [
        ({"max_tokens": 100}, (TALK, "stop")),
        ({"max_tokens": 100, "ignore_eos": True}, (100, "length")),
        ({"max_tokens": 100, "min_tokens": 12}, (12, "stop")),
        ({"max_tokens": TALK}, (TALK, "length")),
        ({}, (TALK, "stop")),
        ({"min_tokens": 20}, (20, "stop")),
    ],
)
def test_who_ends_the_reply(
    client: openai.OpenAI, absorber: Absorber, asked: dict[str, object], ends: tuple[int, str]
) -> None:
    reply = client.completions.create(model=absorber.model, prompt="x", extra_body=asked)
    assert reply.usage is not None
    assert (reply.usage.completion_tokens, reply.choices[0].finish_reason) == ends


def test_equal_requests_get_equal_choices_under_ids_of_their_own(client: openai.OpenAI, absorber: Absorber) -> None:
    first, second = (client.completions.create(model=absorber.model, prompt="x", max_tokens=7) for _ in range(2))
    assert first.choices == second.choices
    assert first.usage == second.usage
    assert first.id != second.id


def test_models(client: openai.OpenAI, absorber: Absorber) -> None:
    assert [model.id for model in client.models.list()] == [absorber.model]


def test_unknown_model_is_not_found(client: openai.OpenAI) -> None:
    with pytest.raises(openai.NotFoundError) as caught:
        client.completions.create(model="no-such", prompt="x")
    assert caught.value.param == "model"
    assert "no-such" in caught.value.message


@pytest.mark.parametrize("stream", [False, True])
def test_what_the_template_refuses_is_a_bad_request_before_anything_is_sent(
    client: openai.OpenAI, absorber: Absorber, *, stream: bool
) -> None:
    twice: list[ChatCompletionMessageParam] = [{"role": "user", "content": "a"}, {"role": "user", "content": "b"}]
    with pytest.raises(openai.BadRequestError) as caught:
        client.chat.completions.create(model=absorber.model, messages=twice, stream=stream)
    assert caught.value.param == "messages"
    assert "alternate" in caught.value.message


@pytest.mark.asyncio
async def test_async_completions_and_chat(
    aclient: openai.AsyncOpenAI, absorber: Absorber, counter: TokenCounter
) -> None:
    whole = await aclient.completions.create(model=absorber.model, prompt="x y", max_tokens=3)
    assert whole.choices[0].text == "".join(pieces(3))
    stream = await aclient.chat.completions.create(
        model=absorber.model, messages=MESSAGES, max_tokens=4, stream=True, stream_options={"include_usage": True}
    )
    events = [event async for event in stream]
    assert "".join(event.choices[0].delta.content or "" for event in events if event.choices) == "".join(pieces(4))
    assert events[-1].usage is not None
    assert events[-1].usage.prompt_tokens == counter.chat(MESSAGES)


@pytest.mark.asyncio
async def test_async_errors(aclient: openai.AsyncOpenAI, absorber: Absorber) -> None:
    with pytest.raises(openai.BadRequestError) as caught:
        await aclient.completions.create(model=absorber.model, prompt="x", max_tokens=-1)
    assert caught.value.param == "max_tokens"
    with pytest.raises(openai.NotFoundError):
        await aclient.completions.create(model="other", prompt="x")
    assert [model.id async for model in aclient.models.list()] == [absorber.model]
