"""Fish's completions: a line for each flag and each command."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from penstock.cli.flags.programs import Command, Flag


def of_flags(program: str, flags: Sequence[Flag]) -> str:
    """The flags of a program, each with its help."""
    return "\n".join(_lines(program, flags))


def of_commands(program: str, commands: Mapping[str, Command]) -> str:
    """The commands of a program where none is given, and the flags of the one that is."""
    first = f"complete -c {program} -f -n __fish_use_subcommand -a "
    lines = [f"{first}{name} -d {_quoted(each.help)}" for name, each in commands.items()]
    lines.append(f"{first}help -d 'tell the options of a command'")
    given = "__fish_seen_subcommand_from"
    lines.append(f"complete -c {program} -f -n '{given} help' -a '{' '.join(commands)}'")
    for name, each in commands.items():
        lines += _lines(f"{program} -n '{given} {name}'", each.flags)
    return "\n".join(lines)


def _lines(place: str, flags: Sequence[Flag]) -> Iterator[str]:
    for each in flags:
        style = f"-l {each.name[2:]}" if each.name.startswith("--") else f"-s {each.name[1:]}"
        letter = f" -s {each.letter[1:]}" if each.letter else ""
        takes = " -r" if each.value else ""
        yield f"complete -c {place} {style}{letter}{takes} -d {_quoted(each.help)}"


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
