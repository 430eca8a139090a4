"""A call: the name of a function of the core, its arguments, and how a client asks a server for the same."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from enum import Enum
from functools import cache
from typing import Any, Generic, NamedTuple, TypeVar

from delaymq import _core

Result = TypeVar("Result")
Method = TypeVar("Method", bound=Callable[..., object])


class Form(Enum):
    """How a client sends the arguments of a call."""

    WHOLE = "whole"
    """In one request."""

    LISTED = "listed"
    """In as many requests as the list has parts; each answer says after which place the next part begins."""

    LIMITED = "limited"
    """As `LISTED`; the last argument is the maximum number of rows."""

    RECEIPTS = "receipts"
    """In requests of at most 10,000 receipts, for the stream of the server's store."""

    KEY = "key"
    """With an id, under which the server remembers the answer."""

    KEYS = "keys"
    """As `KEY`, in requests of at most 10,000 keys, each of them once."""


class Policy(NamedTuple):
    """How a client asks a server. It does not matter for a store in this process, which is asked once.

    Attributes:
        form: How the arguments are sent.
        reads: True if the call changes nothing: a request is sent again if its connection is lost.
        repeats: True if the same request has the same answer: it is sent again if its answer may be lost.
        is_remembered: True if a server remembers that answer for a limited time only.
    """

    form: Form = Form.WHOLE
    reads: bool = False
    repeats: bool = False
    is_remembered: bool = False


ONCE = Policy()
READS = Policy(reads=True)
LISTED = Policy(Form.LISTED, reads=True)
LIMITED = Policy(Form.LIMITED, reads=True)
REPEATS = Policy(repeats=True)
CANCELS = Policy(Form.RECEIPTS, repeats=True)
MOVES = Policy(Form.RECEIPTS, repeats=True, is_remembered=True)
LOOK_UPS = Policy(Form.RECEIPTS, reads=True)
BY_KEY = Policy(Form.KEY, is_remembered=True)
BY_KEYS = Policy(Form.KEYS, is_remembered=True)


class Call(NamedTuple, Generic[Result]):
    """One call of the core, or the requests for the same.

    Attributes:
        name: `_core.<name>(store, *arguments)` makes the call; `_core.<name>_request(*arguments)` encodes it.
        arguments: As both take them.
        result: Converts the answer.
        policy: How a client asks a server.
    """

    name: str
    arguments: tuple[Any, ...]
    result: Callable[[Any], Result]
    policy: Policy = ONCE


class Part:
    """A part of the methods of a store or a client."""

    def _run(self, call: Call[Result], /) -> Result:
        """Makes the call, and waits for its result."""
        raise NotImplementedError


class AsyncPart:
    """A part of the methods of a store or a client, for coroutines."""

    async def _run(self, call: Call[Result], /) -> Result:
        """Makes the call, and waits for its result."""
        raise NotImplementedError


def answered(store: _core.Store, call: Call[Result]) -> Result:
    """The result of a call to a store in this process."""
    return call.result(getattr(_core, call.name)(store, *call.arguments))


def unchanged(answer: Any) -> Any:  # noqa: ANN401 - whatever the core answers
    """The answer itself."""
    return answer


def with_options_of(source: Callable[..., object]) -> Callable[[Method], Method]:
    """Shows the arguments that a method has as `**options` by their names, for `help`, editors and the documents.

    Args:
        source: The function, or the dataclass, that has the options as keyword arguments, with their defaults.
    """

    def shown(method: Method) -> Method:
        own = inspect.signature(method)
        *others, _ = own.parameters.values()
        options = [option for option in _options_of(source) if option.name not in own.parameters]
        method.__signature__ = own.replace(parameters=[*others, *options])  # type: ignore[attr-defined]
        return method

    return shown


@cache
def _options_of(source: Callable[..., object]) -> tuple[inspect.Parameter, ...]:
    """The arguments as keywords. Four classes and two protocols show those of one source when they are imported."""
    return tuple(
        option.replace(kind=inspect.Parameter.KEYWORD_ONLY)
        for option in inspect.signature(source).parameters.values()
        if option.kind is not inspect.Parameter.POSITIONAL_ONLY
    )
