"""What runs in a task: the batches of one part."""

from __future__ import annotations

import functools
import gc
from typing import TYPE_CHECKING

import pyarrow

from delaymq.tables import read_range

if TYPE_CHECKING:
    from collections.abc import Iterator

    from delaymq.spark.plan import Part

__all__ = ["batches_of"]


def batches_of(part: Part) -> Iterator[pyarrow.RecordBatch]:
    """Reads one part, a batch at a time.

    Raises:
        Corrupt: Something is damaged; it names the file and the offset.
        MissingFile: A file has been retired since the plan was made, or the executor does not see the store.
    """
    _warm()
    stream = read_range(part.path, part.range, columns=part.columns, on_damage=part.on_damage)
    yield from pyarrow.RecordBatchReader.from_stream(stream)


@functools.cache
def _warm() -> None:
    """A worker collects its garbage after every task: what was imported by now is none, and is not looked at again."""
    gc.collect()
    gc.freeze()
