"""The pages of a server on plain HTTP, as a client of them."""

from __future__ import annotations

import ipaddress
import json
import time
from collections.abc import Callable
from contextlib import suppress
from http.client import HTTPException
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.request import ProxyHandler, Request, build_opener

from delaymq.cli.failures import UsageError
from delaymq.cli.input.settings import Settings
from delaymq.errors import ProtocolError, StoreError, TimedOut, Unauthorized, Unreachable

HOST = "127.0.0.1"
PORT = 20_880
BYTES_MAX = 1 << 20
NOT_FOUND = 404
UNAUTHORIZED = (401, 403, 429)
AGAIN_SECONDS = 0.1


def http_of(settings: Settings, url: str | None) -> str:
    """Returns the URL of the pages, from the option `--http` or from the settings of the server.

    Raises:
        UsageError: The URL is refused.
    """
    if url is not None:
        if not url.startswith("http://"):
            raise UsageError(f"--http: expected a URL such as http://127.0.0.1:20880, found {url!r}")
        return url.rstrip("/")
    host = settings.get("http.host", settings.get("server.host", HOST))
    address = ipaddress.ip_address(host)
    if address.is_unspecified:
        address = ipaddress.ip_address("127.0.0.1" if address.version == 4 else "::1")  # noqa: PLR2004 - of IP
    named = f"[{address}]" if ":" in str(address) else str(address)
    return f"http://{named}:{settings.get('http.port', PORT)}"


def page(url: str, path: str, timeout: float) -> dict[str, Any]:
    """Reads a page that is an object of JSON.

    Raises:
        Unreachable: No server answers there.
        ProtocolError: The page is something else.
        StoreError: The server refuses, with its reason.
    """
    text = _asked(Request(url + path), timeout)  # noqa: S310 - `http_of` lets no other scheme pass
    try:
        found = json.loads(text)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise ProtocolError(f"{url}{path}: expected an object of JSON, found {text[:80]!r}")
    return found


def post(url: str, path: str, token: bytes, timeout: float) -> str:
    """Asks for a change, with the administrator's token. Returns the answer.

    Raises:
        Unreachable, Unauthorized: No server answers there; or the token is not the administrator's.
        StoreError: The server refuses, with its reason.
    """
    fields = {"Authorization": "Bearer " + token.decode("latin-1")}
    return _asked(Request(url + path, method="POST", data=b"", headers=fields), timeout)  # noqa: S310


def await_page(
    url: str, path: str, is_so: Callable[[dict[str, Any]], bool], seconds: float, otherwise: str
) -> dict[str, Any]:
    """Reads a page again and again until it is as demanded. A node that changes its role answers a little later.

    Raises:
        TimedOut: It is not so in time, with `otherwise` as the reason.
        ProtocolError, StoreError: As `page`.
    """
    end = time.monotonic() + seconds
    while True:
        with suppress(Unreachable):
            found = page(url, path, max(seconds, AGAIN_SECONDS))
            if is_so(found):
                return found
        if time.monotonic() >= end:
            raise TimedOut(f"{url}{path}: {otherwise} after {seconds:g} s")
        time.sleep(AGAIN_SECONDS)


def _asked(request: Request, timeout: float) -> str:
    place = request.full_url
    try:
        # A proxy of the environment is for other sites.
        with build_opener(ProxyHandler({})).open(request, timeout=timeout) as answer:
            return str(answer.read(BYTES_MAX).decode("utf-8", "replace"))
    except HTTPError as error:
        with error:
            reason = " ".join(error.read(BYTES_MAX).decode("utf-8", "replace").split())
            if error.code == NOT_FOUND:
                raise StoreError(f"{place}: the server there is no node of a group of copies") from None
            kind = Unauthorized if error.code in UNAUTHORIZED else StoreError
            raise kind(f"{place}: {reason or error.reason}") from None
    except (OSError, HTTPException, URLError) as error:
        reason = str(getattr(error, "reason", None) or error)
        raise Unreachable(f"no node answers at {place}: {reason}", reason=reason) from None
