"""The fixtures of `delaymq.testing`, as a pytest plug-in.

pytest imports this module at start, in every project that has delaymq installed. So it is a package of
its own, and imports delaymq only when a test uses a fixture.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    import delaymq
    import delaymq.testing

__all__ = ["delaymq_clock", "delaymq_server", "delaymq_store"]


@pytest.fixture
def delaymq_clock() -> delaymq.testing.Clock:
    """A clock that stands still until the test advances it."""
    from delaymq.testing import Clock  # noqa: PLC0415 - see the module

    return Clock()


@pytest.fixture
def delaymq_store(tmp_path: Path, delaymq_clock: delaymq.testing.Clock) -> Iterator[delaymq.Store]:
    """A store for the test, on `delaymq_clock`. It is closed at the end, also after `crash`."""
    from delaymq.testing import last_life, open_store  # noqa: PLC0415 - see the module

    store = open_store(tmp_path / "delaymq", delaymq_clock)
    try:
        yield store
    finally:
        last_life(store).close()


@pytest.fixture
def delaymq_server(delaymq_store: delaymq.Store) -> Iterator[delaymq.testing.Server]:
    """A server over `delaymq_store`, on a free port; connect with `delaymq.connect(delaymq_server.url)`."""
    from delaymq.testing import serve  # noqa: PLC0415 - see the module

    with serve(delaymq_store) as server:
        yield server
