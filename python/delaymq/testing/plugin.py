"""The pytest fixtures as an explicit plug-in: `pytest -p delaymq.testing.plugin`.

If delaymq is installed, pytest finds the fixtures by itself, through `pytest_delaymq`.
"""

from pytest_delaymq import delaymq_clock, delaymq_server, delaymq_store

__all__ = ["delaymq_clock", "delaymq_server", "delaymq_store"]
