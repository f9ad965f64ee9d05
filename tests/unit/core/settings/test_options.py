"""Options of programs: kinds of values, the command line, the file, refusals."""

from __future__ import annotations

import logging
import re
from pathlib import Path
from typing import Any

import pytest

from penstock import __version__
from penstock.core.settings.option_kinds import (
    BOOL,
    DURATION,
    FLOAT,
    FLOATS,
    INT,
    LOG_LEVEL,
    STRING,
    STRINGS,
    FatalFlagError,
    Kind,
    kind_of,
)
from penstock.core.settings.options import Flags, Options, load, option, parse
from penstock.core.settings.tls_kinds import TLS_MIN_VERSION, TLS_REQUIRED, TlsRequired
from penstock.core.settings.version import NSQ_VERSION, version_line
from penstock.core.settings.web_options import HOSTS, ORIGINS
from penstock.core.units import MINUTE, SECOND


class Sample(Options):
    tcp_address: str = option("0.0.0.0:4150", "where to listen")
    msg_timeout: int = option(MINUTE, "how long", kind=DURATION)
    mem_queue_size: int = option(10_000, "how many")
    deflate: bool = option(True, "whether")
    log_level: int = option(20, "how much", kind=LOG_LEVEL)
    lookupd_tcp_addresses: tuple[str, ...] = option(
        (), "whom to ask", flag="lookupd-tcp-address", key="nsqlookupd_tcp_addresses"
    )
    percentiles: tuple[float, ...] = option((), "which", flag="percentile", kind=FLOATS)
    broadcast_address: str = option(help="who", factory=lambda: "box")
    secret_pace: int = option(3, "for tests", hidden=True)


def given(*argv: str) -> Sample:
    return load(Sample, argv, "nsqd", "nsqd v1.3.0")


def config(tmp_path: Path, text: str, *argv: str) -> Sample:
    file = tmp_path / "nsqd.cfg"
    file.write_text(text)
    return given(f"--config={file}", *argv)


def left(capsys: pytest.CaptureFixture[str], *argv: str) -> tuple[object, str, str]:
    with pytest.raises(SystemExit) as caught:
        given(*argv)
    shown = capsys.readouterr()
    return caught.value.code, shown.out, shown.err


def test_defaults() -> None:
    options = given()
    assert options.tcp_address == "0.0.0.0:4150"
    assert options.msg_timeout == MINUTE
    assert options.lookupd_tcp_addresses == ()
    assert options.broadcast_address == "box"
    assert options.config == ""


def test_flags() -> None:
    options = given("--lookupd-tcp-address=a", "-lookupd-tcp-address", "b,c", "--deflate=false")
    assert options.lookupd_tcp_addresses == ("a", "b,c")
    assert options.deflate is False
    assert given("--percentile=0.5,1.0", "--percentile=0.9").percentiles == (1.0, 0.9, 0.5)
    assert given("--secret-pace=9").secret_pace == 9


def test_made_by_keywords() -> None:
    options = Sample(mem_queue_size=1)
    assert options.replace(deflate=False).mem_queue_size == 1
    assert "mem_queue_size=1" in repr(options)
    with pytest.raises(TypeError, match="unknown options: nope"):
        Sample(nope=1)


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert left(capsys, "--version") == (0, "nsqd v1.3.0\n", "")
    assert left(capsys, "-version=true")[0] == 0


@pytest.mark.parametrize("word", ["-h", "--help"])
def test_help(capsys: pytest.CaptureFixture[str], word: str) -> None:
    code, out, err = left(capsys, word)
    assert (code, out) == (0, "")
    assert err.startswith("Usage of nsqd:\n  -broadcast-address string\n    \twho (default")
    assert "  -msg-timeout duration\n    \thow long (default 1m0s)\n" in err
    assert "  -deflate\n    \twhether (default true)\n" in err
    assert "  -lookupd-tcp-address value\n    \twhom to ask\n" in err
    assert "secret" not in err


@pytest.mark.parametrize(
    ("flag", "explained"),
    [
        ("--tcp-adress=a", "flag provided but not defined: -tcp-adress; did you mean"
         " -tcp-address?"),
        ("--zzz", "flag provided but not defined: -zzz"),
        ("--deflate=maybe", 'invalid boolean value "maybe" for -deflate: parse error; give true or'
         " false"),
        ("--mem-queue-size=x", 'invalid value "x" for flag -mem-queue-size: parse error; give a'
         " whole number"),
        ("--msg-timeout=1day", 'invalid value "1day" for flag -msg-timeout: parse error; give a'
         " duration such as 500ms, 90s or 1h30m (units: ns, us, ms, s, m, h)"),
        ("--msg-timeout", "flag needs an argument: -msg-timeout; give a duration such as 500ms, 90s"
         " or 1h30m (units: ns, us, ms, s, m, h)"),
    ],
)  # fmt: skip
def test_a_wrong_flag_is_explained_on_the_last_line(
    capsys: pytest.CaptureFixture[str], flag: str, explained: str
) -> None:
    code, out, err = left(capsys, flag)
    assert (code, out) == (2, "")
    first, second, *_, last = err.splitlines()
    assert (second, last) == ("Usage of nsqd:", f"nsqd: {explained}")
    assert explained.startswith(first)


def test_a_program_is_named_without_its_folder(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parse(ToolSample, ["--topci=t"], "/usr/bin/nsq_tail")
    said = capsys.readouterr().err
    assert "\nUsage of /usr/bin/nsq_tail:\n" in said
    assert said.endswith(
        "\nnsq_tail: flag provided but not defined: -topci; did you mean -topic?\n"
    )


def test_words_that_end_the_flags_are_warned_of(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--deflate", "true", "--msg-timeout=5s", "--tcp-address=http://me:hush@host:1"]
    options = load(Sample, words, "nsqd")
    assert (options.deflate, options.tcp_address) == (True, "0.0.0.0:4150")
    [said] = capsys.readouterr().err.splitlines()
    assert (
        " WARNING: no flag, so this and all behind it has no effect: true --msg-timeout=5s" in said
    )
    assert "hush" not in said


def test_unknown_keys_of_a_file_are_warned_of(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = 'tcp_adress = "127.0.0.1:1"\nmsg_timeout = "5s"\nzzz = 1\n[nsqd]\n'
    options = config(tmp_path, text)
    assert (options.tcp_address, options.msg_timeout) == ("0.0.0.0:4150", 5 * SECOND)
    said = [line.split(" WARNING: ", 1)[1] for line in capsys.readouterr().err.splitlines()]
    has_none = f"{tmp_path / 'nsqd.cfg'}: the key %s is unknown and has no effect"
    assert said == [
        has_none % "nsqd",
        has_none % "tcp_adress" + "; did you mean tcp_address?",
        has_none % "zzz",
    ]


def test_bad_percentile(capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = left(capsys, "--percentile=x")
    assert code == 1
    assert re.fullmatch(r"\d{4}/\d\d/\d\d \d\d:\d\d:\d\d Could not parse: x\n", err)


def test_config_file(tmp_path: Path) -> None:
    text = """
        msg_timeout = 2000
        mem_queue_size = "55"
        unknown_key = 5
        mem-queue-size = 6
        nsqlookupd_tcp_addresses = "a,b"
        deflate = "false"
        log_level = "debug"
    """
    options = config(tmp_path, text)
    assert options.msg_timeout == 2 * SECOND
    assert options.mem_queue_size == 55
    assert options.lookupd_tcp_addresses == ("a", "b")
    assert options.deflate is False
    assert options.log_level == 10


def test_config_file_with_a_byte_order_mark(tmp_path: Path) -> None:
    assert config(tmp_path, "\ufeffmsg_timeout = 2000").msg_timeout == 2 * SECOND


@pytest.mark.parametrize(
    "line",
    [
        r'tcp_address = "here\u0000:4150"',
        r'nsqlookupd_tcp_addresses = ["a", "b\u0000:4160"]',
        r'nsqlookupd_tcp_addresses = "a,b\u0000"',
    ],
)
def test_a_text_of_the_file_holds_no_nul(
    tmp_path: Path, line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as left:
        config(tmp_path, line)
    assert left.value.code == 1
    assert "it holds a NUL character" in capsys.readouterr().err


def test_flags_win_over_the_file(tmp_path: Path) -> None:
    text = 'mem_queue_size = "not looked at"\nnsqlookupd_tcp_addresses = ["a", "b"]\n'
    options = config(tmp_path, text, "--mem-queue-size=7", "--lookupd-tcp-address=c")
    assert options.mem_queue_size == 7
    assert options.lookupd_tcp_addresses == ("c",)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            'msg_timeout = "5"',
            "ERROR: Resolve failed to coerce value 5 (1m0s) for field MsgTimeout"
            ' - time: missing unit in duration "5"',
        ),
        (
            "mem_queue_size = 1.5",
            "ERROR: Resolve failed to coerce value 1.5 (10000) for field MemQueueSize"
            " - invalid int64 value type float64; give mem_queue_size a whole number",
        ),
        (
            "nsqlookupd_tcp_addresses = [1, true]",
            "ERROR: Resolve failed to coerce value [1 true] ([]) for field NSQLookupdTCPAddresses"
            " - invalid []string value type []interface {}",
        ),
        ('log_level = "loud"\nmsg_timeout = "5"', "FATAL: failed parsing log_level loud"),
        ("mem_queue_size =", "FATAL: failed to load config file <file> - toml: "),
    ],
)
def test_unusable_config_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, message: str
) -> None:
    with pytest.raises(SystemExit) as caught:
        config(tmp_path, text)
    assert caught.value.code == 1
    assert message.replace("<file>", str(tmp_path / "nsqd.cfg")) in capsys.readouterr().err


def test_missing_config_file(capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = left(capsys, "--config=/nope.cfg")
    assert code == 1
    assert err.startswith("[nsqd] ")
    assert err.endswith(
        "FATAL: failed to load config file /nope.cfg - open /nope.cfg: no such file or directory\n"
    )


class ToolSample(Flags):
    rate: float = option(1.0, "how quickly", kind=FLOAT)
    topic: str = option("", "which")


def test_flags_without_a_file_keep_the_words_after_them() -> None:
    flags = parse(ToolSample, ["--rate=0.5", "one", "--topic=t"], "tool")
    assert (flags.rate, flags.topic, flags.arguments) == (0.5, "", ("one", "--topic=t"))
    changed = flags.replace(topic="t")
    assert (changed.rate, changed.topic, changed.arguments) == (0.5, "t", ("one", "--topic=t"))


def test_flags_without_a_file_have_no_config(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        parse(ToolSample, ["--config=x"], "tool")
    assert caught.value.code == 2
    assert "-rate float\n    \thow quickly (default 1)\n" in capsys.readouterr().err


NINES = "9" * 20


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        (STRING, " x ", " x "),
        (BOOL, "T", True), (BOOL, "0", False),
        (INT, "12", 12), (INT, "-0x1F", -31), (INT, "0b101", 5), (INT, "017", 15),
        (INT, "0_17", 15), (INT, "1_000", 1000), (INT, "+5", 5), (INT, "0", 0),
        (DURATION, "1m", 60 * SECOND), (DURATION, "0", 0),
        (STRINGS, "a,b", ("a,b",)),
        (FLOATS, "0.5,1.0", (0.5, 1.0)), (FLOAT, "0.5", 0.5),
        (LOG_LEVEL, "WARN", logging.WARNING),
        (TLS_REQUIRED, "true", TlsRequired.YES), (TLS_REQUIRED, "TRUE", TlsRequired.YES),
        (TLS_REQUIRED, "0", TlsRequired.NO), (TLS_REQUIRED, "TCP-HTTPS", TlsRequired.EXCEPT_HTTP),
        (TLS_MIN_VERSION, "", 769), (TLS_MIN_VERSION, "tls1.0", 769),
        (TLS_MIN_VERSION, "TLS1.3", 772),
        *((ORIGINS, each, (each,)) for each in ("http://a", "https://a.b:8443",
          "chrome-extension://abc", "http://[::1]:80", "*")),
        *((HOSTS, each, (each,)) for each in ("localhost", "a.b:8443", "127.0.0.1", "[::1]",
          "[::1]:80")),
    ],
)  # fmt: skip
def test_from_flag(kind: Kind, text: str, value: Any) -> None:
    assert kind.from_flag(text) == value
    if kind in (TLS_REQUIRED, TLS_MIN_VERSION, ORIGINS, HOSTS):
        assert kind.from_config(text) == value


@pytest.mark.parametrize(
    ("kind", "text", "reason"),
    [
        (BOOL, "maybe", "parse error"), (BOOL, "", "parse error"),
        (INT, "x", "parse error"), (INT, "1__0", "parse error"), (INT, "08", "parse error"),
        (INT, " 1", "parse error"), (INT, "٣", "parse error"),
        (INT, "9223372036854775808", "value out of range"),
        (DURATION, "5", "parse error"),
        (LOG_LEVEL, "x", "invalid log level 'x' (debug, info, warn, error, fatal)"),
        (FLOATS, "0.5,x", "Could not parse: x"),
        (TLS_REQUIRED, "maybe", 'strconv.ParseBool: parsing "maybe": invalid syntax'),
        (TLS_MIN_VERSION, "ssl3.0", 'unknown tlsVersionOption "ssl3.0"'),
        (TLS_MIN_VERSION, "tls1.4", 'unknown tlsVersionOption "tls1.4"'),
    ],
)  # fmt: skip
def test_from_flag_refuses(kind: Kind, text: str, reason: str) -> None:
    with pytest.raises(ValueError) as caught:
        kind.from_flag(text)
    assert str(caught.value) == reason


@pytest.mark.parametrize(
    ("kind", "toml", "value"),
    [
        (STRING, 5, "5"), (STRING, True, "true"),
        (BOOL, True, True), (BOOL, "false", False), (BOOL, 1, True),
        (INT, "55", 55), (INT, 7, 7),
        (DURATION, 2000, 2 * SECOND), (DURATION, "1500ms", 1_500_000_000),
        (STRINGS, ["a", "b"], ("a", "b")), (STRINGS, "a,b", ("a", "b")), (STRINGS, "", ()),
        (FLOATS, [0.5, 1], (0.5, 1.0)), (FLOATS, "0.5,0.9", (0.5, 0.9)),
        (FLOATS, "0.5, 0.9 ", (0.5, 0.9)), (FLOATS, 0.5, (0.5,)), (FLOAT, 1, 1.0),
        (LOG_LEVEL, "debug", logging.DEBUG),
        (TLS_REQUIRED, True, TlsRequired.YES),
        (ORIGINS, ["http://a", "*"], ("http://a", "*")),
    ],
)  # fmt: skip
def test_from_config(kind: Kind, toml: Any, value: Any) -> None:
    assert kind.from_config(toml) == value


@pytest.mark.parametrize(
    ("kind", "toml", "reason"),
    [
        (BOOL, "maybe", 'strconv.ParseBool: parsing "maybe": invalid syntax'),
        (BOOL, 1.5, "invalid bool value type float64"),
        (INT, "x", 'strconv.ParseInt: parsing "x": invalid syntax'),
        (INT, NINES, f'strconv.ParseInt: parsing "{NINES}": value out of range'),
        (INT, 1 << 63, "value out of range"),
        (INT, 1.5, "invalid int64 value type float64"),
        (INT, True, "invalid int64 value type bool"),
        (DURATION, 1.5, "invalid time.Duration value type float64"),
        (DURATION, "5", 'time: missing unit in duration "5"'),
        (DURATION, 1 << 50, "value out of range"),
        (STRINGS, [1], "invalid []string value type []interface {}"),
        (STRINGS, {}, "invalid []string value type map[string]interface {}"),
        (FLOAT, True, "invalid float64 value type bool"),
        (FLOATS, [True], "invalid []float64 value type []interface {}"),
        (FLOATS, "0.5,x", 'strconv.ParseFloat: parsing "x": invalid syntax'),
    ],
)
def test_from_config_refuses(kind: Kind, toml: Any, reason: str) -> None:
    with pytest.raises(ValueError) as caught:
        kind.from_config(toml)
    assert str(caught.value) == reason


def test_repeated_flags() -> None:
    assert INT.accumulate(1, 2) == 2
    assert STRINGS.accumulate(None, ("a",)) == ("a",)
    assert STRINGS.accumulate(("a",), ("b",)) == ("a", "b")
    assert FLOATS.accumulate((1.0, 0.5), (0.9,)) == (1.0, 0.9, 0.5)


@pytest.mark.parametrize(
    ("kind", "value", "shown", "default"),
    [
        (STRING, "x", "x", '"x"'), (STRING, "", "", ""),
        (BOOL, True, "true", "true"), (BOOL, False, "false", ""),
        (INT, 5, "5", "5"), (INT, 0, "0", ""),
        (DURATION, 60 * SECOND, "1m0s", "1m0s"), (DURATION, 0, "0s", ""),
        (STRINGS, ("a", "b"), "[a b]", "a,b"),
        (FLOATS, (1.0, 0.5), "[1 0.5]", "1,0.5"), (FLOAT, 1.0, "1", "1"),
        (LOG_LEVEL, logging.INFO, "INFO", "INFO"),
        (TLS_REQUIRED, TlsRequired.EXCEPT_HTTP, "1", "tcp-https"),
        (TLS_REQUIRED, TlsRequired.NO, None, ""),
        (TLS_MIN_VERSION, 770, None, "tls1.1"),
    ],
)  # fmt: skip
def test_shown(kind: Kind, value: Any, shown: str | None, default: str) -> None:
    assert shown is None or kind.show(value) == shown
    assert kind.show_default(value) == default


def test_kind_of() -> None:
    assert [kind_of(x) for x in (True, 1, "", ())] == [BOOL, INT, STRING, STRINGS]
    with pytest.raises(TypeError):
        kind_of(1.5)


def test_a_bad_percentile_is_fatal() -> None:
    with pytest.raises(FatalFlagError):
        FLOATS.from_flag("nan")


@pytest.mark.parametrize(
    ("kind", "text", "reason"),
    [
        *((ORIGINS, each, "an origin is <scheme>") for each in
          ("", "a", "http://a/", "http://a/b", "http://u@a", "null", "**")),
        *((HOSTS, each, "a host is <name>") for each in
          ("", "http://a", "a/b", "::1", "a:b", "a b")),
    ],
)  # fmt: skip
def test_what_is_no_origin_or_host_is_refused(kind: Kind, text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        kind.from_flag(text)
    with pytest.raises(ValueError, match=reason):
        kind.from_config([text])


def test_the_version_is_one_that_clients_can_compare() -> None:
    assert re.fullmatch(r"\d+\.\d+\.\d+", NSQ_VERSION)


def test_version_line() -> None:
    expected = rf"nsqd v1\.3\.0 \(built w/python[^\s)]+\) of Penstock {re.escape(__version__)}"
    assert re.fullmatch(expected, version_line("nsqd"))
