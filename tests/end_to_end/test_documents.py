"""Every line of Python in the documents runs as it stands; and whoever says so is seen to fail."""

from __future__ import annotations

from pathlib import Path

import pytest

from snippets import Block, python_blocks, run_page, script_of

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
WITH_PYTHON = [page.relative_to(ROOT).as_posix() for page in PAGES if python_blocks(page.read_text("utf-8"))]


@pytest.mark.parametrize("page", WITH_PYTHON)
def test_the_python_of_a_page_runs(page: str, tmp_path: Path) -> None:
    wrong = run_page((ROOT / page).read_text("utf-8"), tmp_path)
    assert wrong is None, f"{page}: {wrong}"


def test_the_pages_are_found() -> None:
    assert {"README.md", "docs/how-to/test.md"} <= set(WITH_PYTHON)


PAGE = """# Page

```python
one = 1
```

- indented:

  ```python
  two = one + 1
  ```

```console
$ not python
```

```python
assert two == 2
```
"""


def test_blocks_see_each_other_under_the_lines_of_the_page(tmp_path: Path) -> None:
    blocks = python_blocks(PAGE)
    assert blocks == [Block(4, ("one = 1",)), Block(10, ("two = one + 1",)), Block(18, ("assert two == 2",))]
    assert script_of(blocks).splitlines()[17] == "assert two == 2"
    assert run_page(PAGE, tmp_path) is None


def test_a_block_that_fails_is_told_with_its_line(tmp_path: Path) -> None:
    wrong = run_page(PAGE.replace("== 2", "== 3"), tmp_path)
    assert wrong is not None
    assert "line 18" in wrong


def test_a_warning_fails(tmp_path: Path) -> None:
    wrong = run_page('# Page\n```python\nimport warnings\nwarnings.warn("old")\n```\n', tmp_path)
    assert wrong is not None
    assert "UserWarning: old" in wrong


TESTED = """# Page

```python
# program.py
ANSWER = 42
```

```python
# test_program.py
from program import ANSWER


def test_it():
    assert ANSWER == 42
```
"""


def test_files_are_written_and_tests_are_run(tmp_path: Path) -> None:
    assert run_page(TESTED, tmp_path) is None
    (tmp_path / "other").mkdir()
    wrong = run_page(TESTED.replace("== 42", "== 41"), tmp_path / "other")
    assert wrong is not None
    assert "test_program.py:14" in wrong


def test_what_is_not_run_says_why() -> None:
    block = "```python\nraise SystemExit(1)\n```\n"
    assert python_blocks(f"# Page\n<!-- not run: it needs a server -->\n{block}") == []
    assert len(python_blocks(f"# Page\n<!-- not run: -->\n{block}")) == 1
    assert len(python_blocks(f"# Page\n<!-- not run: it needs a server -->\nwords\n\n{block}")) == 1
