"""Cancels orders that are not paid in time.

    python examples/order_timeout.py ./orders --pay-within 2

places three orders, pays one, and gives up the others two seconds later. Stop the program before that and start
it again: the unpaid orders are still given up, because their deadlines are in the store.
"""

from __future__ import annotations

import argparse
import sqlite3
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import delaymq

SUBJECT = "order.timeout"


class Shop:
    """Orders in your own database, and their deadlines in delaymq."""

    def __init__(self, database: sqlite3.Connection, deadlines: delaymq.Store, pay_within: timedelta) -> None:
        """Creates the table if it does not exist."""
        self._database = database
        self._deadlines = deadlines
        self._pay_within = pay_within
        database.execute("CREATE TABLE IF NOT EXISTS orders (number INTEGER PRIMARY KEY, state TEXT, deadline TEXT)")

    def place(self) -> int:
        """Places a new order, which is given up if it is not paid in time."""
        with self._database:
            number = self._database.execute("INSERT INTO orders (state) VALUES ('open')").lastrowid or 0
            # The deadline becomes durable before the order: a deadline without an order does no harm.
            receipt = self._deadlines.publish(SUBJECT, b"%d" % number, delay=self._pay_within)
            self._database.execute("UPDATE orders SET deadline = ? WHERE number = ?", (str(receipt), number))
        return number

    def pay(self, number: int) -> bool:
        """Pays an order. Returns False if the order was given up before."""
        if not self._move(number, "paid"):
            return False
        (deadline,) = self._database.execute("SELECT deadline FROM orders WHERE number = ?", (number,)).fetchone()
        self._deadlines.cancel(delaymq.Receipt.parse(deadline))  # if it is too late, `give_up` sees "paid"
        return True

    def give_up(self, number: int) -> bool:
        """Gives up an order. Returns False if it was paid or given up before, as when a message comes twice."""
        return self._move(number, "given up")

    def state(self, number: int) -> str:
        """Returns the state of an order."""
        (state,) = self._database.execute("SELECT state FROM orders WHERE number = ?", (number,)).fetchone()
        return str(state)

    def _move(self, number: int, state: str) -> bool:
        with self._database:
            moved = self._database.execute(
                "UPDATE orders SET state = ? WHERE number = ? AND state = 'open'", (state, number)
            )
        return moved.rowcount == 1


def give_up_what_is_due(shop: Shop, messages: delaymq.Subscription, wait: float, tell: Callable[[str], object]) -> None:
    """Gives up unpaid orders until no deadline has come for `wait` seconds."""
    while (message := messages.get(timeout=wait)) is not None:
        with message:  # acknowledged at the end; an exception gives it back
            number = int(message.body)
            if shop.give_up(number):
                tell(f"order {number} was not paid and is given up")


def main(arguments: list[str] | None = None) -> None:
    """Runs the shop once."""
    parser = argparse.ArgumentParser(description="Cancels orders that are not paid in time.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--pay-within", type=float, default=2, metavar="SECONDS")
    chosen = parser.parse_args(arguments)
    chosen.folder.mkdir(exist_ok=True)
    database = sqlite3.connect(chosen.folder / "orders.db")
    with (
        delaymq.open(chosen.folder / "deadlines") as deadlines,
        deadlines.subscribe(SUBJECT, group="shop") as messages,
        delaymq.stop_on_signals(messages),
    ):
        shop = Shop(database, deadlines, timedelta(seconds=chosen.pay_within))
        numbers = [shop.place() for _ in range(3)]
        print(f"orders {numbers} are placed; {numbers[1]} is paid")
        shop.pay(numbers[1])
        give_up_what_is_due(shop, messages, chosen.pay_within + 1, print)
    database.close()


if __name__ == "__main__":
    main()
