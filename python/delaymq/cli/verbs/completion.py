"""`delaymq completion`: completion scripts for shells, generated from the parser."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Iterator
from dataclasses import dataclass

from delaymq.cli.exit_codes import Exit
from delaymq.cli.input.arguments import CommandParser, Verbs, add_verb

SHELLS = ("bash", "zsh", "fish")
FILES = {"DIR", "FILE", "NEWFOLDER"}


def add_to(verbs: Verbs) -> None:
    """Adds the verb to the command line."""
    verb = add_verb(
        verbs,
        "completion",
        run,
        summary="print the completion script for a shell",
        examples=(
            "delaymq completion bash >~/.local/share/bash-completion/completions/delaymq",
            'delaymq completion zsh >"${fpath[1]}/_delaymq"',
            "delaymq completion fish >~/.config/fish/completions/delaymq.fish",
        ),
    )
    verb.add_argument("shell", choices=SHELLS, metavar="SHELL", help=f"one of {', '.join(SHELLS)}")


def run(chosen: argparse.Namespace) -> int:
    """Prints the script."""
    from delaymq.cli import parser  # noqa: PLC0415 - the whole command line knows this verb too

    print(script(parser(), chosen.shell), end="")
    return Exit.DONE


@dataclass(frozen=True)
class Option:
    """One option of a verb."""

    names: tuple[str, ...]
    takes: str | None
    choices: tuple[str, ...]
    help: str


@dataclass(frozen=True)
class Level:
    """The completions after some words of the command line."""

    words: tuple[str, ...]
    verbs: tuple[tuple[str, str], ...]
    choices: tuple[str, ...]
    options: tuple[Option, ...]


def levels(parser: argparse.ArgumentParser, words: tuple[str, ...] = ()) -> Iterator[Level]:
    """Yields the completions of the command itself, of each verb, and of each part of a verb."""
    below: dict[str, CommandParser] = {}
    helps: list[tuple[str, str]] = []
    choices: tuple[str, ...] = ()
    options = []
    for action in parser._actions:  # noqa: SLF001 - argparse shows its tables nowhere else
        if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001
            below.update(action.choices)
            helps += [(part.dest, part.help or "") for part in action._choices_actions]  # noqa: SLF001
        elif action.option_strings:
            takes = None if action.nargs == 0 else str(action.metavar or action.dest).upper()
            offered: tuple[str, ...] = getattr(action, "words", ())
            given = tuple(map(str, action.choices or offered))
            options.append(Option(tuple(action.option_strings), takes, given, action.help or ""))
        elif action.choices:
            choices = tuple(map(str, action.choices))
    yield Level(words, tuple(helps), choices, tuple(options))
    for name, deeper in below.items():
        yield from levels(deeper, (*words, name))


def script(parser: argparse.ArgumentParser, shell: str) -> str:
    """Returns the script for one of `SHELLS`."""
    all_levels = list(levels(parser))
    return {"bash": _bash, "zsh": _zsh, "fish": _fish}[shell](all_levels)


def _words_of(level: Level) -> list[str]:
    names = [name for option in level.options for name in option.names]
    return [*(name for name, _ in level.verbs), *level.choices, *names]


def _bash(all_levels: list[Level]) -> str:
    """Returns the script for bash, which matches verbs by the words before the cursor that are no options."""
    cases = "\n".join(
        f"    {shlex.quote(' '.join(level.words))}) words={shlex.quote(' '.join(_words_of(level)))} ;;"
        for level in all_levels
    )
    known = " ".join(shlex.quote(" ".join(level.words)) for level in all_levels if level.words)
    taking = {name: option for level in all_levels for option in level.options for name in option.names if option.takes}
    flags = "\n".join(
        f"    {shlex.quote(' '.join((*level.words, name)))}) ;;"
        for level in all_levels
        for option in level.options
        for name in option.names
        if name in taking and not option.takes
    )
    files = "|".join(sorted(f"*\\ {name}" for name, option in taking.items() if option.takes in FILES))
    chosen = "\n".join(
        f'    *\\ {name}) COMPREPLY=($(compgen -W {shlex.quote(" ".join(option.choices))} -- "$current")); return ;;'
        for name, option in sorted(taking.items())
        if option.choices
    )
    values = "|".join(
        sorted(f"*\\ {name}" for name, option in taking.items() if option.takes not in FILES and not option.choices)
    )
    return f"""# Completion of delaymq for bash; made by `delaymq completion bash`.
_delaymq() {{
  local current="${{COMP_WORDS[COMP_CWORD]}}" previous="${{COMP_WORDS[COMP_CWORD-1]}}" at="" word words known
  COMPREPLY=()
  for word in "${{COMP_WORDS[@]:1:COMP_CWORD-1}}"; do
    for known in {known}; do
      if [[ "$known" == "${{at:+$at }}$word" ]]; then at="$known"; break; fi
    done
  done
  case "$at $previous" in
{flags}
    {files}) compopt -o filenames; COMPREPLY=($(compgen -f -- "$current")); return ;;
{chosen}
    {values}) return ;;
  esac
  case "$at" in
{cases}
  esac
  COMPREPLY=($(compgen -W "$words" -- "$current"))
}}
complete -F _delaymq delaymq
"""


def _zsh(all_levels: list[Level]) -> str:
    """Returns the script for zsh, which runs the functions of bash in its own way."""
    body = _bash(all_levels).split("\n", 1)[1].replace("compopt -o filenames; ", "")
    return f"""#compdef delaymq
# Completion of delaymq for zsh; made by `delaymq completion zsh`.
autoload -U +X bashcompinit && bashcompinit
{body}"""


def _fish(all_levels: list[Level]) -> str:
    lines = ["# Completion of delaymq for fish; made by `delaymq completion fish`.", "complete -c delaymq -f"]
    for level in all_levels:
        names = " ".join(name for name, _ in level.verbs)
        if not level.words:
            when = "__fish_use_subcommand"
        else:
            seen = "; and ".join(f"__fish_seen_subcommand_from {word}" for word in level.words)
            when = f"{seen}; and not __fish_seen_subcommand_from {names}" if names else seen
        condition = shlex.quote(when)
        lines += [
            f"complete -c delaymq -n {condition} -a {name} -d {shlex.quote(help_)}" for name, help_ in level.verbs
        ]
        lines += [f"complete -c delaymq -n {condition} -a {choice}" for choice in level.choices]
        lines += [_fish_option(condition, option) for option in level.options]
    return "\n".join(lines) + "\n"


def _fish_option(condition: str, option: Option) -> str:
    names = " ".join(f"-l {name[2:]}" if name.startswith("--") else f"-s {name[1:]}" for name in option.names)
    takes = ""
    if option.choices:
        takes = f" -x -a {shlex.quote(' '.join(option.choices))}"
    elif option.takes in FILES:
        takes = " -r -F"
    elif option.takes:
        takes = " -x"
    return f"complete -c delaymq -n {condition} {names}{takes} -d {shlex.quote(option.help)}"
