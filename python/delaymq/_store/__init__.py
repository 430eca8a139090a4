"""The parts of an open store outside the Rust core, for `delaymq.Store` and `delaymq.AsyncStore`.

Enter: the checked options of `open`. Leave: an open store of the Rust core, its reports in `logging`, and its
retention applied, until `close` stops everything in order.

Read `lifecycle` first (the order of start and stop), then `recovery` (options, opening, errors that name the
folder), `retention` (expiry and pins), and `reports` (what the core reports). `publishing` has the
methods of `Store` that publish; most others are those of `delaymq._verbs`.
"""
