"""What a server is started with, as the extension takes it."""

from __future__ import annotations

from typing import TypedDict

__all__ = ["ConsumerOptions", "ServerOptions"]


class ConsumerOptions(TypedDict, total=False):
    """What a server keeps to with QMQ's clients; what is not given is as usual.

    A consumer that is silent for longer than its lease loses what it holds to the retry subject, where it waits for
    the delay; what was delivered as often as it may be is a dead letter. A message without the delay bit is due
    `undelayed_ms` after it came. The rest bounds what clients may make.
    """

    lease_ms: int
    retry_delay_ms: int
    undelayed_ms: int
    attempts_max: int
    held_pulls_max: int
    consumers_max: int
    groups_max: int
    subjects_max: int


class ServerOptions(TypedDict):
    """Where a server listens, and who may ask; ports may be 0 for any that is free.

    Hosts that others than this machine reach need a token and an address to advertise. A client that has
    subscriptions and is silent for longer than `silence_ms` is closed; None is a minute.
    """

    host: str
    port: int
    http_host: str
    http_port: int
    advertised_address: str | None
    token_hash: str | None
    admin_token_hash: str | None
    qmq_clients_from: list[str]
    switched_off: str | None
    silence_ms: int | None
    consuming: ConsumerOptions
