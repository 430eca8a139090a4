"""Opening a store: checks of the options, recovery with progress, and errors that name the folder."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Literal, NamedTuple, TypedDict

from delaymq import _core
from delaymq._arguments.argument_errors import refused, wrong_type
from delaymq._store.retention import RetentionPolicy
from delaymq.durations import Duration, delay_ms
from delaymq.errors import Locked, StoreError
from delaymq.status import Progress

if TYPE_CHECKING:
    from delaymq.testing import Clock

Durability = Literal["disk", "os"]
"""When a call is answered: once the disk has the data, or once the operating system has it."""

SEGMENT_BYTES = 128 * 1024 * 1024
DELAY_MAX = timedelta(days=3653)  # ten years
KEEP_FINISHED = timedelta(hours=72)
DEDUPLICATE_FOR = timedelta(minutes=10)
DEDUPLICATE_MS_MIN = 60_000  # clients repeat publishes for almost as long, and rely on it
NAMES_MAX = 1_048_576  # default maximum of keys of pending messages, and of remembered ids
HOT_MINUTE_MESSAGES = 600_000  # ten thousand a second, for a minute
CLOCK_ACCEPT_AFTER_MS_MIN = 1_000
WINDOW_BYTES = 512 * 1024 * 1024
ZONES_OF_SYSTEM = "/usr/share/zoneinfo"


class OpenArguments(TypedDict, total=False):
    """The options of `open`, which documents them."""

    durability: Durability
    create: bool
    segment_bytes: int
    delay_max: Duration
    keep_finished: Duration
    keep_finished_of: Mapping[str, Duration] | None
    expire: Mapping[str, Duration] | None
    deduplicate_for: Duration
    keys_max: int
    message_ids_max: int
    progress: Callable[[Progress], object] | None
    clock: Clock | None
    hot_minute_messages: int
    window_bytes: int
    warn_free_bytes: int
    refuse_free_bytes: int
    clock_accept_after: Duration | None


class OpenOptions(NamedTuple):
    """The options of `open`, checked as far as Python can.

    Attributes:
        folder: The folder of the store.
        options: The options as the core takes them.
        policy: The retention and expiry.
        progress: Called with facts, bytes and total bytes during recovery, or None.
    """

    folder: str
    options: dict[str, object]
    policy: RetentionPolicy
    progress: Callable[[int, int, int], None] | None

    @classmethod
    def made(
        cls,
        path: str | os.PathLike[str],
        *,
        durability: Durability = "disk",
        create: bool = True,
        segment_bytes: int = SEGMENT_BYTES,
        delay_max: Duration = DELAY_MAX,
        keep_finished: Duration = KEEP_FINISHED,
        keep_finished_of: Mapping[str, Duration] | None = None,
        expire: Mapping[str, Duration] | None = None,
        deduplicate_for: Duration = DEDUPLICATE_FOR,
        keys_max: int = NAMES_MAX,
        message_ids_max: int = NAMES_MAX,
        progress: Callable[[Progress], object] | None = None,
        clock: Clock | None = None,
        hot_minute_messages: int = HOT_MINUTE_MESSAGES,
        window_bytes: int = WINDOW_BYTES,
        warn_free_bytes: int = 0,
        refuse_free_bytes: int = 0,
        clock_accept_after: Duration | None = None,
    ) -> OpenOptions:
        """Checks the arguments of `open`.

        Raises:
            WrongType: An option has the wrong type.
            InvalidArgument: An option has a value that is refused.
        """
        if not isinstance(create, bool):
            raise wrong_type("create", "bool", create)
        if progress is not None and not callable(progress):
            raise wrong_type("progress", "a callable", progress)
        policy = RetentionPolicy.made(keep_finished, expire, keep_finished_of)
        options: dict[str, object] = {
            "durability": durability,
            "create": create,
            "segment_bytes": segment_bytes,
            "delay_ms_max": delay_ms(delay_max, "delay_max"),
            "keep_finished_ms": policy.keep_finished_ms,
            "keep_finished_of_ms": policy.keep_finished_of_ms,
            "id_window_ms": _window_ms(deduplicate_for),
            "keys_max": keys_max,
            "ids_max": message_ids_max,
            "clock": clock,
            "zone_folders": zone_folders(),
            "clock_accept_after_ms": None if clock_accept_after is None else _accept_after_ms(clock_accept_after),
            "hot_minute_messages": hot_minute_messages,
            "window_bytes": window_bytes,
            "warn_free_bytes": warn_free_bytes,
            "refuse_free_bytes": refuse_free_bytes,
        }
        return cls(folder_of(path), options, policy, None if progress is None else _progress_callback(progress))


class Claims:
    """The folders that this process has open, so that a second open in this process gets a better error."""

    def __init__(self) -> None:
        self._claimed: dict[tuple[int, int], int] = {}

    def claim(self, folder: str) -> tuple[int, int]:
        """Notes that this process has a folder open. The result is for `release`."""
        place = _place(folder)
        self._claimed[place] = os.getpid()
        return place

    def release(self, place: tuple[int, int]) -> None:
        """Forgets a folder."""
        self._claimed.pop(place, None)

    def is_claimed(self, folder: str) -> bool:
        """True if this process has the folder open."""
        try:
            return self._claimed.get(_place(folder)) == os.getpid()
        except OSError:
            return False


CLAIMS = Claims()


def recover(opened: OpenOptions) -> _core.Store:
    """Opens the store in a folder and recovers its state after a crash.

    Raises:
        Locked, NotAStore, NewerFormat, Corrupt, MissingFile, StorageError, InvalidArgument, WrongType:
            As `delaymq.open`; `store` is the folder.
    """
    try:
        return _core.Store.open(opened.folder, progress=opened.progress, **opened.options)
    except Locked as error:
        if not CLAIMS.is_claimed(opened.folder):
            raise _with_folder(error, opened.folder) from None
        found = "this process has it open already"
        twice = Locked(
            f"{opened.folder} cannot be opened: {found}; share that store, or close it first",
            path=error.path,
            expected=error.expected,
            found=found,
        )
        raise _with_folder(twice, opened.folder) from None
    except StoreError as error:
        raise _with_folder(error, opened.folder) from None


@contextmanager
def errors_named(folder: str, *, with_note: bool = False) -> Iterator[None]:
    """Adds the folder of the store to errors of the block."""
    try:
        yield
    except StoreError as error:
        error.store = folder
        if with_note:
            error.add_note(f"the store is {folder}")
        raise


def _with_folder(error: StoreError, folder: str) -> StoreError:
    error.store = folder
    error.add_note(f"the store is {folder}")
    return error


def _place(folder: str) -> tuple[int, int]:
    found = os.stat(folder)  # noqa: PTH116 - a path as the user gave it, which may be bytes' text
    return found.st_dev, found.st_ino


def folder_of(path: str | os.PathLike[str]) -> str:
    """A path as text.

    Raises:
        WrongType: It is not a path.
    """
    try:
        return os.fsdecode(path)
    except TypeError as error:
        raise wrong_type("path", "a path", path) from error


def _progress_callback(progress: Callable[[Progress], object]) -> Callable[[int, int, int], None]:
    def report(facts: int, bytes_: int, bytes_whole: int) -> None:
        progress(Progress(facts, bytes_, bytes_whole))

    return report


def _accept_after_ms(clock_accept_after: Duration) -> int:
    after_ms = delay_ms(clock_accept_after, "clock_accept_after")
    if after_ms < CLOCK_ACCEPT_AFTER_MS_MIN:
        raise refused("clock_accept_after", "at least a second", clock_accept_after)
    return after_ms


def _window_ms(deduplicate_for: Duration) -> int:
    window_ms = delay_ms(deduplicate_for, "deduplicate_for")
    if window_ms < DEDUPLICATE_MS_MIN:
        raise refused("deduplicate_for", "at least a minute", deduplicate_for)
    return window_ms


def zone_folders() -> list[str]:
    """The folders that may have newer rules than the program: `TZDIR`, the system's, and the package `tzdata`.

    A folder that does not exist is ignored by the core, which takes the newest database of all, its own included.
    """
    import importlib.util  # noqa: PLC0415 - an import of delaymq is to be quick, and is without pathlib

    folders = [os.environ.get("TZDIR", ""), ZONES_OF_SYSTEM]
    package = importlib.util.find_spec("tzdata")
    places = None if package is None else package.submodule_search_locations
    folders.extend(os.path.join(place, "zoneinfo") for place in places or ())  # noqa: PTH118
    return [folder for folder in folders if folder]
