"""A user's program under mypy --strict: what is right passes, and each slip is found on its line."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

RIGHT = """
    from __future__ import annotations

    import asyncio
    from datetime import UTC, datetime, timedelta

    import delaymq
    from delaymq import AsyncDelayQueue, DelayQueue, Message, Outcome, Publish, Receipt, backoff


    def remind(queue: DelayQueue, who: str) -> str:
        receipt: Receipt = queue.publish("remind", who.encode(), delay=timedelta(days=30), tags=("mail",))
        queue.publish_many([Publish("remind", b"1", at=datetime.now(UTC)), Publish("remind", b"2", level=3)])
        return str(receipt)


    def handle(message: Message) -> None:
        body: bytes = message.body
        if not body:
            message.dead_letter("empty")


    def main() -> None:
        with delaymq.open("./data", durability="os") as store:
            text = remind(store, "ada")
            outcome = store.cancel(Receipt.parse(text))
            assert outcome is Outcome.DONE
            with store.subscribe("remind", group="mailer", in_flight_max=100) as messages:
                for batch in messages.batches(100, wait=1):
                    messages.ack(batch)
                one = messages.get(timeout=1)
                if one is not None:
                    one.nack(backoff(first=5)(one.attempt))
                for message in messages:
                    with message:
                        handle(message)


    async def waiting(queue: AsyncDelayQueue) -> None:
        await queue.publish("remind", b"later", delay=1.5)


    async def other() -> None:
        async with delaymq.open_async("./data") as store, store.subscribe("remind", group="mailer") as messages:
            await waiting(store)
            async for message in messages:
                async with message:
                    print(message.body.decode(), message.lateness.total_seconds())


    def elsewhere(url: str) -> None:
        with delaymq.connect(url, token="secret", timeout=timedelta(seconds=5), retry_ambiguous=True) as client:
            text = remind(client, "ada")
            try:
                client.cancel(Receipt.parse(text))
            except delaymq.AmbiguousError as error:
                print(error.reason)
            with client.subscribe("remind", group="mailer") as messages:
                for message in messages:
                    with message:
                        handle(message)


    async def elsewhere_on_a_loop(url: str) -> None:
        async with delaymq.connect_async(url) as client, client.subscribe("remind", group="mailer") as messages:
            await waiting(client)
            async for message in messages:
                async with message:
                    print(message.body.decode())


    if __name__ == "__main__":
        main()
        asyncio.run(other())
"""

WRONG = """
    import delaymq

    with delaymq.connect("delaymq://a", retry_ambiguous="yes") as client:  # retry_ambiguous
        client.checkpoint()  # it has no folder
    with delaymq.open("./data", durability="ram") as store:  # durability
        store.publish("a", "text")  # body
        store.publish("a", b"", delay="30m")  # delay
        with store.subscribe("a") as messages:  # group
            messages.get(1).ack()  # it may be None
            for message in messages:
                message.body.encode()  # it is bytes
                message.body = b""  # it is not to be changed
"""


def judged(program: str, folder: Path) -> subprocess.CompletedProcess[str]:
    (folder / "program.py").write_text(textwrap.dedent(program))
    whole = [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", "--config-file", "", "program.py"]
    return subprocess.run(whole, capture_output=True, text=True, timeout=110, check=False, cwd=folder)


def test_a_program_of_a_user_is_typed(tmp_path: Path) -> None:
    ended = judged(RIGHT, tmp_path)
    assert ended.returncode == 0, ended.stdout + ended.stderr


def test_each_slip_is_found_on_its_line(tmp_path: Path) -> None:
    ended = judged(WRONG, tmp_path)
    assert ended.returncode == 1, ended.stdout + ended.stderr
    found = {int(line.split(":")[1]) for line in ended.stdout.splitlines() if ": error: " in line}
    said = {number for number, line in enumerate(textwrap.dedent(WRONG).splitlines(), 1) if "  # " in line}
    assert found == said, ended.stdout
