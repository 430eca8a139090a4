"""A request of a client that waits for its answer, and what a lost connection means for it."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

from delaymq import _core

__all__ = ["OnAnswer", "PendingRequest"]

OnAnswer: TypeAlias = Callable[[Any, BaseException | None], None]
"""Called with the value of the answer, or with the error."""


@dataclass(slots=True, eq=False)
class PendingRequest:
    """One request.

    Attributes:
        request: The encoded request.
        on_answer: Called once, with the answer or the error.
        reads: The request changes nothing.
        retry: If the connection is lost before the answer came, the request is sent again on the next one.
        number: The subscription that the request belongs to, which ends with its connection; 0 for none.
        one_way: The request has no answer, except an error.
        call: The id of the call on the connection on which it was last sent; None before it was sent.
        retry_for_s: How long after it was first sent it may be repeated.
        sent_at: When it was first sent, in seconds of the monotonic clock.
        in_doubt: It may have been executed on a connection that was lost, and is to be repeated.
    """

    request: _core.Request
    on_answer: OnAnswer
    reads: bool = False
    retry: bool = False
    number: int = 0
    one_way: bool = False
    call: int | None = None
    retry_for_s: float = math.inf
    sent_at: float = 0.0
    in_doubt: bool = False

    def is_too_late(self, now: float) -> bool:
        """True if the request may have been executed, and repeating it could execute it twice."""
        return self.in_doubt and now - self.sent_at > self.retry_for_s
