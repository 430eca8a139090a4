"""Judges what a harness wrote down about a server that it killed or cut off: what was lost, early, corrupt, doubled.

A process of its own: `python -m checker LEDGER…` with `PYTHONPATH=tests`. It imports the standard library alone, knows
nothing of delaymq, reads no file of a store, and shares no code with those who write ledgers. README.md has the format.
"""
