"""The client for coroutines: `delaymq.connect_async`.

Enter: awaited calls of one event loop. Leave: answers, or errors, within the timeout of the client.

Read `client` first, then `connection` (futures of answers, and subscriptions on the loop). `publishing`, `pending`
and `administration` are further methods of the client; `calls` is what its subscriptions need of a store.
"""
