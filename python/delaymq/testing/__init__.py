"""Tools to test programs that use delaymq without waiting: a clock to advance, ready messages, crashes.

Enter: a folder of the test, or a store. Leave: a store that opens in milliseconds, or a server over it. Read `store`
first (stores, and crashes), then `clock`, `server`, `strategies` and `plugin` (the pytest fixtures).

::

    from datetime import timedelta

    from delaymq.testing import ready


    def test_a_reminder_comes_after_thirty_days(delaymq_store, delaymq_clock):
        remind(delaymq_store, "pay the rent", timedelta(days=30))
        delaymq_clock.advance(timedelta(days=30))
        assert [message.body for message in ready(delaymq_store, "reminder")] == [b"pay the rent"]

The package provides the pytest fixtures `delaymq_store`, `delaymq_clock` and `delaymq_server`;
`delaymq.testing.strategies` has hypothesis strategies for messages.
"""

from delaymq.testing.clock import Clock
from delaymq.testing.server import Server, serve
from delaymq.testing.store import ReadyMessage, crash, last_life, open_store, open_store_async, ready

__all__ = ["Clock", "ReadyMessage", "Server", "crash", "last_life", "open_store", "open_store_async", "ready", "serve"]
