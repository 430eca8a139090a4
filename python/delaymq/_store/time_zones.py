"""The databases of time zones on this machine, for series that follow a zone."""

from __future__ import annotations

import os

SYSTEM_FOLDER = "/usr/share/zoneinfo"


def zone_folders() -> list[str]:
    """The folders that may have newer rules than the program: `TZDIR`, the system's, and the package `tzdata`.

    A folder that does not exist is ignored by the core, which takes the newest database of all, its own included.
    """
    import importlib.util  # noqa: PLC0415 - an import of delaymq is to be quick, and is without pathlib

    folders = [os.environ.get("TZDIR", ""), SYSTEM_FOLDER]
    package = importlib.util.find_spec("tzdata")
    places = None if package is None else package.submodule_search_locations
    folders.extend(os.path.join(place, "zoneinfo") for place in places or ())  # noqa: PTH118
    return [folder for folder in folders if folder]
