from __future__ import annotations

import re
from pathlib import Path

import pytest

from penstock.core.settings.option_kinds import DURATION, FLOAT, FLOATS, LOG_LEVEL
from penstock.core.settings.options import Flags, Options, load, option, parse
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


def test_wrong_flag(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = left(capsys, "--msg-timeout=5")
    assert (code, out) == (2, "")
    assert err.splitlines()[:2] == [
        'invalid value "5" for flag -msg-timeout: parse error',
        "Usage of nsqd:",
    ]


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
    first, *_, last = err.splitlines()
    assert last == f"nsqd: {explained}"
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
            " - invalid int64 value type float64",
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
