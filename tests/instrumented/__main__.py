"""`python -m instrumented [miri|address|thread|branches …]`: what each instrument says, or why it was not run.

An instrument that cannot be had here is reported as not run, never as passed; one that is here and sees no test run, or
does not find what is made for it, has failed. The exit code is 1 then.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable

from instrumented import branches, sanitizers
from instrumented.toolchain import BrokenError, NotHereError, Rustc, rustc, say

INSTRUMENTS: dict[str, tuple[str, Callable[[Rustc], str]]] = {
    "miri": ("Miri", sanitizers.miri),
    "address": ("AddressSanitizer", sanitizers.address),
    "thread": ("ThreadSanitizer", sanitizers.thread),
    "branches": ("branch coverage", branches.measured),
}


def run(names: list[str], compiler: Rustc) -> int:
    failed = 0
    for name in names:
        words, instrument = INSTRUMENTS[name]
        try:
            say(f"{words}: {instrument(compiler)}")
        except NotHereError as reason:
            say(f"{words}: NOT RUN: {reason}")
        except BrokenError as reason:
            say(f"{words}: FAILED: {reason}")
            failed = 1
    return failed


def main() -> int:
    parser = argparse.ArgumentParser(prog="instrumented", description=__doc__)
    parser.add_argument("names", nargs="*", choices=[*INSTRUMENTS, []], help="which; without any all")
    names = parser.parse_args().names or list(INSTRUMENTS)
    return run(names, rustc())


if __name__ == "__main__":
    raise SystemExit(main())
