"""What was published under keys, and messages that recur: what a ledger says of them is judged here."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from checker.findings import Findings
from checker.message import Message

Line = dict[str, Any]


@dataclass
class Key:
    """One key of a subject."""

    holder: Message | None = None
    """What was answered as stored under it last."""
    holder_name: str = ""
    open: list[Message] = field(default_factory=list)
    """What was sent behind it and has no answer, or a doubtful one."""
    doubts: dict[int, Message] = field(default_factory=dict)
    """What each of these may have replaced, by its line."""
    by_sequence: dict[int, Message] = field(default_factory=dict)


class Keys:
    """All keys. Who publishes under one waits for each answer, or dies without it."""

    def __init__(self, findings: Findings, clocks_ms: int) -> None:
        self.findings = findings
        self.clocks_ms = clocks_ms
        self.keys: dict[tuple[str, str], Key] = {}

    def asked(self, message: Message, line: Line) -> None:
        """It is about to be published."""
        key = self.keys.setdefault((line["subject"], line["key"]), Key())
        message.key, message.replaces, message.asked_ms = key, line.get("if_exists") == "replace", line["at_ms"]
        key.open.append(message)
        if message.replaces and key.holder is not None:
            key.holder.doubtful_cancels += 1
            key.doubts[message.line] = key.holder

    def answered(self, where: str, message: Message, line: Line) -> None:
        """What came of it."""
        key, result = message.key, line["result"]
        if key is None or result == "ambiguous":
            return
        if result == "acknowledged":
            self._stored(where, key, message, line)
        else:
            key.open.remove(message)
            doubted = key.doubts.pop(message.line, None)
            if doubted is not None:
                doubted.doubtful_cancels -= 1
        if result == "kept":
            self._kept(where, key, message, line)

    def _stored(self, where: str, key: Key, message: Message, line: Line) -> None:
        """What was pending under the key is so no more: it had to be replaced, or nothing had to be there."""
        key.open.remove(message)
        before, doubted = key.holder, key.doubts.pop(message.line, None)
        if before is not None and before.earliest_ms > line["at_ms"] + self.clocks_ms:
            if doubted is not None:
                doubted.doubtful_cancels -= 1
                doubted.cancelled += 1
            elif before.is_owed:
                self.findings.add("doubled", f"{where} was stored beside {key.holder_name}, which has its key")
        for other in key.open:
            if other.earliest_ms > line["at_ms"] + self.clocks_ms:
                other.cancelled += 1
        key.open.clear()
        key.holder, key.holder_name = message, where
        if "sequence" in line:
            key.by_sequence[line["sequence"]] = message

    def _kept(self, where: str, key: Key, message: Message, line: Line) -> None:
        """Another one was said to be pending: it must be one, and not have come before this was asked."""
        other = key.by_sequence.get(line.get("sequence", -1))
        if other is None:
            if "sequence" in line and not key.open:
                self.findings.add("phantom", f"{where} was not stored for one that nobody published")
            return
        shares = [share for share in other.shares.values() if share.deliveries]
        if any(share.first_ms < message.asked_ms for share in shares):
            self.findings.add("lost", f"{where} was not stored for one that had come before")


class Series:
    """A message that recurs, each occurrence of which is a message of its own."""

    def __init__(self, number: int, line: Line) -> None:
        self.line = number
        self.subject: str = line["subject"]
        self.digest: str = line["digest"]
        self.every_ms: int = line["every_ms"]
        self.is_made = False
        self.first_ms: int | None = None
        """When the earliest occurrence is due that was told of."""
        self.end_ms: int | None = None
        """When the one was due that was pending before its end."""
        self.ended_ms: int | None = None
        """When its end was answered."""
        self.occurrences: dict[int, Message] = {}

    def made(self, line: Line) -> None:
        """What came of its beginning."""
        self.is_made |= line["result"] == "acknowledged"
        if line["result"] == "acknowledged" and "next_ms" in line:
            self.first_ms = min(line["next_ms"], self.first_ms or line["next_ms"])

    def occurrence(self, findings: Findings, where: str, due_ms: int) -> Message:
        """One that came for the first time."""
        message = Message(self.line, self.subject, self.digest, due_ms, None)
        message.is_open, message.is_acknowledged = False, True
        self.occurrences[due_ms] = message
        if due_ms % self.every_ms:
            findings.add("phantom", f"{where} is due between two times of its series")
        if self.ended_ms is not None and due_ms > self.ended_ms:
            findings.add("resurrected", f"{where} came although its series had ended")
        return message

    def judge(self, findings: Findings, name: str) -> None:
        """Judges it once all is over: none was passed over, and it went on until its end."""
        dues = self.occurrences.keys()
        if self.end_ms is None:
            if self.is_made:
                findings.add("lost", f"series {name!r} was begun, and was gone at the end")
            return
        first_ms = min([*dues, *([] if self.first_ms is None else [self.first_ms])], default=self.end_ms)
        missing = [due_ms for due_ms in range(first_ms, self.end_ms, self.every_ms) if due_ms not in dues]
        if missing:
            words = f"of series {name!r} {len(missing)} never came, the first due at {missing[0]}"
            findings.add("lost", words, len(missing))
        for due_ms, message in self.occurrences.items():
            message.is_acknowledged = due_ms < self.end_ms  # its end may have cancelled what was pending
