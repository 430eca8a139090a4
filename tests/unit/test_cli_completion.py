from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from delaymq.cli import VERBS, parser
from delaymq.cli.verbs.completion import SHELLS, levels, script


def test_every_verb_and_option_is_in_the_tables() -> None:
    found = {level.words: level for level in levels(parser())}
    names = [name for name, _ in found[()].verbs]
    assert names == list(VERBS)
    assert all((name,) in found for name in names)
    publish = {name for option in found[("publish",)].options for name in option.names}
    assert {"--delay", "--at", "--level", "--jsonl", "--store", "--help"} <= publish
    assert ("config", "check") in found
    assert found[("completion",)].choices == SHELLS


@pytest.mark.parametrize("shell", SHELLS)
def test_a_script_names_every_verb_and_every_long_option(shell: str) -> None:
    text = script(parser(), shell)
    for level in levels(parser()):
        for name, _ in level.verbs:
            assert name in text
        for option in level.options:
            long = [name[2:] for name in option.names if name.startswith("--")]
            assert all(name in text for name in long)


def completed(line: str, tmp_path: Path) -> list[str]:
    """What bash offers for the last word of the line."""
    bash = shutil.which("bash")
    if bash is None:
        pytest.skip("there is no bash here")
    file = tmp_path / "delaymq.bash"
    file.write_text(script(parser(), "bash"))
    words = line.split(" ")
    quoted = " ".join(f"'{word}'" for word in words)
    code = (
        f"source '{file}'; compopt() {{ :; }}; COMP_WORDS=({quoted}); COMP_CWORD={len(words) - 1}; _delaymq; "
        'printf "%s\\n" "${COMPREPLY[@]}"'
    )
    ended = subprocess.run([bash, "-c", code], capture_output=True, text=True, check=True, cwd=tmp_path)
    assert ended.stderr == ""
    return ended.stdout.split()


def test_bash_finishes_words(tmp_path: Path) -> None:
    assert completed("delaymq pub", tmp_path) == ["publish"]
    assert completed("delaymq con", tmp_path) == ["consume", "config"]
    assert completed("delaymq publish --del", tmp_path) == ["--delay"]
    assert completed("delaymq config ch", tmp_path) == ["check"]
    assert completed("delaymq config check --js", tmp_path) == ["--json"]
    assert completed("delaymq completion z", tmp_path) == ["zsh"]
    assert completed("delaymq consume orders --start e", tmp_path) == ["earliest"]
    assert completed("delaymq groups reset a b --start u", tmp_path) == ["unfinished"]
    assert completed("delaymq publish a b --delay ", tmp_path) == []
    (tmp_path / "data").mkdir()
    assert completed("delaymq verify --store da", tmp_path) == ["data"]
    assert completed("delaymq status --token-file da", tmp_path) == ["data"]
    assert completed("delaymq status --server ", tmp_path) == []
    assert completed("delaymq demo --server --mess", tmp_path) == ["--messages"]  # which takes nothing there


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_a_shell_that_is_here_takes_its_script(shell: str, tmp_path: Path) -> None:
    there = shutil.which(shell)
    if there is None:
        pytest.skip(f"there is no {shell} here")
    file = tmp_path / "script"
    file.write_text(script(parser(), shell))
    subprocess.run([there, "-n", str(file)], check=True)
