"""How autodoc reads the docstrings of delaymq, which are in Google's style."""

from __future__ import annotations

import builtins
import contextlib
import dataclasses
import importlib
import pydoc
import re
import sys
from typing import Any

from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.ext.autodoc.mock import mock
from sphinx.ext.napoleon import Config, GoogleDocstring
from sphinx.transforms.post_transforms import SphinxPostTransform
from sphinx.util.logging import getLogger

LOGGER = getLogger(__name__)

# Classes whose constructor users call; of the others no arguments are shown.
MADE_BY_USERS = frozenset(
    {"delaymq.Publish", "delaymq.loading.Stager", "delaymq.spark.TableOptions", "delaymq.testing.Clock"}
)
GOOGLE = Config(napoleon_use_ivar=False)
# An attribute with its words and then its type, as napoleon writes it.
ATTRIBUTE = re.compile(r"^(\.\. attribute:: .+\n)((?:\n|   .*\n)*?)\n   :type: (.+)$", re.MULTILINE)


def connect(app: Sphinx) -> None:
    """Connects all below."""
    app.connect("autodoc-process-docstring", read_docstring)
    app.connect("autodoc-before-process-signature", resolve_options)
    app.connect("autodoc-process-signature", read_signature)
    app.connect("autodoc-skip-member", is_skipped)
    app.connect("env-check-consistency", require_members)
    app.add_post_transform(PlainBuiltins)


def read_docstring(app: Sphinx, kind: str, name: str, member: object, options: object, lines: list[str]) -> None:  # noqa: PLR0917
    """Sections such as `Args:` as reStructuredText. A property is read as a method is: napoleon would take what
    stands before a colon for its type.
    """
    read_as = "method" if kind in ("attribute", "data", "property") else kind
    text = str(GoogleDocstring(lines, GOOGLE, app, read_as, name, member, options))
    lines[:] = ATTRIBUTE.sub(r"\1   :type: \3\n\2", text).splitlines()


def resolve_options(_app: Sphinx, method: Any, _is_bound: bool) -> None:  # noqa: ANN401 - any callable
    """Resolves the types of the options that a method shows: the names are of another module than its own."""
    function = getattr(method, "__func__", method)
    signature = vars(function).get("__signature__") if hasattr(function, "__dict__") else None
    if signature is None:
        return
    importlib.import_module("delaymq._arguments.columns")  # the package imports it when it is needed
    modules = [module for name, module in list(sys.modules.items()) if name.partition(".")[0] == "delaymq"]
    names = {name: value for module in modules for name, value in vars(module).items()}
    with contextlib.suppress(NameError):  # of a module that is not imported
        resolved = [
            parameter.replace(annotation=eval(parameter.annotation, names))  # noqa: S307 - text of this project
            if isinstance(parameter.annotation, str)
            else parameter
            for parameter in signature.parameters.values()
        ]
        function.__signature__ = signature.replace(parameters=resolved)


def read_signature(
    _app: Sphinx, kind: str, name: str, _member: object, _options: object, arguments: str | None, answer: str | None
) -> tuple[str, str | None] | None:
    """The arguments of what users call."""
    if kind in ("class", "exception") and name not in MADE_BY_USERS:
        return "", None
    return None if arguments is None else (arguments.replace("datetime.timedelta", "timedelta"), answer)


def is_skipped(_app: Sphinx, _kind: str, _name: str, member: object, _skip: object, _options: object) -> bool | None:
    """True of what a class inherits from Python itself."""
    return None if is_ours(member) else True


def is_ours(member: Any) -> bool:  # noqa: ANN401 - any member of a class
    """False of what a class inherits from Python itself."""
    function = member.fget if isinstance(member, property) else member
    home = getattr(getattr(function, "__objclass__", function), "__module__", None) or "delaymq"
    return home.partition(".")[0] in ("delaymq", "sphinx")  # the latter stands for a name without a value


def require_members(app: Sphinx, environment: BuildEnvironment) -> None:
    """Warns of each public member of a class of the reference that is not shown, as where it has no docstring."""
    shown = environment.domains.python_domain.objects
    for name in [name for name, entry in shown.items() if entry.objtype == "class" and not entry.aliased]:
        with mock(app.config.autodoc_mock_imports):
            kind = pydoc.locate(name)
        fields = [field.name for field in dataclasses.fields(kind)] if dataclasses.is_dataclass(kind) else []
        members = {one for one in [*dir(kind), *fields] if one[0] != "_" and is_ours(getattr(kind, one, None))}
        for one in sorted(members):
            if f"{name}.{one}" not in shown:
                LOGGER.warning("%s.%s is not in the reference: it has no docstring", name, one)


class PlainBuiltins(SphinxPostTransform):
    """Keeps a type such as `bytes` from being a link to an attribute of that name."""

    default_priority = 5  # references are resolved at 10

    def run(self, **_others: Any) -> None:  # noqa: ANN401 - as declared
        """Puts the text of each such reference in its place."""
        for reference in list(self.document.findall(addnodes.pending_xref)):
            if reference.get("refdomain") == "py" and hasattr(builtins, reference["reftarget"]):
                reference.replace_self(reference.children)
