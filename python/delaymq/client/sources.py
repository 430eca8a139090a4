"""The open subscriptions of a client, also those that the user has dropped: they are closed with the client."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Generic, Protocol, TypeVar


class Source(Protocol):
    """A subscription of the core."""

    @property
    def is_open(self) -> bool:
        """True until it is closed."""


SourceType = TypeVar("SourceType", bound=Source)


class OpenSources(Generic[SourceType]):
    """Sources, by the order in which they were added. Threads may add at once."""

    def __init__(self) -> None:
        self._sources: dict[int, SourceType] = {}
        self._looks_at = 64  # at so many, those that are closed are removed

    def add(self, source: SourceType) -> None:
        """Adds a source."""
        self._sources[id(source)] = source
        if len(self._sources) >= self._looks_at:
            for key, other in list(self._sources.items()):
                if not other.is_open:
                    self._sources.pop(key, None)
            self._looks_at = 2 * len(self._sources) + 64

    def __iter__(self) -> Iterator[SourceType]:
        return iter(list(self._sources.values()))
