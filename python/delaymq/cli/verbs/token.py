"""`delaymq token`: makes a token for the clients of a server, and the line for its configuration."""

from __future__ import annotations

import argparse
import hashlib
import json
import secrets

from delaymq.cli.exit_codes import Exit
from delaymq.cli.input.arguments import Verbs, add_verb

PREFIX = "dmqt_"  # secret scanners find this prefix
RANDOM_BYTES = 32


def add_to(verbs: Verbs) -> None:
    """Adds the verb to the command line."""
    verb = add_verb(
        verbs,
        "token",
        run,
        summary="make a token for a server's clients",
        details="The token is shown only once. The server's configuration has its hash, from which the "
        "token cannot be computed.",
        examples=("delaymq token", "delaymq token --admin", "delaymq token --json"),
    )
    verb.add_argument(
        "--admin", action="store_true", help="make the administrator's token, which switches consumers on and off"
    )
    verb.add_argument("--json", action="store_true", help="one JSON object")


def run(chosen: argparse.Namespace) -> int:
    """Makes a token."""
    token = PREFIX + secrets.token_urlsafe(RANDOM_BYTES)
    key = "server.admin_token_hash" if chosen.admin else "server.token_hash"
    if chosen.json:
        print(json.dumps({"token": token, "key": key, "hash": hash_of(token)}))
    else:
        print(f"token, for clients: {token}")
        print(f'for the server:     {key} = "{hash_of(token)}"')
    return Exit.DONE


def hash_of(token: str) -> str:
    """Returns the key of the configuration, and the hash."""
    return "sha256:" + hashlib.sha256(token.encode()).hexdigest()
