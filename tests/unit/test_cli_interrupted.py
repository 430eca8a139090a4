"""Ctrl-C outside of what a verb does."""

from __future__ import annotations

import signal

import pytest

from delaymq.cli import main
from delaymq.cli.exit_codes import Exit


def test_ctrl_c_while_the_handlers_of_signals_are_set_has_its_exit_code(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(_number: int, _handler: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(signal, "signal", interrupted)
    assert main(["config", "keys"]) == Exit.INTERRUPTED
