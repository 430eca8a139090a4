from __future__ import annotations

from collections.abc import Iterator

import pytest

from differential.readers import Core


@pytest.fixture(scope="module")
def core() -> Iterator[Core]:
    reader = Core()
    yield reader
    reader.close()
