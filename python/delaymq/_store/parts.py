"""The bases of the classes that each have a part of the methods of a store."""

from __future__ import annotations

from collections.abc import Callable
from typing import ParamSpec, TypeVar

from delaymq import _core

Arguments = ParamSpec("Arguments")
Answer = TypeVar("Answer")


class StorePart:
    """A part of the methods of `Store`."""

    _core: _core.Store


class AsyncStorePart:
    """A part of the methods of `AsyncStore`."""

    _core: _core.Store

    async def _call(
        self, function: Callable[Arguments, Answer], *args: Arguments.args, **kwargs: Arguments.kwargs
    ) -> Answer:
        """Makes a blocking call on a thread of the store."""
        raise NotImplementedError


Part = TypeVar("Part", bound=StorePart)


def part_of(kind: type[Part], core: _core.Store) -> Part:
    """An object with one part of the methods alone, over the core of a store."""
    part = kind()
    part._core = core  # noqa: SLF001 - it has no other state
    return part
