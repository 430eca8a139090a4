"""Options of a server, as the extension takes them."""

from __future__ import annotations

from typing import TypedDict


class ConsumerOptions(TypedDict, total=False):
    """Options for clients of QMQ. A missing one has its default.

    A consumer that is silent for longer than its lease loses its messages to the retry subject, where they are due
    again after the delay; a message that was delivered as often as allowed becomes a dead letter. A broadcast consumer
    that is silent for longer than its own lease ends with what it did not acknowledge. A message without
    the delay bit is due `undelayed_ms` after it arrived. The other options limit what clients may create.
    """

    lease_ms: int
    broadcast_lease_ms: int
    retry_delay_ms: int
    undelayed_ms: int
    attempts_max: int
    held_pulls_max: int
    consumers_max: int
    groups_max: int
    subjects_max: int


class ServerOptions(TypedDict):
    """Where a server listens, and which clients it accepts. Port 0 means any free port.

    A host that is reachable from other machines requires a token and an advertised address. A client that has
    subscriptions and is silent for longer than `silence_ms` is disconnected; None is a minute.
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


class RegisterOptions(TypedDict):
    """Where the register of a group of copies is: in a file, or else at a key of etcd.

    `authorities` signs the certificates of etcd's endpoints, and `client` is a certificate and its key, if etcd demands
    one.
    """

    file: str | None
    key: str
    endpoints: list[str]
    timeout_ms: int
    authorities: str | None
    client: tuple[str, str] | None


class ClusterOptions(TypedDict):
    """A node of a group of copies: where it listens for the others, where they listen, and their register.

    `tls` has three files in PEM: the authority of the group, the certificate of this node, and its key. Without them,
    all addresses must be of this machine.
    """

    listen: str
    advertised_address: str | None
    peers: list[str]
    tls: tuple[str, str, str] | None
    register: RegisterOptions
