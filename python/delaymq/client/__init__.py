"""delaymq over TCP: `delaymq.connect(url)` and `delaymq.connect_async(url)`.

A client has the face of a store. One connection carries all that it asks and is asked; where it is lost
another is made, subscriptions are made again, and what was under way is asked again where that does no
harm, or else fails with `AmbiguousError`.

The path of a call: `sync` and `asyncio_client` encode it, `session` knows what is under way and what a
lost connection means for it, `intake` and its two sides hold what was delivered and settled, and
`socket_thread` and `loop_transport` move bytes.
"""
