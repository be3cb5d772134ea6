"""Which prompt does a model see for a chat, and which part of it did the sender write?

Method: the model's own template (a Jinja text in tokenizer_config.json), rendered in a sandbox with the settings
and the names that `transformers` gives it, and so vLLM. Left out: tools, documents and images, and templates that
want more names than `messages`, `bos_token`, `add_generation_prompt` and `raise_exception`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

from jinja2 import TemplateError
from jinja2.sandbox import ImmutableSandboxedEnvironment

type Message = Mapping[str, object]


class _PlainTracebacks(ImmutableSandboxedEnvironment):
    """Jinja rewrites the traceback of what a template raises, which is slow and leaves its frames in a cycle.

    A server would keep a refused request's connection for ever through it.
    """

    def handle_exception(self, source: str | None = None) -> NoReturn:  # noqa: ARG002 -- jinja2's own signature
        """Let the exception that is being handled pass as it is."""
        raise  # noqa: PLE0704 -- jinja2 calls this in its `except` blocks


class ChatTemplate:
    """The template in the file `config`, a tokenizer_config.json.

    Raises OSError, ValueError, KeyError or TypeError for a file that is not there or holds no usable template.
    """

    def __init__(self, config: Path) -> None:
        settings = json.loads(config.read_bytes())
        # White space in a prompt is tokens: these two settings decide about it.
        environment = _PlainTracebacks(trim_blocks=True, lstrip_blocks=True)
        environment.globals["raise_exception"] = _refuse
        try:
            self._template = environment.from_string(settings["chat_template"])
        except TemplateError as problem:
            raise ValueError(f"chat_template: {' '.join(str(problem).split())}") from problem
        self._bos_token = str(settings["bos_token"])

    def prompt(self, messages: Sequence[Message]) -> str:
        """Return the rendered prompt, BOS and the head of the reply included.

        Raises:
            ValueError: there is no message, or the template refuses them, in its own words.
        """
        if not messages:
            raise ValueError("a chat needs at least one message")
        try:
            return self._template.render(messages=messages, bos_token=self._bos_token, add_generation_prompt=True)
        # A template adds contents and roles to strings: a number there is the sender's mistake, not ours.
        except (TemplateError, TypeError) as problem:
            raise ValueError(str(problem)) from problem


def written(message: Message) -> str:
    """Return the text in `message` as Gemma's template passes it on: trimmed, but not a system message.

    Raises:
        ValueError: the content is neither a text nor a list of parts.
    """
    content = message.get("content", "")
    system = message.get("role") == "system"
    if isinstance(content, str):
        texts = [content]
    elif isinstance(content, list | tuple):
        texts = list(_texts(content))[: 1 if system else None]
    else:
        raise ValueError("Invalid content type")  # noqa: TRY004 - as the template refuses it
    return "".join(texts if system else [text.strip() for text in texts])


def _texts(parts: Iterable[Any]) -> Iterable[str]:
    return (str(part["text"]) for part in parts if isinstance(part, Mapping) and part.get("type") == "text")


def _refuse(message: str) -> NoReturn:
    """Be the `raise_exception` that chat templates call."""
    raise TemplateError(message)
