"""Clients of a served store, as threads that come back when the server was killed; what they send and see is told."""

from __future__ import annotations

import hashlib
import random
import socket
import struct
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from serving import (
    ACKNOWLEDGE,
    CREDIT,
    DELIVER,
    FLUSH,
    ONE_WAY,
    PUBLISH,
    SUBSCRIBE,
    Delivered,
    Peer,
    acknowledge,
    credit,
    deliveries,
    frame,
    number,
    publish,
    subscribe,
    text,
)
from torture.ledger import Ledger

CANCEL, GIVE_BACK, MOVE, PUBLISH_ON_TERMS = 203, 208, 212, 213
KEY_TAKEN = 1016
HAS_KEY, DEDUPLICATES = 1, 2
IF_EXISTS = (("replace", 0), ("replace", 0), ("error", 2))
# What is due sooner may be ready before it has its key.
KEYED_MS_MIN = 60
OUTCOMES = ("done", "already_dispatched", "not_found")
SUBJECT = "ledger"
GROUPS = ("g", "h")
IN_FLIGHT = 64
BATCH_MAX = 20
DELAY_MS_MAX = 400
# What is due later than this may be cancelled or moved.
CHANGED_FROM_MS = 100
RECEIPT_BYTES = 48
PATIENCE_SECONDS = 10


@dataclass(frozen=True)
class Where:
    """A life of the server."""

    address: str
    epoch: int


@dataclass
class World:
    """What the clients of a store share."""

    ledger: Ledger
    seed: int
    where: Where | None = None
    is_publishing: bool = True
    is_gentle: bool = False
    """Consumers acknowledge all and stay."""
    is_over: bool = False
    wrong: list[str] = field(default_factory=list)
    owed: set[tuple[str, str]] = field(default_factory=set)
    """Groups and messages that must still be acknowledged."""
    settled: set[tuple[str, str]] = field(default_factory=set)
    again: deque[tuple[list[bytes], int]] = field(default_factory=deque)
    """Batches that ended ambiguous and are sent again."""
    told: deque[bytes] = field(default_factory=lambda: deque(maxlen=16))
    """What is told by its id, and may be sent again whatever came of it."""
    holders: dict[str, str] = field(default_factory=dict)
    """What was answered as stored under each key last."""
    receipts: deque[tuple[str, bytes]] = field(default_factory=lambda: deque(maxlen=64))
    lock: threading.Lock = field(default_factory=threading.Lock)
    last_seen: float = 0

    def owes(self, groups: tuple[str, ...], names: list[str]) -> None:
        with self.lock:
            self.owed |= {(group, name) for group in groups for name in names} - self.settled

    def settles(self, group: str, names: list[str]) -> None:
        with self.lock:
            pairs = {(group, name) for name in names}
            self.settled |= pairs
            self.owed -= pairs

    def lets_go(self, name: str) -> None:
        with self.lock:
            self.owed -= {(group, name) for group in GROUPS}

    def current(self) -> Where | None:
        """Where the server is; nothing once all is over."""
        while not self.is_over:
            where = self.where
            if where is not None:
                return where
            time.sleep(0.002)
        return None


def name_of(body: bytes) -> str:
    return body.partition(b" ")[0].decode(errors="replace")


def digest_of(body: bytes) -> str:
    return hashlib.blake2b(body, digest_size=12).hexdigest()


def again(world: World, work: Callable[[World, Where, random.Random], None], seed: str) -> None:
    """Connects and works until all is over; a connection that is lost is made again."""
    chance = random.Random(f"{world.seed}/{seed}")
    while (where := world.current()) is not None:
        try:
            work(world, where, chance)
        except OSError:
            time.sleep(0.005)
        except Exception as error:  # noqa: BLE001 - a thread that ends says why
            world.wrong.append(f"{work.__name__}: {error!r}")
            return


def connected(world: World, where: Where) -> Peer:
    """A connection to this life of the server, and to no other."""
    host, _, port = where.address.rpartition(":")
    peer = Peer(socket.create_connection((host, int(port)), timeout=PATIENCE_SECONDS))
    if world.where is not where:
        peer.socket.close()
        raise ConnectionError("it was another life")
    return peer


def produce(world: World, where: Where, chance: random.Random) -> None:
    with connected(world, where) as peer:
        while world.is_publishing:
            # Enough to be under way at any moment; more would only keep the processors from other stores.
            time.sleep(chance.choice((0, 0.002, 0.008)))
            if world.receipts and chance.random() < 0.3:
                change(world, peer, chance)
            if chance.random() < 0.3:
                publish_on_terms(world, peer, chance)
            publish_one(world, peer, chance)
        while not world.is_over and world.where is where:
            time.sleep(0.02)


def publish_one(world: World, peer: Peer, chance: random.Random) -> None:
    """One batch, new or once more."""
    is_new = not world.again
    if is_new:
        delay_ms = chance.choice((0, 0, 20, chance.randrange(DELAY_MS_MAX)))
        bodies = [body_of(chance) for _ in range(chance.randint(1, BATCH_MAX))]
    else:
        bodies, delay_ms = world.again.popleft()
    names = [name_of(body) for body in bodies]
    whole = {"batch": names[0]} if is_new else {}
    told = {"subject": SUBJECT, "delay_ms": delay_ms, **whole}
    lines = [{"kind": "publish", "id": name_of(body), "digest": digest_of(body), **told} for body in bodies]
    world.ledger.tell_all(lines)
    try:
        code, answer = peer.ask(PUBLISH, publish(SUBJECT, bodies, delay_ms, wants_receipts=True))
    except OSError:
        tell_each(world, "published", names, result="ambiguous")
        if chance.random() < 0.5:
            # Told first: another thread may send it again at once.
            world.again.append((bodies, delay_ms))
        raise
    assert code == 0, (code, answer)
    world.owes(GROUPS, names)
    tell_each(world, "published", names, result="acknowledged")
    if is_new and delay_ms > CHANGED_FROM_MS and chance.random() < 0.4:
        (count,) = struct.unpack_from(">I", answer)
        assert count == len(bodies), answer
        world.receipts.append((names[0], answer[4 : 4 + RECEIPT_BYTES]))


@dataclass(frozen=True)
class OnTerms:
    """A message, its terms in bytes, and what the ledger is told of them."""

    body: bytes
    delay_ms: int
    meta: bytes
    terms: bytes
    told: dict[str, object]


def publish_on_terms(world: World, peer: Peer, chance: random.Random) -> None:
    """One message under the key of this thread, or one that is told by its id, new or once more."""
    if chance.random() < 0.5:
        # Who publishes under a key waits for each answer: nobody else has this one.
        key = f"k-{id(chance)}"
        if_exists, number = chance.choice(IF_EXISTS)
        if if_exists == "replace":
            world.lets_go(world.holders.get(key, ""))
        delay_ms = KEYED_MS_MIN + chance.randrange(2 * DELAY_MS_MAX)
        body, terms = body_of(chance), struct.pack(">BB", HAS_KEY, number) + text(key)
        if send_on_terms(world, peer, OnTerms(body, delay_ms, b"", terms, {"key": key, "if_exists": if_exists})):
            world.holders[key] = name_of(body)
        return
    body = world.told.popleft() if world.told and chance.random() < 0.5 else body_of(chance)
    message_id = name_of(body).encode()
    meta = struct.pack("<H", len(message_id)) + message_id + bytes(3)
    terms = struct.pack(">BB", DEDUPLICATES, 0) + text("")
    try:
        delay_ms = chance.randrange(DELAY_MS_MAX)
        send_on_terms(world, peer, OnTerms(body, delay_ms, meta, terms, {"deduplicate": True}))
    finally:
        world.told.append(body)


def send_on_terms(world: World, peer: Peer, sent: OnTerms) -> bool:
    """True where it is stored."""
    name = name_of(sent.body)
    line = {"id": name, "digest": digest_of(sent.body), "subject": SUBJECT, "delay_ms": sent.delay_ms, **sent.told}
    world.ledger.tell("publish", **line)
    asked = publish(SUBJECT, [sent.body], sent.delay_ms, meta=sent.meta) + struct.pack(">II", 1, 0) + sent.terms
    try:
        code, answer = peer.ask(PUBLISH_ON_TERMS, asked)
    except OSError:
        world.ledger.tell("published", id=name, result="ambiguous")
        raise
    assert code in (0, KEY_TAKEN), (code, answer)
    if code == 0:
        world.owes(GROUPS, [name])
    world.ledger.tell("published", id=name, result="kept" if code else "acknowledged")
    return code == 0


def body_of(chance: random.Random) -> bytes:
    return chance.randbytes(8).hex().encode() + b" " + chance.randbytes(chance.choice((0, 10, 300)))


def change(world: World, peer: Peer, chance: random.Random) -> None:
    """Cancels or moves one of the messages that may be."""
    try:
        name, receipt = world.receipts.popleft()
    except IndexError:
        return
    if chance.random() < 0.5:
        cancel(world, peer, name, receipt)
    else:
        move(world, peer, name, receipt, chance.choice((0, chance.randrange(DELAY_MS_MAX))))


def move(world: World, peer: Peer, name: str, receipt: bytes, delay_ms: int) -> None:
    world.ledger.tell("move", id=name, delay_ms=delay_ms)
    code, answer = peer.ask(MOVE, struct.pack(">IBQ", 1, 0, delay_ms) + receipt)
    assert code == 0, (code, answer)
    assert answer[:4] == struct.pack(">I", 1), answer
    result = OUTCOMES[answer[4]]
    world.ledger.tell("moved", id=name, result=result)
    if result == "done" and delay_ms > CHANGED_FROM_MS:
        world.receipts.append((name, answer[5 : 5 + RECEIPT_BYTES]))


def cancel(world: World, peer: Peer, name: str, receipt: bytes) -> None:
    world.ledger.tell("cancel", id=name)
    code, answer = peer.ask(CANCEL, struct.pack(">I", 1) + receipt)
    assert code == 0, (code, answer)
    assert answer[:4] == struct.pack(">I", 1), answer
    result = OUTCOMES[answer[4]]
    world.ledger.tell("cancelled", id=name, result=result)
    if result == "done":
        world.lets_go(name)


def tell_each(world: World, kind: str, names: list[str], **fields: object) -> None:
    world.ledger.tell_all([{"kind": kind, "id": name, **fields} for name in names])


class Consumer:
    """One life of a consumer of delaymq's own."""

    def __init__(self, world: World, where: Where, chance: random.Random, group: str, peer: Peer) -> None:
        self.world = world
        self.chance = chance
        self.group = group
        self.peer = peer
        self.epoch = where.epoch
        self.name = f"{group}-{chance.randbytes(6).hex()}"
        self.flushing: dict[int, list[str]] = {}
        self.kept = 0
        self.opaque = 100

    def work(self) -> None:
        self.peer.send(frame(SUBSCRIBE, subscribe(1, SUBJECT, self.group, IN_FLIGHT, IN_FLIGHT)))
        while not self.world.is_over:
            if not self.world.is_gentle and (self.kept > IN_FLIGHT // 2 or self.chance.random() < 0.003):
                # It dies with what it holds.
                self.world.ledger.tell("left", consumer=self.name)
                return
            code, opaque, flags, body = self.peer.receive()
            if code == DELIVER and flags == ONE_WAY:
                self.came(deliveries(body)[1])
            else:
                assert code == 0, (code, body)
                names = self.flushing.pop(opaque, [])
                tell_each(self.world, "acknowledged", names, group=self.group, result="acknowledged")

    def came(self, messages: list[Delivered]) -> None:
        self.world.last_seen = time.monotonic()
        self.world.ledger.tell_all([self.line(message) for message in messages])
        done, back = [], []
        for message in messages:
            roll = 1.0 if self.world.is_gentle else self.chance.random()
            if roll < 0.02:
                back.append((message, self.chance.choice((0, self.chance.randrange(100)))))
            elif roll < 0.04:
                self.kept += 1
            else:
                done.append(message)
        rows = b"".join(struct.pack(">IQQ", one.queue, one.offset, delay_ms) for one, delay_ms in back)
        lines = [{"id": name_of(one.body), "group": self.group, "delay_ms": delay_ms} for one, delay_ms in back]
        self.world.ledger.tell_all([{"kind": "returned", **line} for line in lines])
        names = [name_of(one.body) for one in done]
        tell_each(self.world, "acknowledge", names, group=self.group)
        self.world.settles(self.group, names)
        self.opaque += 1
        self.flushing[self.opaque] = names
        given_back = frame(GIVE_BACK, struct.pack(">II", 1, len(back)) + rows, flags=ONE_WAY) if back else b""
        self.peer.send(
            given_back
            + frame(ACKNOWLEDGE, acknowledge(1, done), flags=ONE_WAY)
            + frame(FLUSH, number(1), opaque=self.opaque)
            + frame(CREDIT, credit(1, len(messages)), flags=ONE_WAY)
        )

    def line(self, message: Delivered) -> dict[str, object]:
        told: dict[str, object] = {"kind": "delivered", "id": name_of(message.body), "digest": digest_of(message.body)}
        told |= {"subject": SUBJECT, "group": self.group, "consumer": self.name, "epoch": self.epoch}
        told |= {"attempt": message.attempt, "redelivered": message.redelivered}
        return told | ({"number": message.offset} if message.queue == 0 else {})


def consume(group: str) -> Callable[[World, Where, random.Random], None]:
    """What a consumer of this group does."""

    def consuming(world: World, where: Where, chance: random.Random) -> None:
        with connected(world, where) as peer:
            Consumer(world, where, chance, group, peer).work()

    return consuming


def begin_groups(world: World, where: Where) -> None:
    """Makes the groups, so that they are owed everything."""
    with connected(world, where) as peer:
        for place, group in enumerate(GROUPS):
            code, answer = peer.ask(SUBSCRIBE, subscribe(place, SUBJECT, group, 1, 0))
            assert code == 0, (code, answer)
