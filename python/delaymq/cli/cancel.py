"""`delaymq cancel`: take messages back by their receipts."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from typing import TYPE_CHECKING

from delaymq.cli.arguments import add_verb
from delaymq.cli.exit_codes import Exit
from delaymq.cli.failures import UsageError
from delaymq.cli.opening import add_place, open_queue, settings_of
from delaymq.cli.streams import standard_input
from delaymq.errors import InvalidArgument
from delaymq.receipt import Outcome, Receipt

if TYPE_CHECKING:
    from delaymq.cli.arguments import Verbs

__all__ = ["add_to", "run"]

BATCH_RECEIPTS = 10_000

EXAMPLES = (
    'delaymq cancel "$(cat receipt)" --store ./data',
    "delaymq cancel - --json --server delaymq://127.0.0.1:20801 <receipts",
)


def add_to(verbs: Verbs) -> None:
    """Adds the verb to the command line."""
    verb = add_verb(
        verbs,
        "cancel",
        run,
        summary="take messages back by their receipts, if they are still pending",
        details="Prints what was found of each: done, already_dispatched or not_found.",
        examples=EXAMPLES,
    )
    verb.add_argument("receipts", nargs="+", metavar="RECEIPT", help="what publish printed; - reads standard input")
    verb.add_argument("--json", action="store_true", help="one JSON object a line")
    add_place(verb)


def run(chosen: argparse.Namespace) -> int:
    """Cancels; none where one of the receipts cannot be read."""
    settings = settings_of(chosen)
    texts = list(_texts(chosen.receipts))
    receipts = [_parsed(text, place) for text, place in texts]
    code = Exit.DONE
    with open_queue(chosen, settings) as store:
        for start in range(0, len(receipts), BATCH_RECEIPTS):
            part = slice(start, start + BATCH_RECEIPTS)
            for (text, _), outcome in zip(texts[part], store.cancel_many(receipts[part]), strict=True):
                if outcome is not Outcome.DONE:
                    code = Exit.PART
                said = {"receipt": text, "outcome": outcome.value}
                print(json.dumps(said) if chosen.json else f"{outcome.value}  {text}")
    return code


def _texts(arguments: list[str]) -> Iterator[tuple[str, str]]:
    """Each receipt's text and where it stands."""
    for place, argument in enumerate(arguments, 1):
        if argument != "-":
            yield argument, f"receipt {place}"
            continue
        for number, line in enumerate(standard_input("RECEIPT"), 1):
            if text := line.decode(errors="backslashreplace").strip():
                yield text, f"line {number}"


def _parsed(text: str, place: str) -> Receipt:
    try:
        return Receipt.parse(text)
    except InvalidArgument as error:
        raise UsageError(f"{place}: {error}") from error
