"""A wrong command line of ``penstock`` is one line that names the flag and the remedy."""

from __future__ import annotations

from typing import get_args

import pytest

from penstock.cli.penstock import Subject, app
from tests.unit.cli.nodes_at_work import Commands

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
        (("promote", "h:1", "--nsqd-http-address=h:2"), "one follower is promoted: "),
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
