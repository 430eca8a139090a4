"""Tables of a store, read as Arrow record batches, without the store's lock and while a server writes to it.

Enter: a folder, and the name of a table, its columns and a range of sequences. Leave: record batches, by the
interface that pyarrow, Polars, DuckDB and pandas share (`__arrow_c_stream__`), so this package needs none of them::

    with delaymq.snapshot("./data") as snapshot:
        frame = polars.DataFrame(snapshot.to_arrow_batches("message", columns=("sequence", "subject", "due")))

Read `store_snapshot` first (a store as of one moment, and its tables), then `rows` (what a table is read from and what
comes back), then `arguments` (the checks of what a caller passes).
"""

from delaymq.tables.rows import ArrowBatch, Damage, OnDamage, Range, Rows, Verified
from delaymq.tables.store_snapshot import (
    SPLIT_BYTES,
    TABLES,
    UNFINISHED,
    VERSION,
    Snapshot,
    columns_of,
    read_range,
    snapshot,
)

__all__ = [
    "SPLIT_BYTES",
    "TABLES",
    "UNFINISHED",
    "VERSION",
    "ArrowBatch",
    "Damage",
    "OnDamage",
    "Range",
    "Rows",
    "Snapshot",
    "Verified",
    "columns_of",
    "read_range",
    "snapshot",
]
