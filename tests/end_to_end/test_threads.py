"""How many threads of the system an event loop costs beyond what a plain store has; those of the core count too."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from commanding import uncounted

MANY = 10_000
# Of so many coroutines one looks when its wait has ended: how often the loop comes to look by itself is the machine's.
EACH = 1_000
EXTRA = 2

# What many coroutines wait for at once, and what ends the waits.
CALLS = {
    "get": ("messages.get()", "await store.publish_many('a', [b''] * MANY)"),
    "publish": ("store.publish('late', b'x', delay=3600)", ""),
    "flush": ("messages.flush()", ""),
}
CODE = """
    import asyncio, os, sys, delaymq
    MANY, EACH = int(sys.argv[2]), int(sys.argv[3])

    def threads():
        return len(os.listdir("/proc/self/task"))

    async def watched(counts):
        while True:
            counts.append(threads())
            await asyncio.sleep(0.005)

    def of_plain_store():
        with delaymq.open(sys.argv[1]) as store, store.subscribe("a", group="g"):
            return threads()

    async def main():
        before = of_plain_store()
        async with delaymq.open_async(sys.argv[1], durability="disk") as store:
            async with store.subscribe("a", group="g", in_flight_max=MANY) as messages:
                counts = []

                async def waited(number):
                    await CALL
                    if number % EACH == 0:
                        counts.append(threads())

                watch = asyncio.create_task(watched(counts))
                waits = [asyncio.create_task(waited(number)) for number in range(MANY)]
                await asyncio.sleep(0.3)
                counts.append(threads())
                END
                await asyncio.gather(*waits)
                watch.cancel()
                print(before, max(counts), len(counts))

    asyncio.run(main())
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="threads are counted as Linux shows them")
@pytest.mark.parametrize("call", CALLS)
def test_ten_thousand_coroutines_cost_two_threads_at_most(call: str, tmp_path: Path) -> None:
    begin, end = CALLS[call]
    code = textwrap.dedent(CODE).replace("CALL", begin).replace("END", end)
    ended = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "store"), str(MANY), str(EACH)],
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
        env=uncounted(),
    )
    assert ended.returncode == 0, ended.stderr
    before, most, looks = map(int, ended.stdout.split())
    assert looks > MANY // EACH
    assert before <= most <= before + EXTRA
