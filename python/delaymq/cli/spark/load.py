"""`delaymq spark load`: loads files of messages into stores."""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from delaymq.bulk_load import check_job
from delaymq.cli.exit_codes import Exit
from delaymq.cli.failures import UsageError
from delaymq.cli.input.arguments import Verbs, add_verb, delay, moment
from delaymq.cli.input.settings import Settings
from delaymq.cli.input.stores import PROOF_HELP, add_settings, settings_of
from delaymq.cli.output.terminal import count_words, message_words, table
from delaymq.cli.spark.session import add_master, new_folder, session

if TYPE_CHECKING:
    from delaymq.spark.destination import Destination
    from delaymq.spark.jobs import BulkLoad, Format

SUFFIXES: dict[str, Format] = {
    ".parquet": "parquet",
    ".csv": "csv",
    ".json": "json",
    ".jsonl": "json",
    ".ndjson": "json",
}
"""The formats of files by their suffixes."""

PACKED = (".gz", ".bz2", ".zst", ".lz4", ".snappy")

EXAMPLES = (
    "delaymq spark load due.parquet --job orders-2030-01-01 --store ./data",
    "delaymq spark load due.csv --job orders --bad-rows ./bad --store ./data --server delaymq://127.0.0.1:20801",
    "delaymq spark load ./due --format parquet --job orders --by message_id --store ./a --store ./b --json",
)


def add_load(parts: Verbs) -> None:
    """Adds the verb."""
    verb = add_verb(
        parts,
        "load",
        run_load,
        summary="store messages of files, all or none",
        details="The tasks stage rows next to the stores, and each store adopts its part by one fact, once "
        "for each job. After a failure or a kill, run the same command again to go on. Ends with "
        'code 7 if invalid rows were written to --bad-rows. Needs `pip install "delaymq[spark]"` '
        "and Java 17.",
        examples=EXAMPLES,
    )
    verb.add_argument("files", nargs="+", metavar="FILE", help="files or folders, of one format")
    verb.add_argument(
        "--job", required=True, metavar="NAME", help="name of the job, which makes two loads the same one"
    )
    verb.add_argument(
        "--format",
        choices=sorted(set(SUFFIXES.values())),
        help="format of the files (default: by their names); json has an object on each line",
    )
    verb.add_argument(
        "--store",
        action="append",
        dest="stores",
        default=[],
        metavar="DIR",
        help="the store's folder; may be repeated, and each row then goes to one of the stores",
    )
    verb.add_argument(
        "--server",
        action="append",
        dest="servers",
        default=[],
        metavar="URL",
        help="the server that has the store open, delaymq://host:port; with several stores one for each, in order",
    )
    verb.add_argument("--token-file", type=Path, metavar="FILE", help=PROOF_HELP)
    verb.add_argument(
        "--by",
        action="append",
        metavar="COLUMN",
        help="rows with the same value in this column go to the same store; may be repeated (default: by"
        " the whole message)",
    )
    verb.add_argument("--bad-rows", metavar="DIR", help="write invalid rows there as Parquet, and go on without them")
    verb.add_argument("--ignore-others", action="store_true", help="ignore columns that messages do not have")
    verb.add_argument("--due-before", type=moment, metavar="TIME", help="no message may be due later than this")
    verb.add_argument(
        "--timeout", type=delay, metavar="DURATION", help="how long to wait for the server's answer (default 10m)"
    )
    verb.add_argument("--parquet", metavar="DIR", help="write the result of each store as Parquet into a new folder")
    add_master(verb)
    verb.add_argument("--json", action="store_true", help="one JSON object")
    add_settings(verb)
    verb.set_defaults(verb="spark load")


def run_load(chosen: argparse.Namespace) -> int:
    """Loads, and prints the result."""
    form = _format(chosen.files, chosen.format)
    check_job(chosen.job)
    stores, servers = _places(chosen, settings := settings_of(chosen))
    parquet = new_folder("--parquet", chosen.parquet)
    from delaymq.spark.jobs import load, rows_of, stores_frame  # noqa: PLC0415 - PySpark is asked for here alone

    into = _destinations(chosen, settings, stores, servers)
    for one in into:
        one.check()  # a missing store is reported at once, before Java starts
    with session(chosen.master) as spark:
        rows = rows_of(spark, [str(Path(file).absolute()) for file in chosen.files], form)
        done = load(
            rows,
            into,
            job=chosen.job,
            by=chosen.by,
            bad_rows=None if chosen.bad_rows is None else str(Path(chosen.bad_rows).absolute()),
            ignore_others=chosen.ignore_others,
            due_before=chosen.due_before,
        )
        if parquet is not None:
            stores_frame(spark, done).write.parquet(parquet)
    if chosen.json:
        print(json.dumps(asdict(done), ensure_ascii=False))
    else:
        _print(done, chosen.bad_rows)
    return Exit.PART if done.bad_rows else Exit.DONE


def _format(files: list[str], chosen: Format | None) -> Format:
    """Returns the format of the files.

    Raises:
        UsageError: Their names do not say it, or say different formats.
    """
    if chosen is not None:
        return chosen
    found = set()
    for file in files:
        path = Path(file)
        suffix = Path(path.stem).suffix if path.suffix in PACKED else path.suffix
        if suffix not in SUFFIXES:
            raise UsageError(f"{file}: its name does not say what it is; say --format")
        found.add(SUFFIXES[suffix])
    if len(found) > 1:
        raise UsageError(f"files of several formats: {', '.join(sorted(found))}; load one after the other")
    return found.pop()


def _places(chosen: argparse.Namespace, settings: Settings) -> tuple[list[str], list[str]]:
    """Returns the stores' folders, and their servers.

    Raises:
        UsageError: There is no store, one is named twice, or the servers do not match the stores.
    """
    stores = [str(Path(one).absolute()) for one in chosen.stores]
    if not stores:
        if "store.path" not in settings:
            words = "the rows are staged in it, also where a server has it open"
            raise UsageError(f"no store: give --store DIR, or configure store.path: {words}")
        stores = [str(Path(settings["store.path"]).absolute())]
    if len(set(stores)) < len(stores):
        raise UsageError("--store: one folder is given twice")
    if chosen.servers and len(chosen.servers) != len(stores):
        raise UsageError(f"--server: {len(chosen.servers)} for {len(stores)} stores; give one for each, in order")
    if not chosen.servers and (chosen.token_file is not None or chosen.timeout is not None):
        option = "--token-file" if chosen.token_file is not None else "--timeout"
        raise UsageError(f"{option}: a store in a folder is opened here; it goes with --server URL")
    if chosen.by is not None and len(stores) == 1:
        raise UsageError("--by: there is one store; it goes with several")
    return stores, chosen.servers


def _destinations(
    chosen: argparse.Namespace, settings: Settings, stores: list[str], servers: list[str]
) -> list[Destination]:
    from delaymq.spark.destination import TIMEOUT_S, Destination  # noqa: PLC0415 - as above

    if not servers:
        return [Destination(path=store) for store in stores]
    token_file = chosen.token_file or settings.get("client.token_file")
    token = None if token_file is None else str(Path(token_file).absolute())
    timeout: timedelta | None = chosen.timeout
    timeout_s = TIMEOUT_S if timeout is None else timeout.total_seconds()
    return [
        Destination(path=store, address=server, token_file=token, timeout_s=timeout_s)
        for store, server in zip(stores, servers, strict=True)
    ]


def _print(done: BulkLoad, bad_rows: str | None) -> None:
    messages = sum(one.messages for one in done.stores)
    print(f"{message_words(messages)} of {count_words(done.rows, 'row')}, job {done.job}")
    if done.bad_rows:
        bad = "1 row is no message" if done.bad_rows == 1 else f"{done.bad_rows:,} rows are no messages"
        print(f"{bad}: {bad_rows}")
    print()
    heads = ("store", "messages", "first sequence", "when")
    rows = [
        (
            one.path,
            f"{one.messages:,}",
            "" if one.first_sequence is None else one.first_sequence,
            "" if one.first_sequence is None else "before" if one.again else "now",
        )
        for one in done.stores
    ]
    print(table(heads, rows, sys.stdout))
