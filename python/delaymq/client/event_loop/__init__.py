"""The client for coroutines: `delaymq.connect_async`.

Enter: awaited calls on one event loop. Leave: answers, or errors, within the timeout of the client.

Read `client` first, then `calls` (how a coroutine waits for an answer), `subscription_state` (how a coroutine takes
messages) and `transport` (the connection, and how it reconnects). `administration` and `pending` are further methods
of the client.
"""
