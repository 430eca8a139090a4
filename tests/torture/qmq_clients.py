"""Clients that speak QMQ's protocol to a served store that is killed."""

from __future__ import annotations

import random
import time

from qmq_client import frame
from qmq_client.bodies import Consumer, Pull
from qmq_client.connection import AnsweredError, ClosedError, Connection
from qmq_client.message import Message
from torture.clients import Where, World, digest_of, tell_each
from torture.ledger import wall_ms

SUBJECT, GROUP = "qmq.ledger", "worker"
CONSUMER = Consumer(SUBJECT, GROUP, "host@@one")
COUNT = 20
"""Of a pull: it holds no more."""
HOLD_MS = 100


def connected(world: World, where: Where) -> Connection:
    client = Connection(where.address)
    if world.where is not where:
        client.close()
        raise ConnectionError("it was another life")
    return client


def produce(world: World, where: Where, chance: random.Random) -> None:
    with connected(world, where) as client:
        while world.is_publishing:
            time.sleep(chance.choice((0.001, 0.01)))
            send_one(world, client, chance)
        while not world.is_over and world.where is where:
            time.sleep(0.02)


def send_one(world: World, client: Connection, chance: random.Random) -> None:
    """A request, of which each message is stored or refused by itself."""
    now_ms = wall_ms()
    messages = []
    for _ in range(chance.randint(1, 5)):
        delay_ms = chance.choice((0, 0, 50, 300))
        name = chance.randbytes(8).hex()
        messages.append(Message(SUBJECT, name, now_ms, now_ms + delay_ms, delayed=delay_ms > 0))
    names = [message.message_id for message in messages]
    world.ledger.tell_all([{"kind": "publish", **line(message), "due_ms": due_ms(message)} for message in messages])
    try:
        refused = {one.message_id for one in client.send(*messages)}
    except (OSError, ClosedError, AnsweredError) as error:
        tell_each(world, "published", names, result="ambiguous")
        raise ConnectionError(str(error)) from error
    stored = [name for name in names if name not in refused]
    world.owes((GROUP,), stored)
    tell_each(world, "published", stored, result="acknowledged")
    tell_each(world, "published", sorted(refused), result="refused")


def line(message: Message) -> dict[str, object]:
    return {"id": message.message_id, "subject": SUBJECT, "digest": digest_of(message.encoded())}


def due_ms(message: Message) -> int:
    return message.expire_time if message.delayed else message.create_time


def consume(world: World, where: Where, chance: random.Random) -> None:
    name = f"{GROUP}-{chance.randbytes(6).hex()}"
    with connected(world, where) as client:
        try:
            while not world.is_over:
                if not pull_one(world, client, chance, name, where.epoch):
                    world.ledger.tell("left", consumer=name)
                    return
        except (ClosedError, AnsweredError) as error:
            raise ConnectionError(str(error)) from error


def pull_one(world: World, client: Connection, chance: random.Random, name: str, epoch: int) -> bool:
    """Pulls and acknowledges; False where it dies before it acknowledges."""
    pulled = client.pull(Pull(CONSUMER, count=COUNT, hold_ms=HOLD_MS))
    if pulled is None:
        return True
    world.last_seen = time.monotonic()
    told = {"group": GROUP, "consumer": name, "epoch": epoch, "redelivered": None, "attempt": None}
    digests = {message.message_id: digest_of(message.encoded_as) for message in pulled.messages}
    lines = [{"kind": "delivered", "id": one, "subject": SUBJECT, "digest": digests[one], **told} for one in digests]
    world.ledger.tell_all(lines)
    if not world.is_gentle and chance.random() < 0.05:
        return False
    names = list(digests)
    tell_each(world, "acknowledge", names, group=GROUP)
    world.settles(GROUP, names)
    if client.acknowledge(CONSUMER, pulled.first, pulled.last) == frame.SUCCESS:
        tell_each(world, "acknowledged", names, group=GROUP, result="acknowledged")
    return True


def begin_group(world: World, where: Where) -> None:
    """Makes the group, so that it is owed everything."""
    with connected(world, where) as client:
        assert client.pull(Pull(CONSUMER)) is None
