"""What runs a job: Spark, or Sail, which is another engine with the same face."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import tzinfo
from typing import Any


@dataclass(frozen=True)
class Engine:
    """A session, and the zone that the times are in which it gives: None is that of this process."""

    session: Any
    zone: tzinfo | None = None
