"""One face in two twins: names, signatures, protocols, one page of words, and what an import costs."""

from __future__ import annotations

import dataclasses
import inspect
import pydoc
import re
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

import delaymq
from commanding import uncounted
from delaymq import (
    AsyncClient,
    AsyncDelayQueue,
    AsyncMessage,
    AsyncStore,
    AsyncSubscription,
    Client,
    DelayQueue,
    Message,
    Publish,
    Store,
    Subscription,
    errors,
)
from delaymq._arguments import subjects
from delaymq._store import recovery
from delaymq._verbs import recurring, storing
from delaymq.client import options as client_options
from delaymq.message import PublishOptions
from delaymq.protocols import AsyncConsumer, Consumer

TWINS = [(Store, AsyncStore), (Subscription, AsyncSubscription), (Message, AsyncMessage), (Client, AsyncClient)]
# What a store has of its folder, a client has not; and it is connected where a store is opened.
OF_A_FOLDER = {"open", "path", "checkpoint", "pin"}
OF_A_CONNECTION = {"connect", "url"}
# The methods of the asyncio twins that do not wait; every other one is a coroutine.
NOT_WAITING = {
    "open",
    "connect",
    "subscribe",
    "pending",
    "batches",
    "ack",
    "nack",
    "dead_letter",
    "extend",
    "stop",
}
PAGE_LINES, PAGE_COLUMNS = 60, 100


def satisfied(store: Store, twin: AsyncStore) -> tuple[DelayQueue, AsyncDelayQueue]:
    """mypy checks that the stores satisfy the protocols."""
    return store, twin


def connected(client: Client, twin: AsyncClient) -> tuple[DelayQueue, AsyncDelayQueue]:
    """As `satisfied`, for clients."""
    return client, twin


def consumers(plain: Subscription, twin: AsyncSubscription) -> tuple[Consumer, AsyncConsumer]:
    """As `satisfied`, for subscriptions."""
    return plain, twin


def names(kind: type) -> set[str]:
    return {name for name in dir(kind) if not name.startswith("_")}


def shape(function: Callable[..., Any]) -> list[tuple[object, ...]]:
    """Names, kinds, defaults and annotations; an annotation says AsyncMessage where the other twin says Message."""
    parameters = inspect.signature(function).parameters.values()
    return [(one.name, one.kind, one.default, str(one.annotation).replace("Async", "")) for one in parameters]


def method(kind: type, name: str) -> Callable[..., Any]:
    found: Callable[..., Any] = getattr(kind, name)
    return found


def test_the_public_face_is_sorted_and_whole() -> None:
    assert delaymq.__all__ == sorted(delaymq.__all__)
    assert all(hasattr(delaymq, name) for name in delaymq.__all__)
    assert set(errors.__all__) <= set(delaymq.__all__)
    assert set(delaymq.__all__) <= set(dir(delaymq))
    with pytest.raises(AttributeError, match="no attribute 'opne'"):
        delaymq.opne  # noqa: B018


def test_open_is_the_stores() -> None:
    assert delaymq.open.__func__ is Store.open.__func__  # type: ignore[attr-defined]
    assert delaymq.open_async.__func__ is AsyncStore.open.__func__  # type: ignore[attr-defined]
    assert delaymq.connect.__func__ is Client.connect.__func__  # type: ignore[attr-defined]
    assert delaymq.connect_async.__func__ is AsyncClient.connect.__func__  # type: ignore[attr-defined]


@pytest.mark.parametrize(("store", "client"), [(Store, Client), (AsyncStore, AsyncClient)])
def test_a_client_has_the_face_of_a_store(store: type, client: type) -> None:
    shared = names(store) - OF_A_FOLDER
    assert names(client) - OF_A_CONNECTION == shared
    compared = 0
    for name in shared:
        if callable(getattr(store, name)):
            compared += 1
            assert shape(method(store, name)) == shape(method(client, name)), name
    assert compared >= 10


@pytest.mark.parametrize(
    ("options", "source"),
    [
        (PublishOptions, Publish),
        (storing.ColumnOptions, storing.publish_many),
        (recurring.RecurOptions, recurring.recur),
        (recovery.OpenArguments, recovery.OpenOptions.made),
        (subjects.SubscribeOptions, subjects.subscribed),
        (client_options.ConnectArguments, client_options.ClientOptions.made),
    ],
)
def test_the_options_have_the_names_and_types_of_their_source(options: type, source: Callable[..., Any]) -> None:
    taken = inspect.signature(source).parameters.values()
    optional = [one for one in taken if one.default is not one.empty or one.kind is one.KEYWORD_ONLY]
    expected = [
        (one.name, f"Required[{one.annotation}]" if one.default is one.empty else one.annotation) for one in optional
    ]
    assert [(name, one.__forward_arg__) for name, one in options.__annotations__.items()] == expected
    assert len(expected) >= 4


@pytest.mark.parametrize("kind", [Store, AsyncStore, Client, AsyncClient, DelayQueue, AsyncDelayQueue])
def test_the_signatures_name_each_option(kind: type) -> None:
    fields = dataclasses.fields(Publish)
    shown = list(inspect.signature(method(kind, "publish")).parameters.values())[1:]
    assert [(one.name, str(one.annotation)) for one in shown] == [(one.name, one.type) for one in fields]
    assert [one.default for one in shown[2:]] == [one.default for one in fields[2:]]
    assert {one.kind for one in shown[2:]} == {inspect.Parameter.KEYWORD_ONLY}
    words = inspect.getdoc(Store.publish) or ""
    assert [one.name for one in shown if f"\n    {one.name}: " not in words] == []
    recur = inspect.signature(method(kind, "recur")).parameters
    assert recur["name"].default is inspect.Parameter.empty
    assert (recur["zone"].default, recur["zone"].kind) == ("UTC", inspect.Parameter.KEYWORD_ONLY)


@pytest.mark.parametrize(("plain", "twin"), TWINS)
def test_the_twins_have_the_same_names(plain: type, twin: type) -> None:
    assert names(plain) == names(twin)


@pytest.mark.parametrize(("plain", "twin"), TWINS)
def test_the_twins_have_the_same_signatures(plain: type, twin: type) -> None:
    compared = 0
    for name in names(plain):
        ours, theirs = inspect.getattr_static(plain, name), inspect.getattr_static(twin, name)
        assert type(ours) is type(theirs), name
        if not callable(getattr(plain, name)):
            continue
        compared += 1
        assert shape(method(plain, name)) == shape(method(twin, name)), name
        assert inspect.iscoroutinefunction(method(twin, name)) == (name not in NOT_WAITING), name
    assert compared >= 2


@pytest.mark.parametrize(
    ("protocol", "kind"),
    [
        (DelayQueue, Store),
        (AsyncDelayQueue, AsyncStore),
        (DelayQueue, Client),
        (AsyncDelayQueue, AsyncClient),
        (Consumer, Subscription),
        (AsyncConsumer, AsyncSubscription),
    ],
)
def test_the_protocols_are_what_the_stores_have(protocol: type, kind: type) -> None:
    for name, declared in vars(protocol).items():
        if name.startswith("_") and name not in ("__enter__", "__aenter__", "__iter__", "__aiter__"):
            continue
        assert hasattr(kind, name), name
        if callable(declared) and name not in ("publish_many", "__iter__", "__aiter__"):
            assert shape(declared) == shape(method(kind, name)), name


def test_the_whole_face_is_on_one_page_of_help() -> None:
    page = inspect.getdoc(delaymq) or ""
    lines = page.splitlines()
    assert len(lines) <= PAGE_LINES
    assert max(map(len, lines)) <= PAGE_COLUMNS
    missing = [name for name in delaymq.__all__ if name not in page and name not in errors.__all__]
    assert missing == ["__version__"]
    for kind in (Store, Subscription, Message):
        assert [name for name in names(kind) if name not in page] == [], kind


def test_help_shows_that_page_first() -> None:
    shown = [line.strip() for line in pydoc.plain(pydoc.render_doc(delaymq)).splitlines()]
    first, *page = (line.strip() for line in (inspect.getdoc(delaymq) or "").splitlines())
    assert f"delaymq - {first}" in shown[:5]
    start = shown.index("DESCRIPTION") + 1
    assert start < 10
    assert shown[start : start + len(page) - 1] == page[1:]


def test_no_call_on_the_page_is_made_up() -> None:
    called = set(re.findall(r"\b([a-z]\w*)\(", inspect.getdoc(delaymq) or "")) - {"print", "help"}
    assert len(called) > 20
    known = {name for kind in (delaymq, Store, Subscription, Message) for name in dir(kind)}
    assert called <= known


def modules_brought_by(name: str) -> set[str]:
    """The modules that an import brings into a process that has nothing."""
    code = f"import sys; before = set(sys.modules); import {name}; print(*set(sys.modules) - before)"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=uncounted())
    return set(ended.stdout.split())


def brought_by(name: str) -> set[str]:
    """The packages of these modules."""
    return {module.split(".")[0] for module in modules_brought_by(name)}


def test_an_import_brings_nothing_that_is_not_needed() -> None:
    brought = brought_by("delaymq")
    assert brought - {"delaymq"} <= set(sys.stdlib_module_names)
    assert not brought & {"asyncio", "concurrent", "argparse", "socket", "ssl", "subprocess", "json", "signal"}
    assert not brought_by("delaymq.client.threads.client") & {"asyncio", "concurrent", "argparse", "ssl", "subprocess"}


MODULES_SHARE_MAX = 0.80
"""Modules that an import may load, as a share of those of asyncio. A time would depend on what else runs."""


def test_an_import_is_quick() -> None:
    assert len(modules_brought_by("delaymq")) <= MODULES_SHARE_MAX * len(modules_brought_by("asyncio"))
