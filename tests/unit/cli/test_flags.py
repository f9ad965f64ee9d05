"""Flags of all programs: how help shows them, and complaints about wrong ones."""

from __future__ import annotations

from typing import get_args

import pytest

from penstock.cli.flags.programs import mqadmin, programs
from penstock.cli.penstock import Subject, app
from tests.unit.cli.nodes_at_work import Commands


def test_the_flags_of_all_programs(command: Commands) -> None:
    ended = command("help", "flags")
    assert (ended.code, ended.err) == (0, "")
    headings = [line for line in ended.out.splitlines() if line and not line.startswith(" ")]
    assert headings == [*programs(), *(f"mqadmin {name}" for name in mqadmin())]
    assert "  --max-in-flight=int\n        max number of messages to allow" in ended.out


def test_words_choose_programs_and_flags(command: Commands) -> None:
    ended = command("help", "flags", "nsqd", "retention")
    lines = ended.out.splitlines()
    assert lines[0] == "nsqd"
    flags = [line.strip().partition("=")[0] for line in lines if line.startswith("  --")]
    assert {"--retention-time", "--retention-bytes"} <= set(flags)
    assert "--tcp-address" not in flags


def test_the_options_of_a_sub_command(command: Commands) -> None:
    ended = command("help", "flags", "mqadmin", "topicroute", "topic")
    assert ended.out == "mqadmin topicRoute\n  -t, --topic=value\n        topic name\n"
    ended = command("help", "flags", "clusterRT", "tlog")
    assert ended.out == "mqadmin clusterRT\n  -p value\n        print as tlog | default false\n"


@pytest.mark.parametrize("words", [("zzz",), ("nsqd", "zzz")])
def test_nothing_found_is_said(command: Commands, words: tuple[str, ...]) -> None:
    ended = command("help", "flags", *words)
    assert ended.code == 1
    assert ended.err == f"penstock: no flag of any program is about {' '.join(words)}\n"


ARCHIVE = ("pipeline", "run", "archive", "--topic=t", "--to=lake")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (ARCHIVE, "--checkpoint is required; see `penstock pipeline run archive --help`"),
        (("replay",), "TOPIC is required; see `penstock replay --help`"),
        ((*ARCHIVE, "--checkpoint"), "--checkpoint needs a value; see `penstock pipeline run "
         "archive --help`"),
        (("top", "--intervall=1s"), "Unknown option: --intervall. Did you mean --interval? See "
         "`penstock top --help`"),
        (("topp",), "there is no command topp; did you mean top? See `penstock --help`"),
        (("zzz",), "there is no command zzz; see `penstock --help`"),
        (("help", "dlq", "lst"), "there is no command lst; did you mean list? See `penstock dlq "
         "--help`"),
        (("dlq", "lst"), "there is no command lst; did you mean list? See `penstock dlq --help`"),
        (("doctor", "data"), "data has no place here: did you mean --data-path data? See "
         "`penstock doctor --help`"),
        (("backup", "to", "data"), "data has no place here: did you mean --data-path data? See "
         "`penstock backup --help`"),
        (("top", "127.0.0.1:4151"), "127.0.0.1:4151 has no place here: did you mean "
         "--nsqd-http-address 127.0.0.1:4151? See `penstock top --help`"),
        (("top", "orders", "x"), "orders x has no place here; see `penstock top --help`"),
        (("demo", "--rate=x"), 'Invalid value for --rate: unable to convert "x" into int; see '
         "`penstock demo --help`"),
    ],
)  # fmt: skip
def test_one_line(command: Commands, words: tuple[str, ...], said: str) -> None:
    ended = command(*words)
    assert (ended.code, ended.out) == (2, "")
    assert ended.err == f"penstock: {said}\n"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("top", "--interval=abc"), "--interval abc: give a duration such as "),
        (("replay", "t", "--grep=("), "--grep (: "),
        (("replay", "t", "--filter=x"), "--filter x: "),
        (("replay", "t", "--from-time=x"), "--from-time x: "),
        (("replay", "t", "--to-nsqd=h:1"), "--to-nsqd goes with --to, "),
        (("replay", "t", "--to=u", "--client-opt=x"), "--client-opt x: "),
        (("top", "--nsqd-http-address=foo"), "--nsqd-http-address foo: "),
        (("dlq", "list", "--lookupd-http-address=h:x"), "--lookupd-http-address h:x: "),
        (("promote", "foo"), "ADDRESS foo: "),
        (("top", "--tls-key=k"), "--tls-key is of no use without --tls-cert"),
        (("dlq", "show", "t", "--id=x"), "--id x: "),
        (("dlq", "resend", "t"), "say which letters: --all, or "),
        (("backup", "to"), "say what to back up: --data-path"),
        (("doctor", "--repair"), "--repair and --accept-damage need the --data-path "),
        (("promote",), "say which follower: penstock promote HOST:PORT"),
        (("pipeline", "sql", "--timeout=x", "select 1"), "--timeout x: "),
    ],
)
def test_a_value_that_makes_no_sense(command: Commands, words: tuple[str, ...], said: str) -> None:
    ended = command(*words)
    assert (ended.code, ended.out, ended.err.count("\n")) == (2, "", 1)
    assert ended.err.startswith(f"penstock: {said}")


@pytest.mark.parametrize(
    ("words", "like"),
    [((), ("--help",)), (("top",), ("top", "--help")),
     (("dlq", "list"), ("dlq", "list", "--help"))],
)  # fmt: skip
def test_help_is_a_command_as_well(
    command: Commands, words: tuple[str, ...], like: tuple[str, ...]
) -> None:
    asked, wanted = command("help", *words), command(*like)
    assert (asked.code, asked.out, asked.err) == (0, wanted.out, "")
    assert wanted.out.startswith("Usage: ")


def test_help_knows_every_command() -> None:
    commands = {each for each in app if not each.startswith("-")}
    assert {*get_args(Subject)} == {*commands, "flags"} - {"help"}
