"""`delaymq spark rebuild`: rebuilds the runs of the schedule from the log."""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict
from typing import TYPE_CHECKING

from delaymq.cli.exit_codes import Exit
from delaymq.cli.input.arguments import Verbs, add_verb, count
from delaymq.cli.input.stores import folder_of, settings_of
from delaymq.cli.output.terminal import count_words, message_words, table
from delaymq.cli.spark.session import add_running, new_folder, session
from delaymq.rebuilding import PIECE_SEQUENCES, plan, refuse_open

if TYPE_CHECKING:
    from delaymq.spark.jobs import Rebuild

ROWS = 20

MEANINGS = {
    "same": "the run says what the log says",
    "kept": "the log has it no more, its run has it whole",
    "different": "the run says something else",
    "missing": "its run has no row of it",
    "unreadable": "it cannot be read in its run, the log has it",
    "vanishing": "it is whole nowhere",
}

EXAMPLES = (
    "delaymq spark rebuild --store ./data",
    "delaymq spark rebuild --adopt --store ./data",
    "delaymq spark rebuild --piece 65536 --parquet ./pieces --json --store ./data",
)


def add_rebuild(parts: Verbs) -> None:
    """Adds the verb."""
    verb = add_verb(
        parts,
        "rebuild",
        run_rebuild,
        summary="rebuild the runs of the schedule from the log",
        details="Compares the pending messages at the newest checkpoint with the log, byte for byte, "
        "without the store's lock, and ends with code 1 if something is wrong. With --adopt, the "
        "new runs replace the existing ones, all of it or nothing: the store must be closed, and "
        "nothing is changed if a message would vanish (code 4). Needs `pip install "
        '"delaymq[spark]"` and Java 17.',
        examples=EXAMPLES,
    )
    verb.add_argument("--adopt", action="store_true", help="replace the existing runs")
    verb.add_argument(
        "--piece",
        type=count,
        default=PIECE_SEQUENCES,
        metavar="N",
        help=f"sequences of one task at most, a multiple of 32 (default {PIECE_SEQUENCES}); each takes some 200 bytes "
        "of memory",
    )
    verb.add_argument("--parquet", metavar="DIR", help="write the pieces as Parquet into a new folder")
    verb.add_argument("--rows", type=count, default=ROWS, metavar="N", help=f"examples shown (default {ROWS})")
    add_running(verb, "one JSON object")
    verb.set_defaults(verb="spark rebuild")


def run_rebuild(chosen: argparse.Namespace) -> int:
    """Rebuilds the runs, writes the pieces, and prints."""
    folder = folder_of(chosen, settings_of(chosen))
    parquet = new_folder("--parquet", chosen.parquet)
    from delaymq.spark.jobs import pieces_frame, rebuild  # noqa: PLC0415 - PySpark is asked for here alone

    # If the folder is no store, or is open, the error comes at once, and not after Java has started.
    planned = plan(folder, piece_sequences=chosen.piece)
    if chosen.adopt:
        refuse_open(folder)
    with session(chosen.master) as spark:
        found = rebuild(spark, str(folder.absolute()), planned, adopts=chosen.adopt)
        if parquet is not None:
            pieces_frame(spark, found).write.parquet(parquet)
    if chosen.json:
        print(json.dumps(_said(found), ensure_ascii=False))
    else:
        _print(found, chosen.rows)
    return Exit.DONE if found.is_clean or found.adopted is not None else Exit.FOUND


def _said(found: Rebuild) -> dict[str, object]:
    adopted = None if found.adopted is None else asdict(found.adopted)
    return {
        "store": found.store,
        "checkpoint": found.checkpoint,
        "counts": asdict(found.counts),
        "kept": [asdict(one) for one in found.kept],
        "examples": [asdict(one) for one in found.examples],
        "pieces": [{**asdict(piece), **asdict(told.counts)} for piece, told in found.pieces],
        "adopted": adopted,
    }


def _print(found: Rebuild, rows: int) -> None:
    if found.checkpoint is None:
        print("the store has no checkpoint: there is nothing in runs yet, and an opening applies the whole log")
        return
    counts = asdict(found.counts)
    number = len(found.pieces)
    print(f"{found.counts.pending:,} pending messages as of checkpoint {found.checkpoint}; pieces: {number:,}")
    for one in found.kept:
        last = one.first_sequence + one.sequences - 1
        damage = "" if one.damage is None else f"; it is damaged: {one.damage}"
        print(f"not rebuilt: sequences {one.first_sequence} to {last}: {one.why}{damage}")
    print()
    lines = [(name, counts[name], meaning) for name, meaning in MEANINGS.items()]
    print(table(("messages", "how many", "what that is"), lines, sys.stdout))
    if found.examples:
        shown = [(one.kind, one.sequence, one.words) for one in found.examples[:rows]]
        print()
        print(table(("kind", "sequence", "what"), shown, sys.stdout))
        if found.counts.wrong > len(shown):
            print(f"and {found.counts.wrong - len(shown):,} more")
    if found.adopted is not None:
        print()
        print(f"adopted: {count_words(found.adopted.runs, 'run')} with {message_words(found.adopted.messages)}")
