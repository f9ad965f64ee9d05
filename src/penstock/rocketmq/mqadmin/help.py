"""The usage of a sub-command, laid out as commons-cli's ``HelpFormatter`` does at 110 columns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from penstock.rocketmq.mqadmin.options import Option, SubCommand

_WIDTH: Final = 110
_GAP: Final = 3


def usage(command: SubCommand) -> str:
    """The line of the usage and the list of the options."""
    options = sorted(command.options, key=lambda each: (each.letter or each.name).lower())
    line = f"usage: mqadmin {command.name}{_synopsis(options)}"
    lines = list(_wrapped(line, len("usage: ")))
    marks = [_mark(each) for each in options]
    width = max(map(len, marks)) + _GAP
    for mark, each in zip(marks, options, strict=True):
        lines += _wrapped(f"{mark:{width}}{each.help}", width)
    return "\n".join(lines) + "\n"


def _synopsis(options: Sequence[Option]) -> str:
    words: list[str] = []
    group = [each for each in options if each.one_of]
    for each in options:
        if each in group:
            if each is group[0]:
                words.append(" | ".join(map(_call, group)) + " ")
        else:
            words.append(_call(each) if each.is_required else f"[{_call(each)}]")
    return "".join(f" {word}" for word in words)


def _call(option: Option) -> str:
    name = f"-{option.letter}" if option.letter else f"--{option.name}"
    return f"{name} <arg>" if option.takes_value else name


def _mark(option: Option) -> str:
    short = f" -{option.letter},--" if option.letter else "    --"
    return f"{short}{option.name} <arg>" if option.takes_value else f"{short}{option.name}"


def _wrapped(line: str, indent: int) -> Iterator[str]:
    while len(line) > _WIDTH:
        cut = line.rfind(" ", 0, _WIDTH + 1)
        if cut <= indent:
            break
        yield line[:cut].rstrip()
        line = " " * indent + line[cut:].strip()
    yield line.rstrip()
