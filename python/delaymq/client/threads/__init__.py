"""The client for threads: `delaymq.connect`.

Enter: calls from any thread. Leave: answers, or errors, within the timeout of the client.

Read `client` first, then `waiting` (how a thread waits for an answer), `subscription_state` (how a thread takes
messages) and `transport` (the thread that reads the socket and reconnects). `administration` and `pending` are
further methods of the client.
"""
