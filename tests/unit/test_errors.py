from __future__ import annotations

import errno
import inspect
import pickle
import re

import pytest

from delaymq import errors

KINDS = [kind for _, kind in inspect.getmembers(errors, inspect.isclass) if issubclass(kind, errors.DelaymqError)]
PYTHON_WORDS: dict[type[Exception], type[Exception]] = {
    errors.WrongType: TypeError,
    errors.InvalidArgument: ValueError,
    errors.TooLarge: ValueError,
    errors.StorageError: OSError,
    errors.DiskFull: OSError,
    errors.PermissionDenied: PermissionError,
    errors.MissingFile: FileNotFoundError,
    errors.TimedOut: TimeoutError,
    errors.Unreachable: ConnectionError,
    errors.NotPrimary: ConnectionError,
}


@pytest.mark.parametrize("kind", KINDS)
def test_every_error_keeps_its_message_and_details_through_pickle(kind: type[errors.DelaymqError]) -> None:
    error = kind("what happened", path="log/0000000001.segment", offset=7, expected="a", found="b")
    for found in (error, pickle.loads(pickle.dumps(error))):
        assert type(found) is kind
        assert str(found) == "what happened"
        assert (found.path, found.offset, found.expected, found.found) == ("log/0000000001.segment", 7, "a", "b")
        assert found.argument is None


@pytest.mark.parametrize("kind", KINDS)
def test_an_error_without_a_message_says_what_its_class_means(kind: type[errors.DelaymqError]) -> None:
    assert str(kind()) == kind.__doc__


@pytest.mark.parametrize(("ours", "python"), PYTHON_WORDS.items())
def test_where_python_has_a_word_it_is_caught_by_it(ours: type[Exception], python: type[Exception]) -> None:
    assert issubclass(ours, python)


def test_a_full_disk_has_its_number() -> None:
    assert errors.DiskFull("full").errno == errno.ENOSPC
    assert errors.StorageError("open", errno=errno.EACCES).errno == errno.EACCES


@pytest.mark.parametrize("maybe_stored", [0, 1])
def test_too_few_copies_tell_whether_something_may_be_stored(maybe_stored: int) -> None:
    error = errors.NotEnoughCopies("few", copies=1, min_copies=2, maybe_stored=maybe_stored)
    for found in (error, pickle.loads(pickle.dumps(error))):
        assert (found.copies, found.min_copies, found.maybe_stored) == (1, 2, maybe_stored == 1)
        assert isinstance(found.maybe_stored, bool)
    assert not errors.NotEnoughCopies("few").maybe_stored


def test_the_tree_in_the_docstring_is_the_tree() -> None:
    assert errors.__doc__ is not None
    depths: list[str] = []
    drawn: dict[str, str] = {}
    for line in errors.__doc__.splitlines():
        found = re.match(r"^    ([│ ├└─]*)(\w+)", line)
        if found:
            depth = len(found[1]) // 4
            depths[depth:] = [found[2]]
            if depth:
                drawn[found[2]] = depths[depth - 1]
    assert drawn == {kind.__name__: kind.__bases__[0].__name__ for kind in KINDS if kind is not errors.DelaymqError}
    assert sorted(errors.__all__) == sorted(kind.__name__ for kind in KINDS)
