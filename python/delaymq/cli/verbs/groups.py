"""`delaymq groups`: lists, starts, resets and removes groups, and ends their consumers."""

from __future__ import annotations

import argparse
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from delaymq.administration import Group
from delaymq.cli.exit_codes import Exit
from delaymq.cli.input.arguments import CommandParser, Verbs, add_verb
from delaymq.cli.input.starts import add_start, said
from delaymq.cli.input.stores import add_place, folder_of, is_served, open_queue, server_of, settings_of
from delaymq.cli.output.terminal import message_words, print_list
from delaymq.errors import InvalidArgument
from delaymq.inspection import InspectedGroup, inspect

if TYPE_CHECKING:
    from delaymq.client.threads.client import Client

EXAMPLES = (
    "delaymq groups list --store ./data",
    "delaymq groups list --json --server delaymq://127.0.0.1:20801",
    "delaymq groups start order.timeout billing --start latest --store ./data",
    "delaymq groups reset order.timeout billing --start earliest --store ./data",
    "delaymq groups remove order.timeout billing --store ./data",
    "delaymq groups end-consumer order.timeout billing host-7@@0a1b --store ./data",
)


def add_to(verbs: Verbs) -> None:
    """Adds the verb to the command line."""
    verb = add_verb(
        verbs, "groups", None, summary="list, start, reset and remove groups; end consumers", examples=EXAMPLES
    )
    parts = verb.add_subparsers(dest="part", required=True, metavar="PART", parser_class=CommandParser)
    listing = add_verb(
        parts,
        "list",
        run_list,
        summary="list the groups and their progress",
        details="Takes no lock, so another process may have the folder open.",
        examples=EXAMPLES[:2],
    )
    listing.add_argument("--subject", metavar="SUBJECT", help="only this subject")
    listing.add_argument("--json", action="store_true", help="one JSON object a line")
    add_place(listing)
    start = add_verb(parts, "start", run_start, summary="create a group without consuming", examples=EXAMPLES[2:3])
    _add_names(start)
    add_start(start, "where it begins (default unfinished)")
    reset = add_verb(
        parts,
        "reset",
        run_reset,
        summary="let a group begin again",
        details="Its retries and its dead letters stay. Refused while the group has consumers. `earliest` reads again "
        "all messages that are kept, even if every group has finished them.",
        examples=EXAMPLES[3:4],
    )
    _add_names(reset)
    add_start(reset, "where the group begins again", required=True)
    remove = add_verb(
        parts,
        "remove",
        run_remove,
        summary="remove a group, with its retries and its dead letters",
        details="Refused while the group has consumers.",
        examples=EXAMPLES[4:5],
    )
    _add_names(remove)
    end = add_verb(
        parts,
        "end-consumer",
        run_end_consumer,
        summary="end a consumer that a QMQ client named and that does not come back",
        details="Its messages in flight go to the group's retry subject, as when its lease ends.",
        examples=EXAMPLES[5:],
    )
    _add_names(end)
    end.add_argument("consumer", metavar="CONSUMER", help="name of the consumer, as in `groups list --json`")


def _add_names(verb: CommandParser) -> None:
    verb.add_argument("subject", metavar="SUBJECT", help="subject of the group")
    verb.add_argument("group", metavar="GROUP", help="name of the group")
    add_place(verb)


def run_list(chosen: argparse.Namespace) -> int:
    """Lists the groups of users' subjects."""
    groups = [group for group in _listed(chosen) if chosen.subject in (None, group["subject"])]
    heads = ("group", "subject", "lag", "in flight", "consumers", "dead letters", "cursor")
    row = itemgetter("name", "subject", "lag", "in_flight", "consumer_count", "dead_letters", "cursor")
    print_list(groups, dict, heads, row, as_json=chosen.json, nothing="no groups")
    return Exit.DONE


def _listed(chosen: argparse.Namespace) -> list[dict[str, Any]]:
    """Returns the fields of each group, by subject."""
    settings = settings_of(chosen)
    if is_served(chosen, settings):
        with server_of(chosen, settings) as server:
            groups = server.groups()
            # Only JSON lists the consumers, and each group costs a request.
            return [_row(one, one.consumers, _consumers_of(one, server) if chosen.json else ()) for one in groups]
    found = [group for group in inspect(folder_of(chosen, settings)).groups if not group.subject.startswith("%")]
    found.sort(key=lambda group: (group.subject, group.name))
    return [_row(group, len(group.consumers), group.consumers) for group in found]


def _consumers_of(group: Group, server: Client) -> tuple[tuple[str, int], ...]:
    """Returns the consumers with their messages in flight, as `inspect` has them; none if the group has ended."""
    if group.consumers == 0:
        return ()
    try:
        found = server.consumers(group.subject, group.name)
    except InvalidArgument:
        return ()
    return tuple((one.name, one.in_flight) for one in found if one.subject == group.subject)


def _row(group: Group | InspectedGroup, count: int, consumers: tuple[tuple[str, int], ...]) -> dict[str, Any]:
    names = ("subject", "name", "cursor", "next_number", "lag", "in_flight", "start", "dead_letters")
    known = {name: getattr(group, name) for name in names}
    return {**known, "consumer_count": count, "consumers": consumers}


def run_start(chosen: argparse.Namespace) -> int:
    """Creates a group."""
    with open_queue(chosen) as store:
        store.start_group(chosen.subject, chosen.group, chosen.start)
    print(f"group {chosen.group} of {chosen.subject} begins {said(chosen.start)}")
    return Exit.DONE


def run_reset(chosen: argparse.Namespace) -> int:
    """Resets a group."""
    with open_queue(chosen) as store:
        store.reset_group(chosen.subject, chosen.group, chosen.start)
    print(f"group {chosen.group} of {chosen.subject} begins again {said(chosen.start)}")
    return Exit.DONE


def run_remove(chosen: argparse.Namespace) -> int:
    """Removes a group."""
    with open_queue(chosen) as store:
        store.remove_group(chosen.subject, chosen.group)
    print(f"group {chosen.group} of {chosen.subject} is removed")
    return Exit.DONE


def run_end_consumer(chosen: argparse.Namespace) -> int:
    """Ends a consumer."""
    with open_queue(chosen) as store:
        held = store.end_consumer(chosen.subject, chosen.group, chosen.consumer)
    who = f"consumer {chosen.consumer} of group {chosen.group} of {chosen.subject}"
    print(f"{who} is ended; it held {message_words(held)}")
    return Exit.DONE
