"""Command lines as commons-cli reads them."""

from __future__ import annotations

import pytest

from penstock.rocketmq.mqadmin.errors import CommandFailed
from penstock.rocketmq.mqadmin.options import (
    BadUsage,
    Given,
    SubCommand,
    either,
    flag,
    may,
    must,
    parse,
)

COMMAND = SubCommand(
    "c", "", "a.b",
    (must("t", "topic", ""), may("p", "perm", ""), flag("l", "list", ""), flag("m", "more", "")),
)  # fmt: skip
PLACED = SubCommand("c", "", "a.b", (either("b", "brokerAddr", ""), either("c", "clusterName", "")))


@pytest.mark.parametrize(
    "line", ["-t T", "-tT", "--topic T", "--topic=T", "--top T", "-lt T", "-t T -t other", "-t T x"]
)
def test_the_ways_to_give_a_value(line: str) -> None:
    assert parse(COMMAND, line.split()).text("topic") == "T"


def test_flags_can_be_joined_and_stand_before_a_value() -> None:
    given = parse(COMMAND, ["-lmtT"])
    assert ("list" in given, "more" in given, given.text("topic")) == (True, True, "T")


def test_a_negative_number_is_a_value() -> None:
    assert parse(COMMAND, ["-t", "-1"]).number("topic") == -1


@pytest.mark.parametrize("line", ["", "-t", "-t -l", "-z -t T", "--nosuch -t T", "--m -t T -x"])
def test_what_fits_no_option_is_refused(line: str) -> None:
    with pytest.raises(BadUsage):
        parse(COMMAND, line.split())


@pytest.mark.parametrize("line", ["", "-b x -c y"])
def test_exactly_one_of_a_group_is_given(line: str) -> None:
    with pytest.raises(BadUsage):
        parse(PLACED, line.split())
    assert parse(PLACED, ["-b", "x"]).text("brokerAddr") == "x"


def test_an_option_of_the_client_may_be_repeated() -> None:
    given = parse(COMMAND, ["-tT", "--client-opt", "a,1", "--client-opt=b"])
    assert given.all("client-opt") == ["a,1", "b"]
    assert Given().all("client-opt") == []


def test_values_are_read_as_java_reads_them() -> None:
    given = Given({"yes": " TRUE ", "one": "1", "text": " x ", "number": "7"})
    assert given.is_true("yes")
    assert not given.is_true("one")
    assert given.is_true("missing", True)
    assert (given.text("text"), given.number("number"), given.number("missing", 3)) == ("x", 7, 3)
    with pytest.raises(CommandFailed, match="--text 'x' is no whole number"):
        given.number("text")
