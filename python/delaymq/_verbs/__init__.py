"""Every verb of a store once: its checks, the call that it makes, what becomes of the answer, and its two methods.

Enter: the arguments of a public method. Leave: a `Call`, or the error for the argument that is refused; and later, from
the answer of the core, the result of the method.

`calls` says what a call is, and which methods run one. The other modules have the verbs by subject. A verb is a
function with the name of the method, and a method of two classes: threads wait for the call in the one, coroutines
await it in the other. `Methods` and `AsyncMethods` put these classes together. A store in this process and a client
inherit the same methods, and carry their calls in two ways: `answered` in `calls`, and `delaymq.client.commands`.
"""

from __future__ import annotations

from delaymq._verbs.administration import Administration, AsyncAdministration
from delaymq._verbs.key_commands import AsyncKeyCommands, KeyCommands
from delaymq._verbs.pending import AsyncPendingQueries, PendingQueries
from delaymq._verbs.receipt_commands import AsyncReceiptCommands, ReceiptCommands
from delaymq._verbs.recurring import AsyncSeries, Series
from delaymq._verbs.storing import AsyncLoads, Loads


class Methods(
    ReceiptCommands,
    KeyCommands,
    PendingQueries,
    Series,
    Loads,
    Administration,
):
    """The methods of `Store` and `Client`."""


class AsyncMethods(
    AsyncReceiptCommands,
    AsyncKeyCommands,
    AsyncPendingQueries,
    AsyncSeries,
    AsyncLoads,
    AsyncAdministration,
):
    """The methods of `AsyncStore` and `AsyncClient`."""
