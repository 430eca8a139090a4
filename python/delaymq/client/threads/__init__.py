"""The client for threads: `delaymq.connect`.

Enter: calls from any thread. Leave: answers, or errors, within the timeout of the client.

Read `client` first; `publishing`, `pending` and `administration` are further methods of it. A thread waits in the core,
which releases the interpreter.
"""
