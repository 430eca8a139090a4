"""The parts of `delaymq serve` that are outside the store.

Enter: the configuration, and events of the running server. Leave: options for the server, lines of its log, and
notifications to systemd.

Read `logs` first, then `consumer_options` (limits for QMQ clients), `cluster_options` and `node` (a copy of a group),
then `systemd`. `pages` is the other end of plain HTTP, for `delaymq cluster`.
"""
