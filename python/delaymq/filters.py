"""Filters: the conditions of a subscription on the tags and attributes of messages.

The store judges a message before it hands the message over. A message that does not pass is finished for the group.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from delaymq._arguments.argument_errors import refused, texts_of, wrong_type

__all__ = ["AllOf", "AttributeConditions", "Filters", "Present", "StartsWith", "Tags", "all_of", "any_of", "filters_of"]

Filters: TypeAlias = tuple[list[str], bool, list[tuple[str, int, bytes]]]
"""The filters as the core takes them: tags, whether a message must have all of them, and for each attribute its name,
the number of its rule (0 present, 1 equal, 2 begins with) and the value."""

PRESENT, EQUALS, STARTS_WITH = range(3)


@dataclass(frozen=True, slots=True)
class AllOf:
    """The condition that a message has each of these tags.

    Attributes:
        tags: The tags.
    """

    tags: tuple[str, ...]


Tags: TypeAlias = Iterable[str] | AllOf
"""The condition on tags: at least one of some tags, or `AllOf` them. No tags at all pass every message."""


def any_of(*tags: str) -> tuple[str, ...]:
    """The condition that a message has at least one of these tags; a list of them means the same."""
    return tags


def all_of(*tags: str) -> AllOf:
    """The condition that a message has each of these tags."""
    return AllOf(tags)


@dataclass(frozen=True, slots=True)
class Present:
    """The condition that a message has an attribute, with any value."""


@dataclass(frozen=True, slots=True)
class StartsWith:
    """The condition that the value of an attribute begins with a text.

    Attributes:
        prefix: The text.
    """

    prefix: str


AttributeConditions: TypeAlias = Mapping[str, str | StartsWith | Present]
"""The conditions on attributes by their names: the value, how it begins, or that there is one."""


def filters_of(tags: Tags, attributes: AttributeConditions | None) -> Filters:
    """The filters of a subscription as the core takes them.

    Raises:
        WrongType: `tags` is not a collection of texts, or `attributes` not a mapping from texts to conditions.
        InvalidArgument: A text is not valid Unicode.
    """
    wanted: object = tags.tags if isinstance(tags, AllOf) else tags
    words = texts_of("tags", "a list of str", wanted)
    if attributes is not None and not isinstance(attributes, Mapping):
        raise wrong_type("attributes", "a mapping", attributes)
    rules = [(key, *_rule(key, wanted)) for key, wanted in (attributes or {}).items()]
    return words, isinstance(tags, AllOf), rules


def _rule(key: object, wanted: object) -> tuple[int, bytes]:
    if not isinstance(key, str):
        raise wrong_type("attributes", "str as names", key)
    if isinstance(wanted, Present):
        return PRESENT, b""
    number, text = (STARTS_WITH, wanted.prefix) if isinstance(wanted, StartsWith) else (EQUALS, wanted)
    if not isinstance(text, str):
        raise wrong_type("attributes", "str, StartsWith or Present as values", text)
    try:
        return number, text.encode()
    except UnicodeEncodeError:
        raise refused("attributes", "text without surrogates", text) from None
