"""The adapter of delaymq in the folder of peers, for the package that this interpreter has instead of a wheel."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

from peers.delaymq_served import Delaymq


class DelaymqRows(Delaymq):  # type: ignore[misc] # the folder of peers has no types
    def popen(self, args: list[str], **options: Any) -> subprocess.Popen[bytes]:  # noqa: ANN401 - as Popen has them
        started: subprocess.Popen[bytes] = super().popen([sys.executable, "-m", "delaymq", *args[1:]], **options)
        return started

    @classmethod
    def install(cls) -> str:
        return sys.executable


PEER = DelaymqRows
