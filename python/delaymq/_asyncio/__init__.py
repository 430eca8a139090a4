"""The store in this process, for coroutines: `delaymq.open_async`.

Enter: awaited calls on one event loop. Leave: the same answers and errors as `delaymq.Store` gives, without ever
blocking the loop. Calls that may wait run on at most two threads; messages arrive through one file descriptor.

Read `store` first, then `event_loop` (the loop that the store belongs to, and blocking calls) and `wakeups` (how the
loop waits), then `subscription` and `delivery` (how messages reach a coroutine). `publishing` and `pending`
are methods of the store; `upkeep` runs expiry, and `opening` is what a caller awaits.
"""
