"""The reader in a process of its own that can import nothing but the standard library and the reader.

`python -I -S alone.py FOLDER [STORE]` reads every golden file, and a store where one is named, with the
reader that lies beside `alone.py` in FOLDER, and prints what it found, as JSON.
"""

from __future__ import annotations

import importlib
import json
import sys
from collections import Counter
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any

READER = "format_reader"


class OnlyTheStandardLibrary(MetaPathFinder):
    """Refuses every import of anything else, whoever asks for it and however."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        del path, target
        if not allowed(fullname):
            raise ImportError(f"{fullname} is neither of the standard library nor of the reader")
        return None


def allowed(name: str) -> bool:
    first = name.partition(".")[0]
    return first in sys.stdlib_module_names or first in {READER, "__main__"}


def loaded(tests: Path) -> dict[str, Any]:
    """Every module of the reader but its tests, by name."""
    names = sorted(path.stem for path in (tests / READER).glob("*.py") if not path.stem.startswith(("test_", "__")))
    return {name: importlib.import_module(f"{READER}.{name}") for name in names if name != Path(__file__).stem}


def read_every_golden_file(reader: dict[str, Any]) -> int:
    golden = reader["golden"]
    paths = sorted(golden.GOLDEN.glob("*.hex"))
    for path in paths:
        facts, data = golden.read_golden(path.stem)
        match path.stem.partition("_")[0]:
            case "record":
                assert reader["records"].read_record(data, 0, int(facts["sequence"])).payload_is_whole
            case "batch":
                reader["batches"].read_batch(data, 0, facts["stream"].encode())
            case "segment":
                assert reader["segments"].read_segment(data).break_ is None
            case "run":
                reader["runs"].read_run(data)
            case "checkpoint":
                reader["checkpoints"].read_checkpoint(data)
            case "identity":
                reader["identity"].read_identity(data)
            case "receipt":
                reader["receipts"].read_receipt(data)
            case other:
                raise AssertionError(other)
    return len(paths)


def main(tests: Path, store: Path | None) -> None:
    sys.meta_path.insert(0, OnlyTheStandardLibrary())
    sys.path.insert(0, str(tests))
    reader = loaded(tests)
    told: dict[str, Any] = {"modules": list(reader), "golden": read_every_golden_file(reader)}
    if store is not None:
        read = reader["store"].read_store(store)
        told["kinds"] = Counter(record.kind for _, record in read.facts)
    foreign = sorted(name for name in sys.modules if not allowed(name))
    assert not foreign, foreign
    print(json.dumps(told))  # noqa: T201 - it is what it is run for


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]) if len(sys.argv) > 2 else None)
