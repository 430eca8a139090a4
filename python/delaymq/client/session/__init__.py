"""The state of a client, shared by both interfaces. It uses no socket, thread or event loop.

Enter: requests of the caller, and bytes and lost connections as a transport reports them. Leave: bytes to send, and
one answer or error for each request.

Read `session` first, then `requests` (what waits for an answer, and what a lost connection
means for it), then `subscription_state` (messages delivered and settled). `options` has what
`connect` was given; `self_connection` detects a socket that connected to itself.
"""
