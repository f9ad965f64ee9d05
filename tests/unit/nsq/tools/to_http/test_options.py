from __future__ import annotations

import pytest

from penstock.nsq.tools.errors import ToolError
from penstock.nsq.tools.to_http.options import header_values, parse_options

GOOD = ["--topic=t", "--nsqd-tcp-address=h:1", "--post=http://h/"]


def test_the_defaults() -> None:
    flags = parse_options(GOOD)
    assert (flags.channel, flags.publishers, flags.mode) == ("nsq_to_http", 100, "hostpool")
    assert (flags.sample, flags.max_in_flight, flags.status_every) == (1.0, 200, 250)
    assert (flags.connect_timeout, flags.request_timeout) == (2 * 10**9, 20 * 10**9)
    assert (flags.headers, flags.is_to_all) == ({}, False)


@pytest.mark.parametrize(
    ("mode", "to_all"),
    [("round-robin", False), ("hostpool", False), ("epsilon-greedy", False), ("all", True)],
)
def test_modes(mode: str, to_all: bool) -> None:
    assert parse_options([*GOOD, f"--mode={mode}"]).is_to_all == to_all


@pytest.mark.parametrize(
    ("argv", "text"),
    [
        (["--header=foo"], "--header value format should be 'key=value'"),
        (["--content-type=x"], "--topic and --channel are required"),
        (["--topic=t", "--channel="], "--topic and --channel are required"),
        (["--topic=t", "--content-type=x"], "--content-type only used with --post"),
        (
            ["--topic=t", "--content-type=", "--post=x"],
            "--content-type requires a value when used",
        ),
        (["--topic=t"], "--nsqd-tcp-address or --lookupd-http-address required"),
        (
            ["--topic=t", "--nsqd-tcp-address=a", "--lookupd-http-address=b"],
            "use --nsqd-tcp-address or --lookupd-http-address not both",
        ),
        (GOOD[:2], "--get or --post required"),
        ([*GOOD, "--get=x"], "use --get or --post not both"),
        ([*GOOD[:2], "--get=x"], "invalid GET address - must be a printf string"),
        ([*GOOD, "--sample=1.5"], "ERROR: --sample must be between 0.0 and 1.0"),
        ([*GOOD, "--topic=bad!", "--sample=-1"], "ERROR: --sample must be between 0.0 and 1.0"),
        ([*GOOD, "--topic=bad!"], "invalid topic name"),
        ([*GOOD, "--channel=bad!"], "invalid channel name"),
        ([*GOOD, "--n=0"], "no handlers"),
        ([*GOOD, "--post=notaurl"], '--post "notaurl": give an http:// or https:// address'),
        ([*GOOD, "--post=ftp://h"], '--post "ftp://h": give an http:// or https:// address'),
        ([*GOOD[:2], "--get=/%s"], '--get "/%s": give an http:// or https:// address'),
    ],
)
def test_checks_in_upstreams_order(argv: list[str], text: str) -> None:
    with pytest.raises(ToolError) as caught:
        parse_options(argv)
    assert str(caught.value) == text


def test_headers() -> None:
    lines = ["header1: value1", "header2:value2", "a : b: c "]
    assert header_values(lines) == {"header1": "value1", "header2": "value2", "a": "b: c"}


@pytest.mark.parametrize("line", ["a:", ":b", ":", "a", "a: ", "a b: c", "a: b\x00", "ü: b"])
def test_what_is_no_header(line: str) -> None:
    with pytest.raises(ToolError):
        header_values(["header1: value1", line])
