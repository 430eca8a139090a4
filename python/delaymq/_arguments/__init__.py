"""Checks of what a caller passes, shared by the store, the asyncio store and both clients.

Enter: the arguments of a public method. Leave: tuples and whole milliseconds, as one call into the Rust core takes
them, or `WrongType`, `InvalidArgument` or `TooLarge`, which name the argument. Nothing here does I/O.

Read `argument_errors` first (how an error names an argument), then `batches` (lists of messages and of receipts),
then `publishes` and `columns` (options of publishes, for the core), then `server_options` (how a server starts).
"""
