"""delaymq over TCP: `delaymq.connect(url)` and `delaymq.connect_async(url)`.

Enter: the calls of a store. Leave: requests to a server over one connection, and the answers and errors of a store.

A client reconnects when its connection is lost. It makes its subscriptions again, and repeats the requests that are
safe to repeat; every other request in progress fails with `AmbiguousError`.

The connection itself is Rust (`rust/client`): sockets, reconnecting, requests under way and messages that have arrived.
Read `options` first, then `commands` (requests and answers), then `threads` or `event_loop`, the two public interfaces.
"""
