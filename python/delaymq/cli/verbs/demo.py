"""`delaymq demo`: publishes, kills the process twice, and counts lost, early and duplicated messages."""

from __future__ import annotations

import argparse

from delaymq.cli.input.arguments import Verbs, add_verb, count, duration

MESSAGES_MIN = 10_000  # with fewer messages, too few are in flight at a kill


def add_to(verbs: Verbs) -> None:
    """Adds the verb to the command line."""
    verb = add_verb(
        verbs,
        "demo",
        run,
        summary="publish, kill the process twice, count lost, early and duplicated messages",
        details="A ledger outside the store says what must come. Ends with 1 if a promise was broken.",
        examples=(
            "delaymq demo",
            "delaymq demo --messages 20000 --within 4s --kills 3 --seed 7",
            "delaymq demo --server",
        ),
    )
    verb.add_argument(
        "--messages", type=_messages, default=200_000, metavar="N", help="number of messages (default 200,000)"
    )
    verb.add_argument("--subjects", type=count, default=50, metavar="N", help="number of subjects (default 50)")
    verb.add_argument("--within", type=duration, default="10s", metavar="TIME", help="longest delay (default 10s)")
    verb.add_argument("--kills", type=count, default=2, metavar="N", help="number of kills (default 2)")
    verb.add_argument("--seed", type=count, default=1, metavar="N", help="seed of the plan (default 1)")
    verb.add_argument(
        "--server",
        action="store_true",
        help="kill `delaymq serve` instead; other processes publish and consume over TCP, and connect again",
    )
    verb.add_argument("--store", metavar="DIR", help="a folder to keep the store in (default: a temporary one)")


def _messages(text: str) -> int:
    number = count(text)
    if number < MESSAGES_MIN:
        raise argparse.ArgumentTypeError(f"expected at least {MESSAGES_MIN:,}, found {text}")
    return number


def run(chosen: argparse.Namespace) -> int:
    """Runs the demo. Returns 1 if a promise was broken."""
    from delaymq.demo import Settings  # noqa: PLC0415 - other verbs need not load it
    from delaymq.demo import run as run_demo  # noqa: PLC0415

    settings = Settings(
        messages=chosen.messages,
        subjects=chosen.subjects,
        seconds=chosen.within.total_seconds(),
        kills=chosen.kills,
        seed=chosen.seed,
        store=chosen.store,
        served=chosen.server,
    )
    return run_demo(settings, lambda line: print(line, flush=True))
