"""The usage as commons-cli lays it out; the expected text is upstream's, with our own options."""

from __future__ import annotations

from penstock.rocketmq.mqadmin.help import usage
from penstock.rocketmq.mqadmin.sub_commands import find

_TOPIC_ROUTE = """\
usage: mqadmin topicRoute [--client-opt <arg>] [-h] [--json] [-l] [-n <arg>] -t <arg>
    --client-opt <arg>    Option of the client, name,value: tls_enable,true (may be repeated)
 -h,--help                Print help
    --json                Print one JSON object; the exit code shows a failure
 -l,--list                Use list format to print data
 -n,--namesrvAddr <arg>   Name server address list, eg: '192.168.0.1:9876;192.168.0.2:9876'
 -t,--topic <arg>         topic name
"""


def test_the_usage_of_a_sub_command() -> None:
    command = find("topicRoute")
    assert command is not None
    assert usage(command) == _TOPIC_ROUTE


def test_long_lines_are_wrapped_below_the_name() -> None:
    command = find("updateTopic")
    assert command is not None
    lines = usage(command).splitlines()
    assert lines[0].startswith("usage: mqadmin updateTopic -b <arg> | -c <arg>  [")
    assert lines[1].startswith("       ")
    assert max(map(len, lines)) <= 110
