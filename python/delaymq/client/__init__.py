"""delaymq over TCP: `delaymq.connect(url)` and `delaymq.connect_async(url)`.

Enter: the calls of a store. Leave: requests to a server over one connection, and the answers and errors of a store.

A client reconnects when its connection is lost. It makes its subscriptions again, and repeats the requests that are
safe to repeat; every other request in progress fails with `AmbiguousError`.

Read `session` first (the state of requests, independent of the transport), then `commands` (requests and answers), then
`threads` or `event_loop`, the two public interfaces, each with a transport of its own.
"""
