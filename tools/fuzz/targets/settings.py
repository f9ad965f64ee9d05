"""What an operator writes: flags, durations, a configuration file."""

from __future__ import annotations

import tomllib

from penstock.core.settings.flags import FlagError, HelpRequested, parse_words
from penstock.core.settings.option_kinds import FatalFlagError
from penstock.core.units import format_duration, parse_duration
from penstock.nsq.nsqd.nsqd_options import NsqdOptions

from . import Target

_KINDS = {each.flag: each.kind for each in NsqdOptions.declared.values()}


def durations(data: bytes) -> None:
    """A duration: its own text reads as the same again."""
    try:
        found = parse_duration(data.decode("utf-8", "surrogateescape"))
    except ValueError as error:
        assert str(error).startswith("time: "), error
        return
    assert parse_duration(format_duration(found)) == found


def flags(data: bytes) -> None:
    """A command line of nsqd, its words parted by zero bytes."""
    words = data.decode("utf-8", "surrogateescape").split("\0")
    try:
        given, _ = parse_words(words, _KINDS)
    except (FlagError, FatalFlagError, HelpRequested):
        return
    for name, value in given.items():
        _KINDS[name].show(value)


def configuration(data: bytes) -> None:
    """The values of a configuration file: taken, or refused with a reason."""
    try:
        table = tomllib.loads(data.decode())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError):
        return
    except RecursionError:
        return  # tomllib's own limit on nesting
    for each in NsqdOptions.declared.values():
        for value in table.values():
            try:
                taken = each.kind.from_config(value)
            except ValueError:
                continue
            each.kind.show(taken)


TARGETS = {
    "durations": Target(
        durations,
        [b"1h30m", b"-1.5s", b"250ms", "3\u00b5s".encode(), b"0", b"+2h", b".5us"],
        [b"ns", b"us", b"ms", b"s", b"m", b"h", b".", b"-", b"9" * 20],
    ),
    "flags": Target(
        flags,
        [
            b"-tcp-address=:1\0--verbose\0-sync-every\x0050",
            b"--e2e-processing-latency-percentile=0.5,0.9\0-msg-timeout=1m",
            b"-tls-required=tcp-https\0-tls-min-version=tls1.2\0-log-level=debug\0--\0x",
            b"-deflate=false\0-max-rdy-count=0x10\0-node-id=-1",
        ],
        [b"\0", b"-", b"=", b"--", b"9" * 30, b"true", b"0b", b"1_0"],
    ),
    "configuration": Target(
        configuration,
        [
            b'tcp_address = "0.0.0.0:4150"\nsync_every = 5\ndeflate = true\n',
            b'msg_timeout = "1m"\nnsqlookupd_tcp_addresses = ["a", "b"]\ntls_required = "yes"\n',
            b"x = 1.5\ny = [1, 2.5]\nz = 1979-05-27T07:32:00Z\n[table]\na = 1\n",
        ],
        [b" = ", b"\n", b"[", b"]", b'"', b"nan", b"inf", b"1e400", b"-9223372036854775808"],
    ),
}
