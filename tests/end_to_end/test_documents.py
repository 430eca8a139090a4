"""Everything that the documents show runs as it stands, and their links lead somewhere; and whoever says
so is seen to fail.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from java import quick_java, require_java_here
from snippets import (
    LANGUAGES,
    TIMEOUT_S,
    Block,
    Command,
    blocks_of,
    commands_of,
    is_run,
    matches,
    python_blocks,
    run_page,
    script_of,
)

ROOT = Path(__file__).resolve().parents[2]
DECISIONS = ROOT / "docs" / "decisions"
PAGES = [
    *sorted(ROOT.glob("*.md")),
    *sorted(page for page in (ROOT / "docs").rglob("*.md") if DECISIONS not in page.parents),
]
RUN = [page.relative_to(ROOT).as_posix() for page in PAGES if is_run(page.read_text("utf-8"))]
NAMES = [page.relative_to(ROOT).as_posix() for page in PAGES]
LINK = re.compile(r"(?<!!)\[[^\]]+\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)


@pytest.mark.timeout(2 * TIMEOUT_S)
@pytest.mark.parametrize("page", RUN)
def test_what_a_page_shows_runs(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = (ROOT / page).read_text("utf-8")
    if starts_java(text):
        require_java_here()
        for name, value in quick_java().items():
            monkeypatch.setenv(name, value)
    wrong = run_page(text, tmp_path)
    assert wrong is None, f"{page}: {wrong}"


def starts_java(page: str) -> bool:
    """True where it shows Spark."""
    return any("delaymq.spark" in line or "delaymq spark" in line for one in blocks_of(page) for line in one.lines)


def test_a_page_that_shows_spark_is_passed_over_without_java(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert [page for page in RUN if starts_java((ROOT / page).read_text("utf-8"))] == ["docs/spark.md"]
    monkeypatch.delenv("TESTS_OF_JAVA_MUST_RUN", raising=False)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(pytest.skip.Exception, match="Java 17"):
        require_java_here()
    monkeypatch.setenv("TESTS_OF_JAVA_MUST_RUN", "1")
    with pytest.raises(pytest.fail.Exception, match="must not pass over"):
        require_java_here()


def test_the_pages_are_found() -> None:
    assert {"README.md", "docs/how-to/test.md"} <= set(RUN)
    assert {"CONTRIBUTING.md", "docs/cli.md", "docs/glossary.md"} <= set(NAMES)


@pytest.mark.parametrize("page", NAMES)
def test_every_block_is_of_a_kind_that_is_run_or_a_picture(page: str) -> None:
    for block in blocks_of((ROOT / page).read_text("utf-8")):
        assert block.language in LANGUAGES, f"{page}:{block.line}"
        if block.language in ("", "text"):
            assert not any(line.startswith("$ ") for line in block.lines), f"{page}:{block.line}"
        if block.language == "toml":
            assert block.file_name is not None, f"{page}:{block.line}: begins with `# name.toml`"


@pytest.mark.parametrize("page", NAMES)
def test_links_lead_somewhere(page: str) -> None:
    assert broken_links(ROOT / page) == []


def broken_links(page: Path) -> list[str]:
    """Links of a page to files that are not there, or to headings that they have not."""
    broken = []
    for link in LINK.findall(without_blocks(page.read_text("utf-8"))):
        if link.startswith("http"):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        if not target.exists() or (anchor and anchor not in anchors(target.read_text("utf-8"))):
            broken.append(link)
    return broken


def anchors(page: str) -> set[str]:
    """What the headings of a page are linked by."""
    headings = HEADING.findall(without_blocks(page))
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}


def without_blocks(page: str) -> str:
    return re.sub(r"^ *```.*?^ *```$", "", page, flags=re.DOTALL | re.MULTILINE)


def test_the_index_lists_every_page() -> None:
    index = ROOT / "docs" / "README.md"
    listed = {(index.parent / link.partition("#")[0]).resolve() for link in LINK.findall(index.read_text("utf-8"))}
    assert [name for page, name in zip(PAGES, NAMES, strict=True) if page not in listed | {index}] == []
    assert index in {(ROOT / link).resolve() for link in LINK.findall((ROOT / "README.md").read_text("utf-8"))}


def test_the_readme_is_one_screen() -> None:
    lines = (ROOT / "README.md").read_text("utf-8").splitlines()
    assert len(lines) <= 50
    assert max(map(len, lines)) <= 140


def test_a_broken_link_is_found(tmp_path: Path) -> None:
    page, other = tmp_path / "page.md", tmp_path / "other.md"
    other.write_text("# Other page\n\n## A `word`, and more\n\n```\n# no heading\n```\n")
    page.write_text("# Page\n[a](other.md) [b](other.md#a-word-and-more) [c](#page)\n")
    assert broken_links(page) == []
    page.write_text("# Page\n[a](another.md) [b](other.md#no-heading) [c](#other-page) [d](https://github.com)\n")
    assert broken_links(page) == ["another.md", "other.md#no-heading", "#other-page"]


PAGE = """# Page

```python
one = 1
```

- indented:

  ```python
  two = one + 1
  ```

```text
$ not python
```

```python
assert two == 2
```
"""


def test_blocks_see_each_other_under_the_lines_of_the_page(tmp_path: Path) -> None:
    blocks = python_blocks(PAGE)
    assert blocks == [Block(4, ("one = 1",)), Block(10, ("two = one + 1",)), Block(18, ("assert two == 2",))]
    assert len(blocks_of(PAGE)) == 4
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


SESSION = """# Page

```python
from pathlib import Path

Path("made").write_text("by Python")
```

```console
$ cat made
by Python
$ for word in one two; do
>   echo "$word is 1.25 long"
> done; kept=3
one is … long
two is … long
$ (echo "$kept" >&2; exit 5)
3
$ echo $?
5
$ printf 'a\\nb\\nc'
…
c
```

```sh
test "$kept" = 3
python -c 'import delaymq'
```
"""


def test_commands_run_in_one_shell_after_the_python(tmp_path: Path) -> None:
    commands = commands_of(SESSION)
    assert [command.line for command in commands] == [10, 12, 17, 19, 21, 27]
    assert commands[1] == Command(
        12, 'for word in one two; do\n  echo "$word is 1.25 long"\ndone; kept=3', ("one is … long", "two is … long")
    )
    assert run_page(SESSION, tmp_path) is None


@pytest.mark.parametrize(
    ("right", "wrong", "told"),
    [
        ("by Python\n$ for", "by Rust\n$ for", "line 10: $ cat made"),
        ("echo $?\n5", "echo $?\n6", "line 19: "),
        ("echo $?\n5", "echo code\ncode", "line 17: "),
        ("two is … long", "two is … short", "line 12: "),
        ("…\nc", "…\nd", "line 21: "),
        ('test "$kept" = 3', 'test "$kept" = 4 || exit 9', "line 27: the shell ended"),
        ("import delaymq", "import delaymqq", "No module named 'delaymqq'"),
        ('Path("made").write_text("by Python")', "raise SystemExit(3)", "exit 3"),
    ],
)
def test_a_command_that_does_something_else_is_told_with_its_line(
    right: str, wrong: str, told: str, tmp_path: Path
) -> None:
    assert right in SESSION
    found = run_page(SESSION.replace(right, wrong), tmp_path)
    assert found is not None
    assert told in found


def test_what_is_printed_is_compared_by_lines() -> None:
    assert matches(("a … c", "…", "d"), "a b c  \nmore\nstill more\nd")
    assert matches(("…",), "")
    assert not matches(("a",), "a\nb\n")
    assert not matches(("a.c",), "abc\n")


def test_a_console_block_begins_with_a_command() -> None:
    with pytest.raises(ValueError, match="line 2"):
        commands_of("```console\ndelaymq\n```\n")


def test_commands_that_are_not_run_say_why() -> None:
    block = "```console\n$ exit 1\n```\n"
    assert commands_of(f"<!-- not run: it ends the shell -->\n{block}") == []
    assert len(commands_of(f"<!-- not run: -->\n{block}")) == 1


def test_a_file_of_settings_is_written(tmp_path: Path) -> None:
    page = "```toml\n# delaymq.toml\n[store]\npath = 'a'\n```\n```console\n$ tail -1 delaymq.toml\npath = 'a'\n```\n"
    assert run_page(page, tmp_path) is None
