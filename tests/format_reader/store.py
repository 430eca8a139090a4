"""A whole store: every file that its newest checkpoint and its log name, read and put in order."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from format_reader.batches import Batch
from format_reader.checkpoints import read_checkpoint
from format_reader.identity import read_identity
from format_reader.layout import demand
from format_reader.records import Record
from format_reader.runs import STAGED, Run, read_run
from format_reader.segments import Hole, Segment, follows, read_segment


@dataclass(frozen=True)
class Store:
    """What a folder holds."""

    identity: dict[str, Any]
    segments: dict[int, Segment]
    checkpoints: dict[int, dict[str, Any]]
    facts: list[tuple[int, Record]] = field(repr=False)
    """Location and record, in the order of the log."""

    def of_kind(self, kind: str) -> list[Record]:
        return [record for _, record in self.facts if record.kind == kind]


def numbered(folder: Path, suffix: str) -> dict[int, Path]:
    """The files `0000000001.suffix` of a folder, by number."""
    named = (path for path in folder.glob(f"*.{suffix}") if len(path.stem) == 10 and path.stem.isdigit())
    return {int(path.stem): path for path in sorted(named)}


def read_store(folder: Path) -> Store:
    """Reads a store that nobody has open; a break anywhere is raised."""
    identity = read_identity((folder / "identity").read_bytes())
    checkpoints = {
        number: read_checkpoint(path.read_bytes())
        for number, path in numbered(folder / "checkpoints", "checkpoint").items()
    }
    newest = checkpoints[max(checkpoints)]["body"] if checkpoints else {}
    holes = [Hole(row["from"], row["to"]) for row in newest.get("holes", ())]
    segments = {
        number: read_segment(path.read_bytes(), [hole for hole in holes if hole.begin["end"] >> 32 == number])
        for number, path in numbered(folder / "log", "segment").items()
    }
    for number, header in [(number, segment.header) for number, segment in segments.items()] + list(
        checkpoints.items()
    ):
        demand(header["number"] == number, 12, number, header["number"])
        demand(header["stream"] == identity["stream"], 16, identity["stream"], header["stream"])
    return Store(identity, segments, checkpoints, _facts(segments))


def read_runs(folder: Path) -> dict[int, Run]:
    """The runs that the checkpoints of a store name that nobody has open.

    What the older checkpoint that names a run calls a hole may be gone. What the newer one alone calls so is there yet.
    """
    holes: dict[int, list[tuple[int, int]]] = {}
    for path in numbered(folder / "checkpoints", "checkpoint").values():
        body = read_checkpoint(path.read_bytes())["body"]
        named: dict[int, list[tuple[int, int]]]
        named = {run["number"]: [] for run in (*body["schedule_runs"], *body["dispatch_runs"])}
        for hole in body.get("run_holes", ()):
            named[hole["run"]].append((hole["begin"], hole["end"]))
        holes = named | holes
    runs, loads = numbered(folder / "runs", "run"), _loads(folder)
    return {
        number: _adopted(folder, loads[number], holes[number])
        if number in loads
        else read_run(runs[number].read_bytes(), holes[number])
        for number in sorted(holes)
    }


def _loads(folder: Path) -> dict[int, dict[str, Any]]:
    """What the checkpoints say of the runs that were loaded, by their numbers."""
    paths = numbered(folder / "checkpoints", "checkpoint").values()
    bodies = [read_checkpoint(path.read_bytes())["body"] for path in paths]
    return {load["run"]: load for body in bodies for load in body.get("loads", ())}


def _adopted(folder: Path, load: dict[str, Any], holes: list[tuple[int, int]]) -> Run:
    """A run as it was staged, with the sequences that it has in the store."""
    name = f"{load['staged_ms']:013}-{load['nonce'].hex()}.run"
    run = read_run((folder / "loads" / name).read_bytes(), holes)
    demand(run.header["kind"] == STAGED, 12, "a staged run", run.header)
    demand(len(run.rows) == load["rows"], 40, load["rows"], len(run.rows))
    base = load["base"]
    rows = [
        row | {"sequence": base + row["sequence"], "payload_sequence": base + row["payload_sequence"]}
        for row in run.rows
    ]
    payloads = {
        base + place: replace(record, sequence=base + record.sequence) for place, record in run.payloads.items()
    }
    return replace(run, rows=rows, payloads=payloads)


def _facts(segments: dict[int, Segment]) -> list[tuple[int, Record]]:
    facts: list[tuple[int, Record]] = []
    before: Batch | Hole | None = None
    last_facts: Batch | Hole | None = None
    for number, segment in segments.items():
        if segment.break_ is not None:
            raise segment.break_
        if segment.steps and before is not None:
            demand(before.is_seal, before.offset, "a seal at the end of a segment", before.header)
            follows(before, last_facts, segment.steps[0])
        for batch in segment.batches:
            facts.extend((number << 32 | offset, record) for offset, record in batch.records)
        before = segment.steps[-1] if segment.steps else before
        last_facts = segment.last_facts or last_facts
    return facts
