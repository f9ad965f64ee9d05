"""Flags of all programs, as they are shown, complained about, and completed by real shells."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from collections.abc import Iterator
from functools import cache
from typing import get_args

import pytest

from penstock import __version__
from penstock.cli.flags.completion import Shell, script
from penstock.cli.flags.programs import Flag, mqadmin, programs
from penstock.cli.penstock import app
from tests.debian import needed
from tools.harness.terminals import Screen, screen
from tools.pages.documentation import ROOT


def test_every_installed_program_is_there_but_those_of_sub_commands() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert programs().keys() == project["scripts"].keys() - {"penstock", "mqadmin"}


def test_flags_are_as_they_are_typed() -> None:
    found = {program: {each.name: each for each in flags} for program, flags in programs().items()}
    timeout = found["nsqd"]["--msg-timeout"]
    assert timeout.shown == "--msg-timeout=duration"
    assert timeout.help.endswith("(default 1m0s)")
    assert found["nsq_tail"]["--version"].shown == "--version"
    names = found["mqbroker"]["--namesrvAddr"]
    assert (names.value, names.help[:12]) == ("HOST:PORT;...", "name servers")
    assert found["mqnamesrv"]["--printConfigItem"] == Flag(
        "--printConfigItem", "", "print all properties"
    )


def run(program: str, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", f"penstock.cli.{program}", *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


@pytest.mark.parametrize("program", ["mqbroker", "mqnamesrv"])
def test_the_version_says_whose_and_of_what(program: str) -> None:
    ended = run(program, "--version")
    said = f"{program} of Penstock {__version__}, as RocketMQ 4.9.8\n"
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, said, "")


@pytest.mark.parametrize(
    ("program", "flag", "hint"),
    [
        ("mqbroker", "--nmesrvAddr=a:1", "; did you mean --namesrvAddr?"),
        ("mqnamesrv", "--confgFile", "; did you mean --configFile?"),
        ("mqnamesrv", "--zzz", ""),
    ],
)
def test_an_unknown_flag_is_explained_on_the_last_line(program: str, flag: str, hint: str) -> None:
    ended = run(program, flag)
    assert ended.returncode == 2
    said = f"{program}: error: unrecognized arguments: {flag}{hint}"
    assert ended.stderr.splitlines()[-1] == said


@pytest.mark.parametrize("shell", get_args(Shell))
def test_every_program_and_command_is_in_the_script(shell: Shell) -> None:
    text = printed(shell)
    assert [each for each in ("penstock", *programs(), *mqadmin()) if each not in text] == []


COMPLETED = [
    ("penstock pip", "penstock pipeline"),
    ("penstock top --int", "penstock top --interval"),
    ("nsqd --retention-t", "nsqd --retention-time"),
    ("mqbroker --configF", "mqbroker --configFile"),
    ("mqadmin topicRou", "mqadmin topicRoute"),
    ("mqadmin topicRoute --namesrv", "mqadmin topicRoute --namesrvAddr"),
    ("mqadmin help clusterR", "mqadmin help clusterRT"),
]
"""What is typed before the key for completion, and what stands there behind it."""


@cache
def printed(shell: Shell) -> str:
    """What ``penstock completion`` prints for a shell."""
    return script(app, shell)


# Sets what bash sets before it calls a function, and prints what the function would offer.
_ASK = """
COMP_WORDS=({words}); COMP_CWORD=$(( ${{#COMP_WORDS[@]}} - 1 ))
{function}; printf '%s\\n' "${{COMPREPLY[@]}}"
"""


def bash(code: str) -> list[str]:
    ended = subprocess.run(["bash", "-c", printed("bash") + code], capture_output=True, text=True,
                           timeout=60)  # fmt: skip
    assert (ended.returncode, ended.stderr) == (0, "")
    return ended.stdout.split()


def test_it_completes_commands_and_flags_of_penstock() -> None:
    assert bash(_ASK.format(words="penstock pip", function="_penstock")) == ["pipeline"]
    assert bash(_ASK.format(words="penstock top --int", function="_penstock")) == ["--interval"]


def test_it_completes_the_flags_of_every_program() -> None:
    offered = bash('\nfor each in $(complete -p nsqd | grep -o -- "--retention[a-z=-]*")\n'
                   'do echo "$each"; done')  # fmt: skip
    assert offered == ["--retention-bytes=", "--retention-time="]
    known = bash(f"\ncomplete -p {' '.join(programs())}")
    assert known.count("-W") == len(programs())


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        ("mqadmin topicRou", ["topicRoute"]),
        ("mqadmin topicRoute --l", ["--list"]),
        ("mqadmin topicRoute --namesrv", ["--namesrvAddr="]),
        ("mqadmin clusterRT -p", ["-p"]),
        ("mqadmin help clusterL", ["clusterList"]),
        ("mqadmin nosuch --", []),
    ],
)
def test_it_completes_mqadmin(words: str, offered: list[str]) -> None:
    assert bash(_ASK.format(words=words, function="_penstock_mqadmin")) == offered


def fish(*lines: str) -> list[str]:
    """The offers for each of these lines, with the help behind a tab."""
    asked = "".join(f"complete --do-complete '{line}'\n" for line in lines)
    text = f"{printed('fish')}\n{asked}"  # longer than an argument may be
    ended = subprocess.run([needed("fish", "fish"), "--no-config"], input=text,
                           capture_output=True, text=True, timeout=60)  # fmt: skip
    assert (ended.returncode, ended.stderr) == (0, "")
    return ended.stdout.splitlines()


def test_it_completes_commands_and_flags_with_their_help() -> None:
    offered = [line.split("\t") for line in fish(*(typed for typed, _ in COMPLETED))]
    assert [line[0] for line in offered] == [wanted.split()[-1] for _, wanted in COMPLETED]
    assert offered[3] == ["--configFile", "properties, as Java's has them"]


@pytest.fixture(scope="module")
def zsh(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Screen]:
    """A zsh that has read the script, with an empty line."""
    file = tmp_path_factory.mktemp("zsh") / "penstock.zsh"
    file.write_text(printed("zsh"))
    shell = [needed("zsh", "zsh"), "-f", "-i"]
    with screen(program=shell, columns=140, lines=50) as shown:
        start = f"PS1='ready '; autoload -Uz compinit; compinit -D -u; source {file}; clear\n"
        shown.type(start)
        shown.until(lambda text: text.strip() == "ready")
        yield shown


def empty(zsh: Screen) -> None:
    """Take away what is typed, and what is on the screen."""
    zsh.type("\x15\x0c")
    zsh.until(lambda text: text.strip() == "ready")


@pytest.mark.parametrize(("typed", "wanted"), COMPLETED)
def test_it_completes_commands_and_flags(zsh: Screen, typed: str, wanted: str) -> None:
    zsh.type(f"{typed}\t")
    zsh.until(lambda text: text.startswith(f"ready {wanted}"))
    empty(zsh)


def test_it_shows_the_help_of_what_it_offers(zsh: Screen) -> None:
    zsh.type("mqadmin clusterRT -\t")
    zsh.until(lambda text: "print as tlog | default false" in text)
    empty(zsh)
