"""Writes docs/reference.md from the docstrings of the public face: `make reference`.

It reads the source and imports nothing, so it needs no build. What stands in which section is `SECTIONS`;
a test holds them against `__all__` of the packages, and the page against this.
"""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TypeAlias

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "reference.md"
SOURCES = ROOT / "python" / "delaymq"
COLUMNS = 130
END_OF_TEXT = "\0"
INTRODUCTION = """
What stands in `delaymq`, from its docstrings: `make reference` writes this page, and a test holds it to them.
`help(delaymq)` shows the whole face on one page. A *Duration* is a timedelta or a number of seconds, a *Start* is
`"earliest"` or `"latest"`, a *Durability* `"disk"` or `"os"`.
"""
DEFAULTS = {"NO_TAGS": "()"}
NOT_RUN = "<!-- not run: a fragment; the how-to pages have whole programs -->"

ITEM = re.compile(r"(?P<names>\\*?\w[\w, ]*):\s*(?P<text>.*)", re.DOTALL)
PARTS = {"Args:": "", "Attributes:": "", "Returns:": "Returns", "Raises:": "Raises"}

Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef
Definition: TypeAlias = ast.ClassDef | Function


@dataclass(frozen=True)
class Entry:
    """One public name.

    Attributes:
        name: As a user writes it, behind the name of the package.
        place: Where it is defined: `file.py:Class.method`; what its class inherits from follows, with commas.
        like: The twin that says what each method does, where this one only has the same again.
        is_made: Users make it themselves, so its constructor is shown.
    """

    name: str
    place: str
    like: str = ""
    is_made: bool = False


@dataclass(frozen=True)
class Section:
    """A heading, a line of words, and what stands under them."""

    title: str
    words: str
    entries: tuple[Entry, ...]


SECTIONS = (
    Section(
        "Opening",
        "",
        (
            Entry("open", "store.py:Store.open"),
            Entry("open_async", "_asyncio/store.py:AsyncStore.open"),
            Entry("connect", "client/threads/client.py:Client.connect"),
            Entry("connect_async", "client/event_loop/client.py:AsyncClient.connect"),
        ),
    ),
    Section(
        "Store",
        "",
        (
            Entry(
                "Store",
                "store.py:Store,keys.py:KeyCommands,pending.py:PendingQueries,forecast.py:ForecastQueries,recurring.py:RecurringCommands,"
                "bulk_load.py:BulkLoads,administration.py:Administration",
            ),
        ),
    ),
    Section(
        "Client",
        "A store of another process, behind a server. What its methods do, `Store` says.",
        (
            Entry(
                "Client",
                "client/threads/client.py:Client,client/commands/keys.py:ClientKeyCommands,client/threads/pending.py:ClientPendingQueries,"
                "client/commands/recurring.py:ClientRecurringCommands,client/commands/loading.py:ClientBulkLoads,"
                "client/threads/administration.py:ClientAdministration",
                "Store",
            ),
        ),
    ),
    Section(
        "Messages",
        "",
        (
            Entry("Publish", "message.py:Publish", is_made=True),
            Entry("Receipt", "_core.pyi:Receipt"),
            Entry("Receipts", "_core.pyi:Receipts"),
            Entry("Outcome", "receipt.py:Outcome"),
            Entry("Moved", "receipt.py:Moved"),
            Entry("Subscription", "subscription.py:Subscription"),
            Entry("Message", "message.py:Message,message.py:Received"),
            Entry("backoff", "retries.py:backoff"),
            Entry("stop_on_signals", "signals.py:stop_on_signals"),
        ),
    ),
    Section(
        "What a store tells",
        "",
        (
            Entry("Status", "status.py:Status"),
            Entry("Progress", "status.py:Progress"),
            Entry("LookedUp", "pending.py:LookedUp"),
            Entry("Fate", "pending.py:Fate"),
            Entry("Pending", "pending.py:Pending"),
            Entry("Forecast", "forecast.py:Forecast"),
            Entry("Slot", "forecast.py:Slot"),
            Entry("Recurring", "recurring.py:Recurring"),
            Entry("Loaded", "bulk_load.py:Loaded"),
            Entry("Group", "administration.py:Group"),
            Entry("Consumer", "administration.py:Consumer"),
            Entry("Subject", "administration.py:Subject"),
            Entry("DeadLetter", "administration.py:DeadLetter"),
            Entry("Pin", "_store/retention.py:Pin"),
            Entry("inspect", "inspection.py:inspect"),
            Entry("Inspection", "inspection.py:Inspection"),
            Entry("inspection.InspectedFile", "inspection.py:InspectedFile"),
            Entry("inspection.InspectedSubject", "inspection.py:InspectedSubject"),
            Entry("inspection.InspectedGroup", "inspection.py:InspectedGroup"),
            Entry("inspection.Holder", "inspection.py:Holder"),
            Entry("inspection.HeldSpace", "inspection.py:HeldSpace"),
        ),
    ),
    Section(
        "Tables",
        "In `delaymq.tables`; [how to read a store as tables](how-to/tables.md) shows them at work.",
        (
            Entry("snapshot", "tables/store_snapshot.py:snapshot"),
            Entry("Snapshot", "tables/store_snapshot.py:Snapshot"),
            Entry("tables.read_range", "tables/store_snapshot.py:read_range"),
            Entry("tables.columns_of", "tables/store_snapshot.py:columns_of"),
            Entry("tables.Range", "tables/rows.py:Range"),
            Entry("tables.Rows", "tables/rows.py:Rows"),
            Entry("tables.ArrowBatch", "tables/rows.py:ArrowBatch"),
            Entry("tables.Verified", "tables/rows.py:Verified"),
            Entry("tables.Damage", "tables/rows.py:Damage"),
        ),
    ),
    Section(
        "Loading",
        "In `delaymq.loading`; [how to load a table](how-to/load.md) shows them at work.",
        (
            Entry("loading.stage", "loading.py:stage"),
            Entry("loading.Stager", "loading.py:Stager"),
            Entry("loading.StagedRun", "loading.py:StagedRun"),
            Entry("loading.BadRow", "loading.py:BadRow"),
            Entry("loading.discard", "loading.py:discard"),
        ),
    ),
    Section(
        "Rebuilding",
        "In `delaymq.rebuilding`; [where a run is damaged](how-to/operate.md#a-run-is-damaged-or-gone) shows "
        "them at work.",
        (
            Entry("rebuilding.plan", "rebuilding.py:plan"),
            Entry("rebuilding.rebuild", "rebuilding.py:rebuild"),
            Entry("rebuilding.rebuild_all", "rebuilding.py:rebuild_all"),
            Entry("rebuilding.adopt", "rebuilding.py:adopt"),
            Entry("rebuilding.refuse_open", "rebuilding.py:refuse_open"),
            Entry("rebuilding.discard_pieces", "rebuilding.py:discard_pieces"),
            Entry("rebuilding.Plan", "rebuilding.py:Plan"),
            Entry("rebuilding.Piece", "rebuilding.py:Piece"),
            Entry("rebuilding.KeptWindow", "rebuilding.py:KeptWindow"),
            Entry("rebuilding.RebuiltPiece", "rebuilding.py:RebuiltPiece"),
            Entry("rebuilding.Counts", "rebuilding.py:Counts"),
            Entry("rebuilding.Example", "rebuilding.py:Example"),
            Entry("rebuilding.Adopted", "rebuilding.py:Adopted"),
        ),
    ),
    Section(
        "On asyncio",
        "The same names as in the plain face, for the coroutines of one event loop.",
        (
            Entry(
                "AsyncStore",
                "_asyncio/store.py:AsyncStore,_asyncio/keys.py:AsyncKeyCommands,_asyncio/pending.py:AsyncPendingQueries,"
                "_asyncio/recurring.py:AsyncRecurringCommands,bulk_load.py:AsyncBulkLoads,_asyncio/administration.py:AsyncAdministration",
                "Store",
            ),
            Entry("AsyncSubscription", "_asyncio/subscription.py:AsyncSubscription", "Subscription"),
            Entry("AsyncMessage", "_asyncio/message.py:AsyncMessage", "Message"),
            Entry(
                "AsyncClient",
                "client/event_loop/client.py:AsyncClient,client/commands/keys.py:AsyncClientKeyCommands,client/event_loop/pending.py:AsyncClientPendingQueries,"
                "client/commands/recurring.py:AsyncClientRecurringCommands,client/commands/loading.py:AsyncClientBulkLoads,"
                "client/event_loop/administration.py:AsyncClientAdministration",
                "Client",
            ),
        ),
    ),
    Section(
        "Protocols",
        "To write against, whatever is behind.",
        (
            Entry("DelayQueue", "protocols.py:DelayQueue", "Store"),
            Entry("AsyncDelayQueue", "protocols.py:AsyncDelayQueue", "AsyncStore"),
        ),
    ),
    Section(
        "Testing",
        "In `delaymq.testing`; [how to test](how-to/test.md) shows them at work.",
        (
            Entry("testing.Clock", "testing/clock.py:Clock", is_made=True),
            Entry("testing.open_store", "testing/store.py:open_store"),
            Entry("testing.open_store_async", "testing/store.py:open_store_async"),
            Entry("testing.ready", "testing/store.py:ready"),
            Entry("testing.ReadyMessage", "testing/store.py:ReadyMessage"),
            Entry("testing.crash", "testing/store.py:crash"),
            Entry("testing.last_life", "testing/store.py:last_life"),
            Entry("testing.serve", "testing/server.py:serve"),
            Entry("testing.Server", "testing/server.py:Server"),
            Entry("testing.strategies.subjects", "testing/strategies.py:subjects"),
            Entry("testing.strategies.bodies", "testing/strategies.py:bodies"),
            Entry("testing.strategies.delays", "testing/strategies.py:delays"),
            Entry("testing.strategies.publishes", "testing/strategies.py:publishes"),
        ),
    ),
)


@cache
def module(file: str) -> ast.Module:
    """The syntax of a source file."""
    return ast.parse((SOURCES / file).read_text("utf-8"))


def definitions_of(entry: Entry) -> list[Definition]:
    """What an entry names, and what that inherits from. Of an overloaded function, the last."""
    return [_definition(place) for place in entry.place.split(",")]


def _definition(place: str) -> Definition:
    file, _, path = place.partition(":")
    inside: ast.Module | Definition = module(file)
    for name in path.split("."):
        inside = [
            node
            for node in inside.body
            if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and node.name == name
        ][-1]
    assert not isinstance(inside, ast.Module)
    return inside


def methods_of(definitions: Iterable[Definition]) -> dict[str, list[Function]]:
    """The public methods and properties of a class, by name, each with its overloads."""
    methods: dict[str, list[Function]] = {}
    for definition in definitions:
        for node in definition.body:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and not node.name.startswith("_"):
                methods.setdefault(node.name, []).append(node)
    return methods


def is_decorated(node: Function, decorator: str) -> bool:
    """True where it stands under `@decorator`."""
    return any(isinstance(one, ast.Name) and one.id == decorator for one in node.decorator_list)


def signature(name: str, function: Function) -> str:
    """How it is called, on as many lines as it takes."""
    text = ast.unparse(function.args).replace("'", '"')
    parts = [_argument(part) for part in _split(text) if part not in ("self", "cls")]
    if parts[:1] == ["/"]:
        del parts[0]
    is_block = is_decorated(function, "contextmanager")
    begin = f"with {name}(" if is_block else f"{name}("
    end = ")" if function.returns is None or is_block else f") -> {_type(function.returns)}"
    whole = f"{begin}{', '.join(parts)}{end}"
    if len(whole) <= COLUMNS:
        return whole
    lines = "".join(f"    {part},\n" for part in parts)
    return f"{begin}\n{lines}{end}"


def _argument(text: str) -> str:
    """An argument, with the default that it has; one that is a constant's stands in the docstring."""
    named, equals, default = (part.strip() for part in text.partition("="))
    constant = default.rpartition(".")[2]
    if (constant.isidentifier() and constant.isupper()) or "_MAX" in default:
        default = DEFAULTS.get(constant, "…")
    between = " = " if ":" in named else "="
    return f"{named}{between}{default}" if equals else text


def _type(annotation: ast.expr) -> str:
    return ast.unparse(annotation).replace("'", '"').removeprefix("_core.")


def _split(arguments: str) -> list[str]:
    """The arguments, cut at the commas between them."""
    parts, depth = [""], 0
    for letter in arguments:
        depth += (letter in "([{") - (letter in ")]}")
        if letter == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
    return [part.strip() for part in parts if part.strip()]


def wrapped(text: str, first: str = "", later: str = "") -> str:
    """A paragraph, or an item of a list, in lines."""
    return textwrap.fill(
        " ".join(text.split()),
        COLUMNS,
        initial_indent=first,
        subsequent_indent=later,
        break_long_words=False,
        break_on_hyphens=False,
    )


def rendered(docstring: str) -> list[str]:
    """A docstring as blocks of Markdown."""
    found: list[str] = []
    for block in _blocks(inspect.cleandoc(docstring).splitlines()):
        if block[0] in PARTS:
            found.append(_part(block[0], textwrap.dedent("\n".join(block[1:])).strip()))
        elif block[0].startswith(" "):
            found += _fragment(textwrap.dedent("\n".join(block)).strip())
        elif block != ["::"]:
            found.append(wrapped(re.sub("::$", ":", " ".join(block))))
    return found


def _blocks(lines: list[str]) -> Iterator[list[str]]:
    """Paragraphs, indented blocks, and headings such as `Args:` with what is indented below."""
    block: list[str] = []
    is_open = False  # an indented line, and an empty one before it, go on with the block
    for line in [*lines, END_OF_TEXT]:
        goes_on = line.startswith(" ") or not line.strip() if is_open else bool(line.strip()) and line[0] != " "
        if block and (not goes_on or line in PARTS or (line == END_OF_TEXT and not is_open)):
            yield block
            block = []
        if line.strip() or block:
            block.append(line)
        if len(block) == 1:
            is_open = line in PARTS or line.startswith(" ")


def _fragment(text: str) -> list[str]:
    """An indented block: Python where it can be read as that, else a picture."""
    try:
        ast.parse(text)
    except SyntaxError:
        return [f"```text\n{text}\n```"]
    return [f"{NOT_RUN}\n```python\n{text}\n```"]


def _part(heading: str, text: str) -> str:
    """Arguments, attributes, what is returned, what is raised."""
    title = PARTS[heading]
    if heading == "Returns:":
        return wrapped(f"{title}: {text[0].lower()}{text[1:]}")
    items = re.split(r"\n(?=\S)", text)
    lines = [f"{title}:\n"] if title else []
    for item in items:
        match = ITEM.fullmatch(item)
        assert match is not None, f"no item: {item!r}"
        names = ", ".join(f"`{name.strip()}`" for name in match["names"].split(","))
        lines.append(wrapped(f"{names}: {match['text']}", "- ", "  "))
    return "\n".join(lines)


def function_blocks(name: str, functions: list[Function]) -> Iterator[str]:
    """The signatures of a function and its docstring."""
    shown = [one for one in functions if is_decorated(one, "overload")] or functions
    yield "```text\n" + "\n".join(signature(name, one) for one in shown) + "\n```"
    yield from rendered(ast.get_docstring(functions[-1]) or "")


def class_blocks(entry: Entry, definitions: list[Definition]) -> Iterator[str]:
    """A class: what it is, what it has, what it does."""
    kind = definitions[0]
    name = entry.name.rpartition(".")[2]
    methods = methods_of(definitions)
    yield from _constructor(name, kind) if entry.is_made else ()
    yield from rendered(ast.get_docstring(kind) or "")
    if entry.like:
        yield _twin(entry.like, methods)
        return
    properties = {one: own[-1] for one, own in methods.items() if is_decorated(own[-1], "property")}
    if lines := [*_values(kind), *(_property(one, own) for one, own in properties.items())]:
        yield "\n".join(lines)
    for own_name, own in methods.items():
        if own_name == "open":
            yield "`open` is [delaymq.open](#open)."
        elif own_name not in properties:
            yield f"#### {name}.{own_name}"
            yield from function_blocks(own_name, own)


def _constructor(name: str, kind: Definition) -> Iterator[str]:
    made = [one for one in kind.body if isinstance(one, ast.FunctionDef) and one.name == "__init__"]
    if made:
        made[0].returns = None
        yield from function_blocks(name, list(made))
        return
    fields = [_argument(ast.unparse(one).replace("'", '"')) for one in kind.body if isinstance(one, ast.AnnAssign)]
    lines = "".join(f"    {one},\n" for one in fields)
    yield f"```text\n{name}(\n{lines})\n```"


def _values(kind: Definition) -> Iterator[str]:
    """The members of an enumeration, with the words below each."""
    for value, below in zip(kind.body, kind.body[1:], strict=False):
        words = below.value if isinstance(below, ast.Expr) else None
        if isinstance(value, ast.Assign) and isinstance(words, ast.Constant) and isinstance(words.value, str):
            yield wrapped(f"`{ast.unparse(value.targets[0])}`: {words.value}", "- ", "  ")


def _property(name: str, function: Function) -> str:
    words = (ast.get_docstring(function) or "").partition("\n\nRaises:")[0]
    kind = "" if function.returns is None else f" ({_type(function.returns)})"
    return wrapped(f"`{name}`{kind}: {words}", "- ", "  ")


def _twin(like: str, methods: dict[str, list[Function]]) -> str:
    """Which of the twin's names are coroutines here."""
    awaited = [name for name, own in methods.items() if isinstance(own[-1], ast.AsyncFunctionDef)]
    opening = [name for name, own in methods.items() if "Opening" in ast.unparse(own[-1].returns or ast.Constant(""))]
    errors = "" if like == "Store" and not awaited else ", and WrongLoop"
    text = f"Arguments, answers and errors are those of [{like}](#{like.lower()}){errors}."
    if awaited:
        text += f" Awaited: {', '.join(f'`{name}`' for name in awaited)}."
    if opening:
        text += f" Awaited, or entered with `async with`: {', '.join(f'`{name}`' for name in opening)}."
    return wrapped(text)


def error_blocks() -> Iterator[str]:
    """The tree of errors and what each has beside its name."""
    errors = module("errors.py")
    yield from rendered(ast.get_docstring(errors) or "")
    for node in errors.body:
        if isinstance(node, ast.ClassDef):
            first, *more = rendered(ast.get_docstring(node) or "")
            yield f"### {node.name}"
            yield from (first, *more)


def page() -> str:
    """The whole page."""
    blocks = ["# Reference", wrapped(INTRODUCTION)]
    blocks.append("\n".join(_contents(section) for section in (*SECTIONS, Section("Errors", "", ()))))
    for section in SECTIONS:
        blocks.append(f"## {section.title}")
        blocks += [section.words] if section.words else []
        for entry in section.entries:
            blocks += [] if entry.name == section.title else [f"### {entry.name}"]
            blocks += entry_blocks(entry)
    blocks += ["## Errors", *error_blocks()]
    return "\n\n".join(blocks) + "\n"


def entry_blocks(entry: Entry) -> Iterator[str]:
    """What stands below the heading of an entry."""
    definitions = definitions_of(entry)
    first = definitions[0]
    if isinstance(first, ast.ClassDef):
        return class_blocks(entry, definitions)
    return function_blocks(entry.name.rpartition(".")[2], [first])


def _contents(section: Section) -> str:
    names = ", ".join(f"`{entry.name}`" for entry in section.entries)
    link = f"[{section.title}](#{section.title.lower().replace(' ', '-')})"
    return wrapped(f"{link}: {names}" if names else link, "- ", "  ")


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")
