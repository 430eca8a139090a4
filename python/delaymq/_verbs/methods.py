"""The methods that are one call each, of a store in this process or of a client."""

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
