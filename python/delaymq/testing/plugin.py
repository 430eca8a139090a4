"""The pytest fixtures, for those who name their plugins: `pytest -p delaymq.testing.plugin`.

Where delaymq is installed pytest finds them by itself, through `pytest_delaymq`.
"""

from pytest_delaymq import delaymq_clock, delaymq_server, delaymq_store

__all__ = ["delaymq_clock", "delaymq_server", "delaymq_store"]
