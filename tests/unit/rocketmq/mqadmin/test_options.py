"""Command lines as commons-cli reads them, and the sub-commands that there are."""

from __future__ import annotations

import pytest

from penstock.rocketmq.mqadmin.errors import CommandFailed
from penstock.rocketmq.mqadmin.posix_parser import (
    BadUsage,
    ParsedOptions,
    SubCommand,
    either,
    flag,
    may,
    must,
    parse,
    usage,
)
from penstock.rocketmq.mqadmin.sub_commands import SUB_COMMANDS, find

COMMAND = SubCommand(
    "c", "", "a.b",
    (must("t", "topic", ""), may("p", "perm", ""), flag("l", "list", ""), flag("m", "more", "")),
)  # fmt: skip
PLACED = SubCommand("c", "", "a.b", (either("b", "brokerAddr", ""), either("c", "clusterName", "")))
_TOPIC_ROUTE = """\
usage: mqadmin topicRoute [--client-opt <arg>] [-h] [--json] [-l] [-n <arg>] -t <arg>
    --client-opt <arg>    Option of the client, name,value: tls_enable,true (may be repeated)
 -h,--help                Print help
    --json                Print one JSON object; the exit code shows a failure
 -l,--list                Use list format to print data
 -n,--namesrvAddr <arg>   Name server address list, eg: '192.168.0.1:9876;192.168.0.2:9876'
 -t,--topic <arg>         topic name
"""


@pytest.mark.parametrize(
    "line", ["-t T", "-tT", "--topic T", "--topic=T", "--top T", "-lt T", "-t T -t other", "-t T x"]
)
def test_the_ways_to_give_a_value(line: str) -> None:
    assert parse(COMMAND, line.split()).text("topic") == "T"


def test_flags_stand_before_a_value_and_a_negative_number_is_one() -> None:
    given = parse(COMMAND, ["-lmtT"])
    assert ("list" in given, "more" in given, given.text("topic")) == (True, True, "T")
    assert parse(COMMAND, ["-t", "-1"]).number("topic") == -1


@pytest.mark.parametrize("line", ["", "-t", "-t -l", "-z -t T", "--nosuch -t T", "--m -t T -x"])
def test_what_fits_no_option_is_refused(line: str) -> None:
    with pytest.raises(BadUsage):
        parse(COMMAND, line.split())


def test_exactly_one_of_a_group_is_given() -> None:
    for words in ([], ["-b", "x", "-c", "y"]):
        with pytest.raises(BadUsage):
            parse(PLACED, words)
    assert parse(PLACED, ["-b", "x"]).text("brokerAddr") == "x"


def test_an_option_of_the_client_may_be_repeated() -> None:
    given = parse(COMMAND, ["-tT", "--client-opt", "a,1", "--client-opt=b"])
    assert given.all("client-opt") == ["a,1", "b"]
    assert ParsedOptions().all("client-opt") == []


def test_values_are_read_as_java_reads_them() -> None:
    given = ParsedOptions({"yes": " TRUE ", "one": "1", "text": " x ", "number": "7"})
    assert given.is_true("yes")
    assert not given.is_true("one")
    assert given.is_true("missing", True)
    assert (given.text("text"), given.number("number"), given.number("missing", 3)) == ("x", 7, 3)
    with pytest.raises(CommandFailed, match="--text 'x' is not a whole number"):
        given.number("text")


def test_the_usage_of_a_sub_command() -> None:
    command = find("topicRoute")
    assert command is not None
    assert usage(command) == _TOPIC_ROUTE


def test_long_lines_are_wrapped_below_the_name() -> None:
    command = find("updateTopic")
    assert command is not None
    lines = usage(command).splitlines()
    assert lines[0].startswith("usage: mqadmin updateTopic [-a <arg>] -b <arg> | -c <arg>  [")
    assert lines[1].startswith("       ")
    assert max(map(len, lines)) <= 110


# --- sub-commands ---------------------------------------------------------------------------------


def test_names_are_found_in_any_case_and_by_alias() -> None:
    assert find("TOPICLIST") is find("topicList")
    assert find("deleteAccessConfig") is find("deleteAclConfig")
    assert find("nosuch") is None
    assert find("") is None


def test_no_letter_has_two_meanings() -> None:
    for command in SUB_COMMANDS:
        letters = [each.letter for each in command.options if each.letter]
        assert len(letters) == len(set(letters)), command.name
