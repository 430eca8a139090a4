"""Stands in for the Rust extension: its stubs have its docstrings, so that nothing is compiled for the reference."""

from __future__ import annotations
import __future__

import ast
import sys
from collections.abc import Sequence
from functools import partial
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, SourceFileLoader
from importlib.util import spec_from_file_location
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

EXTENSION = "delaymq._core"


def install(packages: Path) -> None:
    """From now on the extension is imported from its stubs, even where it is built."""
    sys.meta_path.insert(0, StubFinder(packages))


class StubFinder(MetaPathFinder):
    """Finds the extension, and the stubs that its own stub imports."""

    def __init__(self, packages: Path) -> None:
        self._packages = packages

    def find_spec(
        self, fullname: str, _path: Sequence[str] | None, _target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The stub of a module of that name."""
        stub = self._packages.joinpath(*fullname.split(".")).with_suffix(".pyi")
        if not fullname.startswith(EXTENSION) or not stub.exists():
            return None
        return spec_from_file_location(fullname, stub, loader=StubLoader(fullname, str(stub)))


class StubLoader(SourceFileLoader):
    """Runs a stub as a module. Its annotations stay text, and a name without a value is `Any`.

    It imports nothing of the package but its own parts: annotations need no value, and an import that leads back to
    the extension would find it without the classes to come.
    """

    def source_to_code(self, data: Any, path: Any, *, _optimize: int = -1) -> CodeType:  # noqa: ANN401 - as declared
        """Compiles it."""
        flags = __future__.annotations.compiler_flag
        tree = ast.parse(data)
        tree.body = [node for node in tree.body if not _is_of_the_package(node)]
        return compile(tree, path, "exec", flags, dont_inherit=True, optimize=_optimize)

    def exec_module(self, module: ModuleType) -> None:
        """Runs it. Its parts import each other in a circle, which `Any` ends."""
        vars(module)["__getattr__"] = partial(_without_value, module.__name__)
        super().exec_module(module)


def _is_of_the_package(node: ast.stmt) -> bool:
    """True for an import from a module of the package that is no stub."""
    module = (node.module if isinstance(node, ast.ImportFrom) else None) or ""
    return module.startswith("delaymq.") and not module.startswith(EXTENSION)


def _without_value(module: str, name: str) -> object:
    if name.startswith("__") and name != "__version__":
        raise AttributeError(f"module {module} has no attribute {name}")
    return Any
