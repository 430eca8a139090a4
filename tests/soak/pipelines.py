"""The whole way of a bulk load: Spark loads messages that are due within seconds into a live server, clients consume
them, the audit is clean, and the archive holds each once. `make pipeline` runs it with a million.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import delaymq
from delaymq.spark import TableOptions, local_session, register
from delaymq.spark.jobs import archive, archived, audit
from serving import Served

ROWS_IN_CI = 20_000
CONSUMERS = 2
PATIENCE_S = 120


@dataclass
class Consumed:
    """What the clients got, and whether any of it was early."""

    bodies: Counter[bytes] = field(default_factory=Counter)
    early: int = 0
    failures: list[BaseException] = field(default_factory=list)

    def consume(self, url: str, stop: threading.Event) -> None:
        """A client of its own, until it is told to stop."""
        try:
            with (
                delaymq.connect(url) as client,
                client.subscribe("orders", group="g", in_flight_max=4_096) as messages,
            ):
                while not stop.is_set():
                    message = messages.get(0.2)
                    if message is None:
                        continue
                    batch = [message]
                    while len(batch) < 1_000 and (more := messages.get(0)) is not None:
                        batch.append(more)
                    self.early += sum(one.lateness.total_seconds() < 0 for one in batch)
                    self.bodies.update(one.body for one in batch)
                    messages.ack(batch)
        except BaseException as failure:
            self.failures.append(failure)
            raise


@dataclass(frozen=True)
class Found:
    """What came of it: all of these are as many as the rows, and nothing was early or wrong."""

    bodies: int
    deliveries: int
    early: int
    audited: int
    wrong: dict[str, int]
    archived: int
    acknowledged: int
    loaded_s: float
    consumed_s: float

    def is_right(self, rows: int) -> bool:
        """Whether each message is there once on the whole way."""
        counts = {self.bodies, self.deliveries, self.audited, self.archived, self.acknowledged}
        return counts == {rows} and self.early == 0 and not any(self.wrong.values())


def run(spark: Any, folder: Path, *, rows: int, due_within_s: int, patience_s: float = PATIENCE_S) -> Found:
    """Loads, consumes, audits and archives in a new folder."""
    consumed, stop = Consumed(), threading.Event()
    with Served(folder / "store") as served:
        threads = [threading.Thread(target=consumed.consume, args=(served.url, stop)) for _ in range(CONSUMERS)]
        for thread in threads:
            thread.start()
        try:
            begun = time.monotonic()
            _load(spark, served, rows, due_within_s)
            loaded_s = time.monotonic() - begun
            while consumed.bodies.total() < rows and not consumed.failures:
                assert time.monotonic() < begun + due_within_s + patience_s, f"{consumed.bodies.total()} of {rows} came"
                time.sleep(0.05)
            consumed_s = time.monotonic() - begun
        finally:
            stop.set()
            for thread in threads:
                thread.join()
    assert consumed.failures == []
    audited = audit(spark, TableOptions(path=str(served.folder)))
    archive(spark, TableOptions(path=str(served.folder)), folder / "archive")
    ended = archived(spark, folder / "archive")
    [row] = ended.selectExpr("count(distinct sequence)", "count_if(outcome = 'acknowledged')").collect()
    return Found(
        bodies=len(consumed.bodies),
        deliveries=consumed.bodies.total(),
        early=consumed.early,
        audited=audited.messages,
        wrong=dict(audited.found),
        archived=row[0],
        acknowledged=row[1],
        loaded_s=loaded_s,
        consumed_s=consumed_s,
    )


def _load(spark: Any, served: Served, rows: int, due_within_s: int) -> None:
    now = f"timestamp'{datetime.now(UTC):%Y-%m-%d %H:%M:%S}+00:00'"
    due = f"{now} + make_dt_interval(0, 0, 0, CAST(id % {due_within_s * 1_000} AS decimal(18, 6)) / 1000) AS due"
    frame = spark.range(0, rows, 1, 4).selectExpr("'orders' AS subject", due, "CAST(id AS string) AS body")
    options = {"jobId": "pipeline", "address": served.url}
    frame.write.format("delaymq").mode("append").options(**options).save(str(served.folder))


def main() -> int:
    """Prints what came of it; 1 where it is not right."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--due-within", type=int, default=20, metavar="SECONDS")
    parser.add_argument("--patience", type=float, default=600, metavar="SECONDS")
    chosen = parser.parse_args()
    spark = local_session("local[2]", spark__driver__memory="2g")
    register(spark)
    with tempfile.TemporaryDirectory() as folder:
        found = run(spark, Path(folder), rows=chosen.rows, due_within_s=chosen.due_within, patience_s=chosen.patience)
    spark.stop()
    is_right = found.is_right(chosen.rows)
    print(f"pipeline: {chosen.rows:,} messages, {'each once' if is_right else 'NOT RIGHT'}: {found}")
    return 0 if is_right else 1


if __name__ == "__main__":
    sys.exit(main())
