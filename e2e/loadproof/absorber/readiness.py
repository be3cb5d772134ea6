"""What must be so in an absorber's process before its first request comes?

Descriptors for many connections, a tokenizer that agrees with our reply texts, and a memory that is quiet.
"""

from __future__ import annotations

import ctypes
import gc
import os
import resource
from contextlib import suppress

import pyarrow as pa

from loadproof.tokenizer import TokenCounter, tokenizer_dir
from loadproof.words import pieces

VERIFIED_TOKENS = 2048
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3  # glibc's numbers
_KEPT_BYTES = 32 * 1024 * 1024


def allow_descriptors() -> None:
    """Take as many descriptors as the system lets us have: each connection is one."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def quiet_memory() -> None:
    """Collect once and never again: what a request needs has no cycles, and a collection holds the loop for ms.

    Freed memory is kept for the next request: what is given back to the system has to be fetched, and zeroed, again.
    """
    with suppress(OSError, AttributeError):  # another C library than glibc
        keep = ctypes.CDLL(None).mallopt
        keep(_M_MMAP_THRESHOLD, _KEPT_BYTES)
        keep(_M_TRIM_THRESHOLD, _KEPT_BYTES)
    pa.set_memory_pool(pa.system_memory_pool())
    gc.collect()
    gc.freeze()
    gc.disable()


def ready_counter() -> TokenCounter:
    """Load the tokenizer, and check that our reply texts are exactly as many tokens as we will claim."""
    # Threads of the tokenizer's own would be scheduled behind the tool, and our thread would wait for them.
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    counter = TokenCounter(tokenizer_dir())
    for count in (1, 2, 16, 128, VERIFIED_TOKENS):
        if counter.bare(["".join(pieces(count))]) != [count]:
            raise RuntimeError(f"a reply text of {count} tokens counts otherwise: is this the right tokenizer?")
    if set(counter.bare(pieces(VERIFIED_TOKENS))) != {1}:
        raise RuntimeError("a piece of a reply text is not one token: is this the right tokenizer?")
    return counter
