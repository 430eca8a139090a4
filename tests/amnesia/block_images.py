"""Every moment of a disk, replayed: `python -m amnesia.block_images --images N`.

An ext4 lies on a loop device over one file of our own file system (`rust/amnesia`), which records each write and each
flush that the kernel sends to that disk while a store starts for the first time, rolls, checkpoints and retires. From
the record the disk is made as a power cut would have left it: all that was flushed, and of the rest nothing, all, or a
choice of sectors. Each image is mounted and drained, and the checker is told what had been answered by then.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from amnesia.filesystem import FUSE, FileSystem, keep, not_run, say, work_folder
from amnesia.io_errors import HISTORY
from amnesia.stages import NOTHING, STAGES, Picture, Span, picture, spans
from amnesia.torturing import IN_FLIGHT_SUM, Ledger, judge
from amnesia.totals import SHOWN, told_of

LOOP_CONTROL = Path("/dev/loop-control")
IMAGE_BYTES = 24 << 20
FLUSH = (1 << 64) - 1
SECTOR = 4096
"""What such a disk tears: an ext4 does not bear a torn superblock of its own."""
STEPS = (14, 10)
ENDS_WITHIN_S = 60
PLANTED = {"AckBeforeSync": {"--planted": "AckBeforeSync"}}
"""Syncs of folders that are left out are not seen here: an ext4 makes the name of a new file durable with its bytes."""
PLANTED_IMAGES_MAX = 60
RESULTS = frozenset({"published", "cancelled", "moved", "acknowledged"})
"""What may not have happened yet at a moment between two looks, and is not told then."""
UNJUDGED = frozenset({"unmarked", "torn"})
"""What was told between two looks may be later than the image, and is then delivered for the first time."""
Event = tuple[int, bytes]


@dataclass(frozen=True)
class Look:
    """What a life had told before and after so many events were counted."""

    before: int
    events: int
    after: int
    shown: Picture = NOTHING
    """What the store's folder showed."""


@dataclass
class Recorded:
    """A history of a disk and what its users were told meanwhile."""

    base: bytes
    events: list[Event]
    lives: list[tuple[list[dict[str, Any]], list[int], list[Look]]]
    """Of each life its lines, where each ends, and the looks at it."""

    @property
    def flushes(self) -> list[int]:
        return [at for at, (offset, _) in enumerate(self.events) if offset == FLUSH]

    @property
    def stages(self) -> dict[str, list[Span]]:
        """Where the stages of the store lie among the events."""
        shown = [(look.events, look.shown) for _, _, looks in self.lives for look in looks]
        return spans(shown, self.flushes)


@contextmanager
def mounted(image: Path, place: Path) -> Iterator[Path]:
    """An image, mounted; always unmounted and detached."""
    place.mkdir(exist_ok=True)
    subprocess.run(["mount", "-t", "ext4", "-o", "loop,nodiscard", str(image), str(place)], check=True)
    try:
        yield place
    finally:
        # A process that was killed lets go of its files a moment later.
        if subprocess.run(["umount", str(place)], stderr=subprocess.DEVNULL, check=False).returncode != 0:
            time.sleep(0.2)
            subprocess.run(["umount", "-l", str(place)], check=True)


def read_events(path: Path) -> list[Event]:
    """The record as `delaymq-amnesia` saves it."""
    data, at, events = path.read_bytes(), 0, []
    while at < len(data):
        offset, count = (int.from_bytes(data[at + part : at + part + 8], "little") for part in (0, 8))
        events.append((offset, data[at + 16 : at + 16 + count]))
        at += 16 + count
    return events


def watch(disk: FileSystem, told: Path, store: Path, process: subprocess.Popen[bytes]) -> list[Look]:
    """Looks at both until the process ends, and once then: on a busy machine, it tells much after the look before."""

    def look() -> Look:
        before = told.stat().st_size
        shown = picture(store)
        return Look(before, disk.tell("mark")["events"], told.stat().st_size, shown)

    looks, began = [], time.monotonic()
    while process.poll() is None and time.monotonic() - began < ENDS_WITHIN_S:
        looks.append(look())
        time.sleep(0.0005)
    return [*looks, look()]


def record(program: Path, daemon: Path, folder: Path, seed: int, extra: dict[str, Any]) -> Recorded:
    """Runs the history once."""
    ledger = Ledger(folder / "recorded.jsonl", "block_images", seed, {})
    with FileSystem(daemon, folder / "recorder") as disk:
        image = disk.place / "image"
        with image.open("wb") as file:
            file.truncate(IMAGE_BYTES)
        options = "lazy_itable_init=0,lazy_journal_init=0,nodiscard"
        command = ["mkfs.ext4", "-q", "-F", "-b", "4096", "-J", "size=4", "-E", options, str(image)]
        subprocess.run(command, check=True)
        base, lives = image.read_bytes(), []
        disk.tell("record image")
        with mounted(image, folder / "recorded") as place:
            for steps in STEPS:
                options_of_life = {**HISTORY, **extra, "--steps": steps}
                life = ledger.begin(program, "work", place / "store", options_of_life)
                looks = watch(disk, life.told, place / "store", life.process)
                code = life.exit_code(0)
                if code != 0:
                    life.kill()
                    raise RuntimeError(f"the recorded history ended with {code}: {life.told.read_text()[-300:]}")
                rows = life.told.read_bytes().splitlines(keepends=True)
                ends = [0]
                for row in rows:
                    ends.append(ends[-1] + len(row))
                lives.append(([json.loads(row) for row in rows], ends[1:], looks))
        disk.tell(f"save {folder / 'events'}")
    return Recorded(base, read_events(folder / "events"), lives)


def ledger_so_far(recorded: Recorded, event: int) -> list[dict[str, Any]]:
    """What is certain at an event; and, without its results, what may be."""
    told: list[dict[str, Any]] = []
    for lines, ends, looks in recorded.lives:
        certain = max((look.before for look in looks if look.events <= event), default=0)
        possible = min((look.after for look in looks if look.events > event), default=ends[-1])
        # A life that ended before a later event was looked at has told all of it.
        is_over = not any(look.events > event for look in looks) and lines is not recorded.lives[-1][0]
        for line, end in zip(lines, ends, strict=True):
            if line["kind"] == "ended" or (end > possible and not is_over):
                continue
            if end <= certain or is_over or line["kind"] not in RESULTS:
                told.append(line)
        if told and (end_of := told[-1]["at_ms"]):
            told.append({"kind": "stop", "at_ms": end_of, "cause": "cut", "in_flight_max": IN_FLIGHT_SUM})
    return told


def image_at(recorded: Recorded, event: int, choice: random.Random | None) -> bytearray:
    """The disk after so many events; without a choice nothing that was not flushed is lost."""
    image = bytearray(recorded.base)
    flushed = max((at for at in range(event) if recorded.events[at][0] == FLUSH), default=-1)
    share = choice.choice((0.0, 0.2, 0.5, 0.8)) if choice else 1.0
    for at, (offset, data) in enumerate(recorded.events[:event]):
        if offset == FLUSH:
            continue
        if at < flushed or choice is None:
            image[offset : offset + len(data)] = data
            continue
        for part in range(0, len(data), SECTOR):
            if choice.random() < share:
                image[offset + part : offset + part + SECTOR] = data[part : part + SECTOR]
    return image


def holds(verdict: dict[str, Any]) -> bool:
    """True where no promise was broken that can be judged here."""
    found = {kind for kind, count in verdict["findings"].items() if count}
    return verdict["verdict"] == "clean" or (verdict["verdict"] == "broken" and found <= UNJUDGED)


@dataclass
class Replay:
    """What the images have shown."""

    recorded: Recorded
    program: Path
    folder: Path
    seed: int
    ends_when_shown: bool = False
    lock: threading.Lock = field(default_factory=threading.Lock)
    stages: dict[str, list[Span]] = field(default_factory=dict)
    images: int = 0
    without_promise: int = 0
    acknowledged: int = 0
    in_stage: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)

    def shown(self) -> list[str]:
        """The findings that show a fault. An image before the first delivery may be unfit, which shows nothing."""
        return [wrong for wrong in self.wrong if SHOWN.search(wrong)]

    def try_image(self, name: str, event: int, choice: random.Random | None) -> None:
        image, path = self.folder / f"image-{name}", self.folder / f"ledger-{name}.jsonl"
        image.write_bytes(image_at(self.recorded, event, choice))
        told = ledger_so_far(self.recorded, event)
        ledger = Ledger(path, "block_images", self.seed, {"event": event})
        ledger.lives = len(STEPS)
        ledger.add(told)
        try:
            with mounted(image, self.folder / f"mount-{name}") as place:
                wrong = ledger.drain(self.program, place / "store", HISTORY)
        except subprocess.CalledProcessError as error:
            wrong = f"the image cannot be mounted: {error}"
        image.unlink()
        (self.folder / f"mount-{name}").rmdir()
        promised = sum(line.get("result") == "acknowledged" for line in told if line["kind"] == "published")
        if not wrong and promised:
            _, verdicts = judge([path])
            if len(verdicts) != 1 or not holds(verdicts[0]):
                wrong = f"{keep(path)}: {'; '.join(map(told_of, verdicts))}"
        path.unlink()
        with self.lock:
            self.images += 1
            self.without_promise += not promised
            self.acknowledged += promised
            for stage, of_it in self.stages.items():
                self.in_stage[stage] += any(start <= event <= end for start, end in of_it)
            if wrong:
                self.wrong.append(f"event {event}, {name}: {wrong}")


def moments(recorded: Recorded, images: int, seed: int) -> list[tuple[str, int, random.Random | None]]:
    """Half of them just before flushes, of which some sectors are lost; a quarter in the stages of the store, in turn;
    the others anywhere, in each way.
    """
    chance, last = random.Random(seed), len(recorded.events)
    flushes = recorded.flushes
    stages = [of_it for of_it in recorded.stages.values() if of_it]
    chosen: list[tuple[str, int, random.Random | None]] = []
    for number in range(images):
        if number % 2 == 0 and flushes:
            event = flushes[(number // 2 * len(flushes) // max(images // 2, 1)) % len(flushes)]
        elif number % 4 == 1 and stages:
            event = chance.randint(*chance.choice(stages[number // 4 % len(stages)]))
        else:
            event = chance.randint(0, last)
        chosen.append((str(number), event, random.Random(f"{seed} {number}") if number % 4 != 3 else None))
    return chosen


def replay(state: Replay, images: int, workers: int) -> None:
    """Tries images, so many at a time."""
    state.stages = state.recorded.stages
    left = iter(moments(state.recorded, images, state.seed))

    def work() -> None:
        while not (state.ends_when_shown and state.shown()):
            with state.lock:
                mine = next(left, None)
            if mine is None:
                return
            try:
                state.try_image(*mine)
            except Exception as error:  # noqa: BLE001 - a thread's own error must fail the run
                with state.lock:
                    state.wrong.append(f"{mine}: {error!r}")

    threads = [threading.Thread(target=work) for _ in range(workers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def lived(chosen: argparse.Namespace, extra: dict[str, Any], images: int) -> Replay:
    """A history is recorded and its images are tried; with a fault planted up to the first that shows it."""
    program, daemon = chosen.program.resolve(), chosen.daemon.resolve()
    with tempfile.TemporaryDirectory(prefix="block-images-", dir=work_folder()) as folder:
        recorded = record(program, daemon, Path(folder), chosen.seed, extra)
        state = Replay(recorded, program, Path(folder), chosen.seed, ends_when_shown=bool(extra))
        replay(state, images, chosen.workers)
    return state


def main(arguments: list[str]) -> int:
    options = argparse.ArgumentParser(prog="amnesia.block_images", description=__doc__)
    options.add_argument("--images", type=int, default=120)
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--workers", type=int, default=4, help="images at once")
    options.add_argument("--program", type=Path, required=True, help="the example `tortured`, with planted faults")
    options.add_argument("--daemon", type=Path, required=True, help="delaymq-amnesia")
    options.add_argument("--planted", action="store_true", help="plant faults, too, each of which must be caught")
    chosen = options.parse_args(arguments)
    refused = not_run("block-images", (FUSE, LOOP_CONTROL))
    if refused is not None:
        return refused
    began = time.monotonic()
    state = lived(chosen, {}, chosen.images)
    events = len(state.recorded.events)
    flushes = len(state.recorded.flushes)
    say(
        f"block-images: {state.images} images of {events - flushes} writes and {flushes} flushes in "
        f"{time.monotonic() - began:.0f} s; {state.acknowledged} answers had to hold, {state.without_promise} "
        "images came before any"
    )
    say("block-images: " + ", ".join(f"{state.in_stage[stage]} in a {stage}" for stage in STAGES))
    for wrong in state.wrong:
        say(f"block-images: BROKEN: {wrong}")
    missed = [stage for stage in STAGES if not state.in_stage[stage]]
    if missed:
        say(f"block-images: NOT TRIED: no image lies in {', '.join(missed)}")
    kept = not state.wrong and not missed
    for name, extra in PLANTED.items() if chosen.planted else ():
        faulty = lived(chosen, extra, PLANTED_IMAGES_MAX)
        shown = faulty.shown()
        told = f"caught in {faulty.images} images: {shown[0][:160]}" if shown else f"NOT CAUGHT, {faulty.wrong}"
        say(f"block-images: planted {name}: {told}")
        kept = kept and bool(shown)
    return 0 if kept else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
