"""What is pending at a server that goes on is simulated beside it."""

from __future__ import annotations

import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path

import delaymq
from delaymq.cli import main
from delaymq.simulate import simulate
from faces import Served

HOUR = timedelta(hours=1)


def test_a_store_is_simulated_while_its_server_publishes_cancels_and_takes_checkpoints(folder: Path) -> None:
    """Each copy has all that was answered before it was asked for, and the server never notices."""
    served = Served(folder, keep_finished=0)
    ends = threading.Event()
    answered = [0]

    def publish() -> None:
        with delaymq.connect(served.url) as client:
            while not ends.is_set():
                receipts = client.publish_many("kept", [b"x" * 500] * 200, HOUR)
                client.cancel_many(client.publish_many("gone", [b"y" * 500] * 200, HOUR))
                answered[0] += len(receipts)

    def freeze() -> None:
        while not ends.wait(0.05):
            served.store.checkpoint()

    threads = [threading.Thread(target=act) for act in (publish, freeze)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(6):
            before = answered[0]
            found = simulate(folder, until=datetime.now(UTC) + 2 * HOUR, rate=1_000_000)
            after = answered[0] + 200
            came = {one.subject: one.messages for one in found}
            assert before <= came.get("kept", 0) <= after
            assert came.get("gone", 0) <= 200
    finally:
        ends.set()
        for thread in threads:
            thread.join()
    assert not list((folder / "pins").iterdir())
    assert served.store.pending_counts()["kept"] == answered[0] > 0
    served.close()
    assert main(["verify", "--store", str(folder)]) == 0
    assert [path.name for path in folder.parent.iterdir()] == [folder.name]
