"""The requests that a client makes of a public call, and the answers that it makes of the server's.

Enter: the arguments of a method. Leave: requests of at most 10,000 messages each, and results or errors as
`delaymq.Store` gives them.

Read `publishing` first, then `batches` (how a call for many messages is divided), then `keys`, `recurring` and
`loading`, which hold the methods of both clients for these commands. `calls` has the bases of the classes with methods.
"""
