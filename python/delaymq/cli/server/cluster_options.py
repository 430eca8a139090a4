"""The table `cluster` of the settings, as options of a node."""

from __future__ import annotations

import ipaddress
from collections import Counter

from delaymq._arguments.server_options import ClusterOptions, RegisterOptions
from delaymq.cli.failures import UsageError
from delaymq.cli.input.settings import Settings

TABLE = "cluster."
TIMEOUT_SECONDS = 2.0
TIMEOUT_SECONDS_MAX = 60
MIN_COPIES = 2
FILE, ETCD = "file:", "etcd:"


def is_cluster(settings: Settings) -> bool:
    """Returns True if the store is a copy of a group."""
    return any(name.startswith(TABLE) for name in settings)


def cluster_of(settings: Settings) -> ClusterOptions:
    """Returns the options of the node.

    Raises:
        UsageError: A setting is missing, contradicts another one, or is refused for a group of copies.
    """
    listen, peers = _given(settings, "listen"), list(settings.get("cluster.peers", ()))
    if settings.get("store.durability", "disk") != "disk":
        raise UsageError(
            f'{settings.origin("store.durability")}: store.durability: expected "disk" in a cluster, found "os": a '
            "copy counts only once it is on a disk"
        )
    if not _is_numeric(listen):
        raise _refused(settings, "listen", "an IP address and a port", listen)
    tls = _tls(settings)
    advertised = settings.get("cluster.advertised_address")
    given = [] if advertised is None else [("advertised_address", advertised)]
    for name, address in [("listen", listen), *given, *(("peers", peer) for peer in peers)]:
        if tls is None and not _may_be_of_this_machine(address):
            words = "an address of this machine, or the settings cluster.ca, cluster.certificate and cluster.key"
            raise _refused(settings, name, words, address)
    [(address, count)] = Counter([listen, *peers]).most_common(1)
    if count > 1:
        raise _refused(settings, "peers", "each of the other nodes once", address)
    return {
        "listen": listen,
        "advertised_address": advertised,
        "peers": peers,
        "tls": tls,
        "register": register_of(settings),
    }


def register_of(settings: Settings) -> RegisterOptions:
    """Returns the place of the group's register.

    Raises:
        UsageError: A setting is missing, or contradicts another one.
    """
    register = _given(settings, "register")
    endpoints = list(settings.get("cluster.etcd", ()))
    if register.startswith(ETCD) and not endpoints:
        raise UsageError(f"cluster.etcd: missing: the register {register} is in etcd, so name its members")
    if register.startswith(FILE):
        _refuse_all_of_etcd(settings, register)
    timeout = settings.get("cluster.etcd_timeout_seconds", TIMEOUT_SECONDS)
    if not 0 < timeout <= TIMEOUT_SECONDS_MAX:
        words = f"more than 0 and at most {TIMEOUT_SECONDS_MAX} seconds"
        raise _refused(settings, "etcd_timeout_seconds", words, timeout)
    authorities = settings.get("cluster.etcd_ca")
    client = _pair(settings)
    for endpoint in endpoints:
        if (authorities is not None) != endpoint.startswith("https://"):
            expected = "https:// with cluster.etcd_ca, or http:// without it"
            raise _refused(settings, "etcd", expected, endpoint)
    if client is not None and authorities is None:
        raise UsageError("cluster.etcd_ca: missing: cluster.etcd_certificate goes with it")
    return {
        "file": register.removeprefix(FILE) if register.startswith(FILE) else None,
        "key": register.removeprefix(ETCD),
        "endpoints": endpoints,
        "timeout_ms": max(1, int(timeout * 1000)),
        "authorities": authorities,
        "client": client,
    }


def min_copies_of(settings: Settings) -> int:
    """Returns how many copies a new message of the group must have.

    Raises:
        UsageError: The group has fewer nodes.
    """
    least = int(settings.get("cluster.min_copies", MIN_COPIES))
    nodes = 1 + len(settings.get("cluster.peers", ()))
    if least > nodes:
        raise UsageError(
            f"cluster.min_copies: expected at most {nodes}, the number of nodes by cluster.peers, found {least}"
        )
    return least


def _given(settings: Settings, name: str) -> str:
    if TABLE + name not in settings:
        raise UsageError(f"cluster.{name}: missing; a node of a group of copies needs it")
    return str(settings[TABLE + name])


def _refused(settings: Settings, name: str, expected: str, found: object) -> UsageError:
    return UsageError(f"{settings.origin(TABLE + name)}: cluster.{name}: expected {expected}, found {found}")


def _refuse_all_of_etcd(settings: Settings, register: str) -> None:
    others = [name for name in settings if name.startswith("cluster.etcd")]
    if others:
        raise UsageError(f"{settings.origin(others[0])}: {others[0]}: the register {register} is not in etcd")


def _tls(settings: Settings) -> tuple[str, str, str] | None:
    names = ("ca", "certificate", "key")
    found = [settings.get(TABLE + name) for name in names]
    missing = [TABLE + name for name, path in zip(names, found, strict=True) if path is None]
    if len(missing) == len(names):
        return None
    if missing:
        raise UsageError(f"{missing[0]}: missing: cluster.ca, cluster.certificate and cluster.key go together")
    ca, certificate, key = map(str, found)
    return ca, certificate, key


def _pair(settings: Settings) -> tuple[str, str] | None:
    certificate, key = settings.get("cluster.etcd_certificate"), settings.get("cluster.etcd_key")
    if (certificate is None) != (key is None):
        missing = "certificate" if certificate is None else "key"
        raise UsageError(f"cluster.etcd_{missing}: missing: cluster.etcd_certificate and cluster.etcd_key go together")
    return None if certificate is None or key is None else (str(certificate), str(key))


def _host(address: str) -> str:
    return address.rpartition(":")[0].removeprefix("[").removesuffix("]")


def _is_numeric(address: str) -> bool:
    try:
        ipaddress.ip_address(_host(address))
    except ValueError:
        return False
    return True


def _may_be_of_this_machine(address: str) -> bool:
    """Returns True also for a name: what it stands for is known when the node connects, which looks again."""
    return not _is_numeric(address) or ipaddress.ip_address(_host(address)).is_loopback
