"""`python -m fuzzing`: every target of `rust/fuzz` for its share of the minutes.

Mutations of the corpus that chance makes run everywhere. libFuzzer, which follows what an input reaches, runs where it
can be built, and must find a fault that is planted first; where it cannot, that is said, and is no pass. Exits with 1
where a promise was broken; the input is shown as a file of the corpus.
"""

from __future__ import annotations

import argparse
import random
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from fuzzing.guided import BUILT, PLANTED, BlindError, Ended, NotRunError, built, guided, prove

CHANCE_PART = 4  # of the time one part in so many is for what chance makes
SECONDS_MIN = 2


def say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def told(program: Path, *arguments: str) -> str:
    return subprocess.run([str(program), *arguments], capture_output=True, text=True, check=True).stdout


def by_chance(program: Path, seconds: int, seed: int, target: str | None) -> bool:
    chosen = ["--target", target] if target else []
    command = [str(program), "run", "--seconds", str(seconds), "--seed", str(seed), *chosen]
    return subprocess.run(command, check=False).returncode == 0


def by_coverage(fuzzer: Path, chosen: argparse.Namespace, targets: Sequence[str], seconds: int, seed: int) -> bool:
    """False where something was found.

    Raises:
        NotRunError: A target tried nothing, and none found anything.
        BlindError: It does not find what is planted.
    """
    program, at_once = chosen.program, chosen.at_once
    corpus, found = BUILT / "corpus", BUILT / "found"
    told(program, "export", str(corpus))
    proof = prove(fuzzer, BUILT / "proof", seed=seed)
    say(f"{PLANTED[1]}, planted, is found by {proof.executions:,} inputs from none")
    share = max(SECONDS_MIN, seconds * at_once // len(targets))

    def one(target: str) -> tuple[str, Ended | NotRunError]:
        try:
            return target, guided(fuzzer, target, corpus, found / target, seconds=share, seed=seed)
        except NotRunError as error:
            return target, error

    executions, sound, not_run = 0, True, None
    with ThreadPoolExecutor(at_once) as pool:
        for target, ended in pool.map(one, targets):
            if isinstance(ended, NotRunError):
                # What the others find is told all the same.
                not_run = ended
                continue
            executions += ended.executions
            say(f"{target:24} {ended.executions:12,} inputs, {ended.covered:6,} edges")
            if ended.finding is not None:
                sound = False
                panicked = [line for line in ended.said.splitlines() if "panicked" in line or "ERROR:" in line]
                say(f"{target}: FOUND {ended.finding}: {' '.join(panicked[:2])}")
                shown = [str(program), "show", target, str(ended.finding)]
                subprocess.run(shown, check=False)
    say(f"libFuzzer: {executions:,} inputs of {len(targets)} targets, {'nothing' if sound else 'something'} found")
    if sound and not_run is not None:
        raise not_run
    return sound


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", type=Path, required=True, help="delaymq-fuzz")
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--seed", type=int, default=None, help="another one each time by default")
    parser.add_argument("--target", help="only this one")
    parser.add_argument("--address", action="store_true", help="libFuzzer with AddressSanitizer, which is slower")
    parser.add_argument("--at-once", type=int, default=2)
    chosen = parser.parse_args(arguments)
    seed = random.SystemRandom().randrange(1, 2**31) if chosen.seed is None else chosen.seed
    seconds = max(SECONDS_MIN, round(chosen.minutes * 60))
    say(f"seed {seed}")
    targets = [chosen.target] if chosen.target else told(chosen.program, "targets").split()
    try:
        fuzzer = built(with_addresses=chosen.address)
    except NotRunError as error:
        say(f"libFuzzer: NOT RUN: {error}")
        return 0 if by_chance(chosen.program, seconds, seed, chosen.target) else 1
    if not by_chance(chosen.program, max(SECONDS_MIN, seconds // CHANCE_PART), seed, chosen.target):
        return 1
    try:
        sound = by_coverage(fuzzer, chosen, targets, seconds - seconds // CHANCE_PART, seed)
    except NotRunError as error:
        say(f"libFuzzer: NOT RUN: {error}")
        return 2
    except BlindError as error:
        say(f"libFuzzer: BLIND: {error}")
        return 2
    return 0 if sound else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
