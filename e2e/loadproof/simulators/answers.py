"""What does a server on our port answer to the few questions that we have?

Method: httpx without proxies, a new connection for each question, closed after it: one that were kept open would
be waited for when the simulator ends. Left out: whose server it is; see `readiness`.
"""

from __future__ import annotations

from contextlib import suppress
from types import TracebackType
from typing import Any, Self

import httpx
import msgspec
from prometheus_client.parser import text_string_to_metric_families

LONGEST_ANSWER = 500  # characters of it in a message
LARGEST_BYTES = 16 * 1024 * 1024  # who answers more is a stranger, and may not fill our memory
PATIENCE_S = 5.0
TOKENIZE_PATIENCE_S = 120.0  # the first question makes it load its tokenizer: seconds of CPU, on a busy machine many


class _Model(msgspec.Struct):
    id: str


class _Models(msgspec.Struct):
    data: list[_Model]


class _Tokens(msgspec.Struct):
    count: int


class Answers:
    """Questions to the server at `base_url`; each may raise httpx.HTTPError when there is no whole answer in time."""

    def __init__(self, base_url: str) -> None:
        self._client = httpx.AsyncClient(
            base_url=base_url,
            headers={"Connection": "close"},
            limits=httpx.Limits(max_keepalive_connections=0),
            timeout=PATIENCE_S,
            trust_env=False,
            verify=False,  # noqa: S501 -- plain HTTP; reading the certificates that nobody needs takes 0.1 s
        )

    async def __aenter__(self) -> Self:
        """Open the client; it connects to nothing yet."""
        await self._client.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close all of its connections."""
        await self._client.__aexit__(kind, error, trace)

    async def health(self) -> int:
        """Return the status of /health."""
        return (await self._ask("GET", "/health"))[0]

    async def _ask(self, method: str, path: str, **more: Any) -> tuple[int, bytes]:
        """Return status and body."""
        async with self._client.stream(method, path, **more) as reply:
            body = bytearray()
            async for piece in reply.aiter_bytes():
                body += piece
                if len(body) > LARGEST_BYTES:
                    raise httpx.ReadError(f"more than {LARGEST_BYTES} bytes", request=reply.request)
            return reply.status_code, bytes(body)

    async def names(self) -> list[str]:
        """Return the names that /v1/models lists, none if that is not what it answers."""
        try:
            _, body = await self._ask("GET", "/v1/models")
            return [model.id for model in msgspec.json.decode(body, type=_Models).data]
        except msgspec.MsgspecError:
            return []

    async def count(self, model: str, text: str) -> int | str:
        """Return the number of tokens that /tokenize counts, or its answer as a text if that is no number."""
        asked = {"model": model, "prompt": text}
        status, body = await self._ask("POST", "/tokenize", json=asked, timeout=TOKENIZE_PATIENCE_S)
        if status == httpx.codes.OK:
            with suppress(msgspec.MsgspecError):
                return msgspec.json.decode(body, type=_Tokens).count
        return f"HTTP {status}: {body.decode(errors='replace').strip()[:LONGEST_ANSWER]}"

    async def metrics(self) -> dict[str, float]:
        """Return each sample's name in /metrics and the sum over its labels, buckets of histograms left out."""
        status, body = await self._ask("GET", "/metrics")
        if status != httpx.codes.OK:
            raise ValueError(f"HTTP {status}")
        return summed(body.decode(errors="replace"))


def summed(exposition: str) -> dict[str, float]:
    """Return each sample's name and the sum over its labels, buckets left out, of a Prometheus text exposition."""
    sums: dict[str, float] = {}
    for family in text_string_to_metric_families(exposition):
        for sample in family.samples:
            if not sample.name.endswith("_bucket"):
                sums[sample.name] = sums.get(sample.name, 0.0) + sample.value
    return sums
