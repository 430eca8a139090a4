"""Kills a server, or a program on the engine, again and again, and has the checker judge what clients saw.

`python -m torture` with `PYTHONPATH=tests` tortures several stores at once, each by a process of its own
(`torture.store`), which writes the ledger that tests/checker reads. docs/guarantees.md says what it has found.
"""
