"""The flags that the tools share: what they make, what is refused, in Go's order and words."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from penstock import __version__
from penstock.core.errors import ConfigError
from penstock.core.settings.options import option
from penstock.nsq.tools.errors import ToolError
from penstock.nsq.tools.flags import (
    ConsumerFlags,
    ToolFlags,
    check_lookupds,
    check_names,
    check_nsqds,
    check_sources,
    client_options,
    consumer_config,
    leave_after_version,
    parse,
    parse_unchecked,
    producer_config,
)


class Flags(ConsumerFlags):
    topic: str = option("", "NSQ topic")
    producer_options: tuple[tuple[str, str | bool], ...] = client_options(
        "producer-opt", "nsq.Producer"
    )


def test_flags_options_and_arguments() -> None:
    flags = parse(
        Flags, ["-topic", "t", "--nsqd-tcp-address=a", "--nsqd-tcp-address=b", "rest"], "x"
    )
    assert (flags.topic, flags.nsqd_tcp_addresses, flags.arguments) == ("t", ("a", "b"), ("rest",))
    assert flags.max_in_flight == 200


def test_the_version(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        parse(ToolFlags, ["--version"], "nsq_x")
    expected = f"nsq_x v1.3.0 of Penstock {__version__}\n"
    assert (left.value.code, capsys.readouterr().out) == (0, expected)
    flags = parse_unchecked(ToolFlags, ["--version", "x"])
    assert flags.arguments == ("x",)
    with pytest.raises(SystemExit):
        leave_after_version(flags, "nsq_x")


def test_there_is_no_config_file(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        parse(ToolFlags, ["--config=x"], "nsq_x")
    assert left.value.code == 2
    usage = (
        f"not defined: -config\nUsage of {sys.argv[0]}:\n  -version\n    \tprint version string\n"
    )
    last = f"{Path(sys.argv[0]).name}: flag provided but not defined: -config\n"
    assert capsys.readouterr().err.endswith(usage + last)


def test_a_consumers_config() -> None:
    config = consumer_config(parse(Flags, [], "x"), "nsq_x")
    assert (config.max_attempts, config.max_in_flight) == (0, 200)
    assert config.user_agent.startswith("nsq_x/1.3.0 penstock/")
    # --reader-opt is the name before NSQ 1.0.
    argv = ["--consumer-opt=max-attempts,3", "--consumer-opt=max_in_flight,7",
            "--reader-opt=tls_v1"]  # fmt: skip
    config = consumer_config(parse(Flags, argv, "x"), "nsq_x")
    assert (config.max_attempts, config.max_in_flight, config.tls_v1) == (3, 200, True)
    flags = parse(Flags, ["--consumer-opt=heartbeat_interval,90s"], "x")
    with pytest.raises(ConfigError, match="HeartbeatInterval 1m30s must be less than ReadTimeout"):
        consumer_config(flags, "x")


def test_a_producers_config() -> None:
    flags = parse(Flags, ["--producer-opt=dial_timeout,3s", "--producer-opt=snappy"], "x")
    config = producer_config(flags.producer_options, "to_nsq")
    assert (config.dial_timeout, config.snappy, config.max_attempts) == (3.0, True, 5)
    assert config.user_agent.startswith("to_nsq/1.3.0 penstock/")


NSQD, LOOKUPD = {"nsqd_tcp_addresses": ("a:1",)}, {"lookupd_http_addresses": ("b:1",)}
NO_SOURCE = "--nsqd-tcp-address or --lookupd-http-address required"


@pytest.mark.parametrize(
    ("check", "text"),
    [
        (lambda: check_sources(Flags()), NO_SOURCE),
        (lambda: check_sources(Flags(), full_stop="."), f"{NO_SOURCE}\\."),
        (lambda: check_sources(Flags(**NSQD, **LOOKUPD)),
         "use --nsqd-tcp-address or --lookupd-http-address not both"),
        (lambda: check_names(["t", "bad!"], "c"), "invalid topic name"),
        (lambda: check_names(["t"], "bad!"), "invalid channel name"),
        (lambda: check_nsqds(["h"]), "dial tcp: address h: missing port in address"),
        (lambda: check_lookupds(["h:1", "http://h"]), "missing port"),
        (lambda: check_lookupds(["h:x"]), 'parse "h:x": .*'),
    ],
)  # fmt: skip
def test_what_is_refused(check: Callable[[], None], text: str) -> None:
    with pytest.raises(ToolError, match=f"^{text}$"):
        check()


def test_what_is_right() -> None:
    check_sources(Flags(**NSQD))
    check_names(["t", "t2#ephemeral"], "c")
    check_nsqds(["127.0.0.1:4150", "[::1]:4150"])
    check_lookupds(["127.0.0.1:4161", "http://h:1/path?q=1"])
