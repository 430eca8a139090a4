"""serve: what is configured of QMQ's consumers reaches them."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import time
import urllib.request
from pathlib import Path

from commanding import arguments_of, environment, refused

PATIENCE_SECONDS = 20
# From the description of QMQ's protocol: a pull of one consumer, which here waits for 6 s, and what
# it is told then. Two more pulls and all looks at the metrics are to be done before that.
PULL = bytes.fromhex(
    "000000540012dec10ade000b00090000000800000000000b0007742e64656c617900016700046840407800000032ffffffffffffffff"
    "ffffffffffffffffffffffffffffffff000000000000177000000000010001000000"
)
NOTHING = bytes.fromhex("000000140012dec10ade000400090000000800000001000b")
SETTINGS = (
    "server.port=0",
    "http.port=0",
    "server.qmq_lease_seconds=0.1",
    "server.qmq_held_pulls_max=1",
    "server.qmq_groups_max=1",
)


def metric(address: str, name: str) -> int:
    with urllib.request.urlopen(f"http://{address}/metrics", timeout=PATIENCE_SECONDS) as answer:
        lines = answer.read().decode().splitlines()
    return int(next(line for line in lines if line.startswith(f"delaymq_{name} ")).split()[1])


def wait_for(address: str, name: str, value: int) -> None:
    until = time.monotonic() + PATIENCE_SECONDS
    while metric(address, name) != value:
        assert time.monotonic() < until, name
        time.sleep(0.01)


def received(connection: socket.socket) -> bytes:
    answer = b""
    while len(answer) < len(NOTHING):
        answer += connection.recv(len(NOTHING) - len(answer))
    return answer


def test_what_is_configured_of_consumers_is_kept_to(tmp_path: Path) -> None:
    pairs = [part for pair in SETTINGS for part in ("--set", pair)]
    whole = arguments_of("serve", "--store", str(tmp_path / "store"), "--json", *pairs)
    process = subprocess.Popen(whole, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment())
    assert process.stdout is not None
    try:
        where = json.loads(process.stdout.readline())
        http = where["http_address"]
        host, port = where["address"].split(":")
        with socket.create_connection((host, int(port)), timeout=PATIENCE_SECONDS) as connection:
            connection.sendall(PULL)
            wait_for(http, "held_pulls", 1)
            # One may be set apart, and a group more may not be made: all three are told when their time is over.
            connection.sendall(PULL + PULL.replace(b"\0\1g", b"\0\1h"))
            wait_for(http, "held_pulls", 3)
            assert (metric(http, "held_requests"), metric(http, "requests_in_flight")) == (1, 3)
            assert [received(connection) for _ in range(3)] == [NOTHING] * 3
            # Nobody waits any more, and all are silent.
            wait_for(http, "expired_consumers_total", 1)
            wait_for(http, "qmq_consumers", 0)
            process.send_signal(signal.SIGTERM)
            assert connection.recv(1) == b""
        assert process.wait(PATIENCE_SECONDS) == 0
    finally:
        process.kill()
        process.communicate()


def test_a_lease_of_nothing_is_refused(tmp_path: Path) -> None:
    told = refused(2, "serve", "--store", tmp_path / "store", "--set", "server.qmq_lease_seconds=0")
    assert "server.qmq_lease_seconds" in told
