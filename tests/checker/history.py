"""The history that a ledger tells, taken in line by line: what can be judged at a line is judged there."""

from __future__ import annotations

from array import array
from collections import Counter

from checker.findings import Findings
from checker.ledger import Line, UnfitError
from checker.message import Message, Share
from checker.terms import Keys, Series


def due_of(line: Line) -> int:
    """When it is to be due."""
    due_ms: int = line["due_ms"] if "due_ms" in line else line["at_ms"] + line["delay_ms"]
    return due_ms


class History:
    """All that was told so far."""

    def __init__(self, clocks_ms: int) -> None:
        self.clocks_ms = clocks_ms
        self.findings = Findings()
        self.run: Line = {}
        self.messages: dict[str, Message] = {}
        self.keys = Keys(self.findings, clocks_ms)
        self.series: dict[str, Series] = {}
        self.groups: dict[str, dict[str, int]] = {}
        """By subject: each group, and the line from which on it is owed what is published."""
        self.batches: dict[str, list[str]] = {}
        self.settling: set[str] = set()
        """Groups whose consumers acknowledge at all."""
        self.left: set[str] = set()
        self.counts: Counter[str] = Counter()
        self.duplicates: Counter[str] = Counter()
        self.late_ms = array("q")
        self.stop_causes: list[str] = []
        self.stop_caps: list[int] = []
        self.stop_duplicates: list[int] = []
        self.epoch = 0
        self.stops_by_epoch: dict[int, int] = {}
        self.numbers: dict[tuple[str, str, str], int] = {}
        self.lease_ms: int | None = None

    def take(self, number: int, line: Line) -> None:
        kind = line["kind"]
        self.counts[kind] += 1
        if kind != "drained":
            getattr(self, f"_{kind}")(number, line)

    def _run(self, number: int, line: Line) -> None:
        self.run = line
        lease_ms = line["options"].get("lease_ms")
        if lease_ms is not None and not isinstance(lease_ms, int):
            raise UnfitError(f"line {number}: lease_ms is {lease_ms!r}")
        self.lease_ms = lease_ms

    def _group(self, number: int, line: Line) -> None:
        self.groups.setdefault(line["subject"], {}).setdefault(line["group"], number)

    def _left(self, _number: int, line: Line) -> None:
        self.left.add(line["consumer"])

    def _stop(self, _number: int, line: Line) -> None:
        self.stop_causes.append(line["cause"])
        self.stop_caps.append(line["in_flight_max"])
        self.stop_duplicates.append(0)

    def _start(self, _number: int, line: Line) -> None:
        self.epoch = line["epoch"]
        self.stops_by_epoch.setdefault(self.epoch, len(self.stop_caps))

    def _known(self, number: int, line: Line) -> Message:
        message = self.messages.get(line["id"])
        if message is None:
            raise UnfitError(f"line {number}: {line['kind']} of {line['id']!r}, which was never published")
        return message

    def _held(self, number: int, line: Line) -> Share:
        """The share of who can only have had it: what is settled was handed over before."""
        share = self._known(number, line).shares.get(line["group"])
        if share is None or not share.deliveries:
            raise UnfitError(f"line {number}: {line['kind']} of {line['id']!r}, which its group never had")
        return share

    def _publish(self, number: int, line: Line) -> None:
        due_ms = due_of(line)
        name, batch = line["id"], line.get("batch")
        message = self.messages.get(name)
        if message is None:
            message = self.messages[name] = Message(number, line["subject"], line["digest"], due_ms, batch)
            message.is_deduplicated = line.get("deduplicate", False)
            if "key" in line:
                self.keys.asked(message, line)
        else:
            if message.key is not None or message.is_deduplicated is not line.get("deduplicate", False):
                raise UnfitError(f"line {number}: {name!r} is published again on other terms")
            if message.is_acknowledged and not message.is_deduplicated:
                raise UnfitError(f"line {number}: {name!r} is published again although it was answered")
            if (message.subject, message.digest) != (line["subject"], line["digest"]):
                raise UnfitError(f"line {number}: {name!r} is published again as something else")
            message.attempts += 1
            message.is_open = True
            message.due_ms = min(message.due_ms, due_ms)
        if batch is not None:
            self.batches.setdefault(batch, []).append(name)

    def _published(self, number: int, line: Line) -> None:
        message = self._known(number, line)
        if not message.is_open:
            raise UnfitError(f"line {number}: {line['id']!r} has a result and no attempt")
        message.is_open = False
        result = line["result"]
        self.counts[f"publish {result}"] += 1
        if result == "acknowledged":
            message.is_acknowledged = True
            self._once(f"line {number}: {line['id']!r}", message, line)
        elif result in ("refused", "kept"):
            message.refused += 1
        self.keys.answered(repr(line["id"]), message, line)

    def _once(self, where: str, message: Message, line: Line) -> None:
        """What is told by its id has one sequence, whatever became of it."""
        if message.is_deduplicated and "sequence" in line:
            if message.sequence not in (None, line["sequence"]):
                self.findings.add("doubled", f"{where} has sequences {message.sequence} and {line['sequence']}")
            message.sequence = line["sequence"]

    def _series(self, number: int, line: Line) -> None:
        self.series.setdefault(line["id"], Series(number, line))

    def _series_made(self, number: int, line: Line) -> None:
        self._known_series(number, line).made(line)

    def _series_end(self, number: int, line: Line) -> None:
        self._known_series(number, line).end_ms = line["next_ms"]

    def _series_ended(self, number: int, line: Line) -> None:
        series = self._known_series(number, line)
        if line["result"] == "done":
            series.ended_ms = line["at_ms"] + self.clocks_ms
        elif line["result"] == "not_found":
            self.findings.add("lost", f"line {number}: series {line['id']!r} was gone when it was ended")

    def _known_series(self, number: int, line: Line) -> Series:
        if line["id"] not in self.series:
            raise UnfitError(f"line {number}: {line['kind']} of {line['id']!r}, which was never begun")
        return self.series[line["id"]]

    def _came(self, where: str, name: str | None) -> Message | None:
        """The message of a delivery; an occurrence is known by its series."""
        if name is None or name in self.messages:
            return self.messages.get(name) if name is not None else None
        series, _, due = name.rpartition("@")
        if series in self.series and due.isdecimal():
            self.messages[name] = self.series[series].occurrence(self.findings, where, int(due))
        return self.messages.get(name)

    def _cancel(self, number: int, line: Line) -> None:
        self._known(number, line).cancel_open += 1

    def _cancelled(self, number: int, line: Line) -> None:
        message = self._known(number, line)
        if not message.cancel_open:
            raise UnfitError(f"line {number}: {line['id']!r} has the result of a cancel and no cancel")
        message.cancel_open -= 1
        result = line["result"]
        self.counts[f"cancel {result}"] += 1
        if result == "done":
            message.cancelled += 1
        elif result == "ambiguous":
            message.doubtful_cancels += 1

    def _move(self, number: int, line: Line) -> None:
        message = self._known(number, line)
        if message.move_open is not None:
            message.doubtful_dues.append(message.move_open)
        message.move_open = due_of(line)
        asked = next((name, line[name]) for name in ("due_ms", "delay_ms") if name in line)
        message.move_is_repeated = asked in message.moves_asked
        message.moves_asked.add(asked)

    def _moved(self, number: int, line: Line) -> None:
        message = self._known(number, line)
        due_ms, message.move_open = message.move_open, None
        if due_ms is None:
            raise UnfitError(f"line {number}: {line['id']!r} has the result of a move and no move")
        result = line["result"]
        self.counts[f"move {result}"] += 1
        is_doubtful = message.copies > 1 or message.move_is_repeated
        if result == "ambiguous" or (result == "done" and is_doubtful):
            message.doubtful_dues.append(due_ms)
        elif result == "done":
            # It was pending until then, so that nothing came of the moves before it that are not told.
            message.doubtful_dues.clear()
            message.due_ms = due_ms
            for group, share in message.shares.items():
                if share.deliveries and share.first_ms + self.clocks_ms < due_ms:
                    where = f"line {number}: {line['id']!r} in group {group!r}"
                    early_ms = due_ms - share.first_ms
                    self.findings.add("early", f"{where} came {early_ms} ms before the time that it was moved to")

    def _acknowledge(self, number: int, line: Line) -> None:
        share = self._held(number, line)
        share.acknowledges += 1
        share.acknowledge_open += 1
        self.settling.add(line["group"])

    def _acknowledged(self, number: int, line: Line) -> None:
        share = self._held(number, line)
        if not share.acknowledge_open:
            raise UnfitError(f"line {number}: {line['id']!r} has the result of an acknowledgement and none was sent")
        share.acknowledge_open -= 1
        if line["result"] == "acknowledged":
            share.acknowledged += 1
            share.acknowledged_epoch = self.epoch

    def _returned(self, number: int, line: Line) -> None:
        share = self._held(number, line)
        share.returns += 1
        share.not_before_ms = line["at_ms"] + line["delay_ms"]
        share.not_before_stops = -1 if line.get("result") == "acknowledged" else len(self.stop_caps)

    def _dead(self, number: int, line: Line) -> None:
        message = self.messages.get(line["id"])
        if message is None or not message.copies:
            self.findings.add("phantom", f"line {number}: {line['id']!r} is dead and was never published")
            return
        share = message.share(line["group"])
        share.is_dead = True
        if share.acknowledged >= message.copies:
            self.findings.add("finished_again", f"line {number}: {line['id']!r} is dead after it was acknowledged")

    def _delivered(self, number: int, line: Line) -> None:
        name, group = line["id"], line["group"]
        where = f"line {number}: {name!r} in group {group!r}"
        self.groups.setdefault(line["subject"], {}).setdefault(group, 0)
        message = self._came(where, name)
        if message is None:
            self.findings.add("phantom", f"{where} was never published")
            return
        if message.subject != line["subject"]:
            self.findings.add("phantom", f"{where} was published to {message.subject!r}, not {line['subject']!r}")
        if message.digest != line["digest"]:
            self.findings.add("corrupt", f"{where} has digest {line['digest']}, published was {message.digest}")
        if line["at_ms"] + self.clocks_ms < message.earliest_ms:
            early_ms = message.earliest_ms - line["at_ms"]
            self.findings.add("early", f"{where} came {early_ms} ms before it was due")
        share = message.share(group)
        is_marked = line.get("redelivered") is not False or (line.get("attempt") or 0) > 1
        self._again(where, line, message, share, is_marked=is_marked)
        if not is_marked:
            share.unmarked += 1
            if share.unmarked > max(message.copies, 1):
                self.findings.add("unmarked", f"{where} came again and was not marked")
            self._ordered(where, line)
        if message.copies > 1 and share.consumer:
            share.others = [*(share.others or []), share.consumer]
        share.consumer = line["consumer"]
        share.last_ms = line["at_ms"]

    def _again(self, where: str, line: Line, message: Message, share: Share, *, is_marked: bool) -> None:
        """Judges one delivery against those before it, and counts it."""
        epoch = line.get("epoch", self.epoch)
        life = self.stops_by_epoch.get(epoch, len(self.stop_caps)) if "epoch" in line else len(self.stop_caps)
        if share.acknowledged >= max(message.copies, 1) and epoch >= share.acknowledged_epoch:
            self.findings.add("finished_again", f"{where} came after its acknowledgement was answered")
        # What was given back and never answered may be lost with the server, or with its consumer's connection.
        is_answered = share.not_before_stops == -1
        holds = is_answered or (share.not_before_stops == len(self.stop_caps) and share.consumer not in self.left)
        if share.returns and holds and message.copies == 1 and line["at_ms"] + self.clocks_ms < share.not_before_ms:
            early_ms = share.not_before_ms - line["at_ms"]
            self.findings.add("early", f"{where} came {early_ms} ms before the time that it was returned for")
        share.deliveries += 1
        if share.deliveries == 1:
            share.life, share.life_deliveries, share.first_ms = life, 1, line["at_ms"]
            if message.earliest_ms == message.due_ms:
                self.late_ms.append(line["at_ms"] - message.due_ms)
            return
        cause = self._cause(line, message, share, life, is_marked=is_marked)
        self.duplicates[cause] += 1
        if cause == "crash":
            self.stop_duplicates[min(life, share.life, len(self.stop_duplicates) - 1)] += 1
        elif cause == "none":
            self.findings.add("unexplained", f"{where} came again for no reason")
        share.came_back += cause == "returned"
        if life == share.life:
            # Which copy came back is not known, so that none of them is used up by it.
            share.life_deliveries += cause != "returned"
        else:
            share.life, share.life_deliveries = life, 1

    def _cause(self, line: Line, message: Message, share: Share, life: int, *, is_marked: bool) -> str:
        if not is_marked and share.unmarked < message.copies and message.copies > 1:
            return "ambiguous_publish"
        is_another = message.copies > 1 and line["at_ms"] + self.clocks_ms < share.not_before_ms
        if share.returns and not is_another:
            share.returns -= 1
            return "returned"
        cause = self._cause_without_returns(line, message, share, life)
        if cause == "none" and share.returns:
            share.returns -= 1
            return "returned"
        return cause

    def _cause_without_returns(self, line: Line, message: Message, share: Share, life: int) -> str:
        if share.consumer in self.left:
            return "lease"
        if life != share.life:
            return "crash"
        if share.life_deliveries < message.copies:
            return "ambiguous_publish" if share.deliveries - share.came_back <= message.copies else "crash"
        return self._cause_of_others(line, share)

    def _cause_of_others(self, line: Line, share: Share) -> str:
        for other in share.others or []:
            if other in self.left:
                share.others = [one for one in share.others or [] if one != other]
                return "lease"
        if self.lease_ms is not None and line["at_ms"] - share.last_ms >= self.lease_ms:
            return "lease"
        return "none"

    def _ordered(self, where: str, line: Line) -> None:
        place = line.get("number")
        if place is None:
            return
        key = (line["consumer"], line["subject"], line["group"])
        before = self.numbers.get(key)
        if before is not None and place <= before:
            self.findings.add("order", f"{where} has number {place} after {before}")
        self.numbers[key] = place
