"""A request of a client: what came of it, and what a lost connection means for it."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

from delaymq import _core

__all__ = ["OnAnswer", "PendingRequest"]

OnAnswer: TypeAlias = Callable[[Any, BaseException | None], None]
"""Is told the value of the answer, or what went wrong."""


@dataclass(slots=True, eq=False)
class PendingRequest:
    """One request.

    Attributes:
        request: What is sent.
        heard: Is told what came of it, once.
        reads: It changes nothing.
        again: Where the connection is lost before the answer came it is asked again.
        number: The subscription that it is of, which ends with its connection; 0 for none.
        one_way: No answer is wanted, and none is waited for.
        call: What its answer names, on the connection that it was sent on last; None before it was sent.
        again_for_s: For so long after it was sent first.
        sent_at: When that was, in seconds of the monotonic clock.
        in_doubt: It may have been done on a connection that was lost before the answer came, and is asked again.
    """

    request: _core.Request
    heard: OnAnswer
    reads: bool = False
    again: bool = False
    number: int = 0
    one_way: bool = False
    call: int | None = None
    again_for_s: float = math.inf
    sent_at: float = 0.0
    in_doubt: bool = False

    def is_too_late(self, now: float) -> bool:
        """Whether it may have been done, and asking again could do it twice."""
        return self.in_doubt and now - self.sent_at > self.again_for_s
