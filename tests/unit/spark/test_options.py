"""Declarations of options."""

from __future__ import annotations

import socket
from dataclasses import dataclass

import pytest

from penstock.spark.errors import OptionError
from penstock.spark.options import (
    boolean,
    option,
    parse,
    positive,
    require_known,
    seconds,
    table,
    text,
    unknown,
)


@dataclass(frozen=True)
class Options:
    name: str = option("fullName", text, "nobody", "A name.", shown="nobody")
    count: int | None = option("count", positive, None, "How many.")
    secret: str = option("secret", text, "", "Nobody sees it.", secret=True)
    end: str | None = option("end", text, None, "The last.", only="batch")
    rate: int | None = option("rate", positive, None, "Speed.", only="stream", aliases=("pace",))
    derived: int = 5


def test_texts_become_fields_whatever_the_case() -> None:
    given = {"FULLNAME": "a", "count": " 3 ", "path": "x"}
    assert parse(Options, given, {"path"}) == {"name": "a", "count": 3}


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("fulname", "format nsq knows no option fulname; did you mean fullName?"),
        ("colour", "format nsq knows no option colour"),
        ("derived", "format nsq knows no option derived"),
        ("Pase", "format nsq knows no option Pase; did you mean pace?"),  # sic
    ],
)
def test_an_unknown_option(name: str, said: str) -> None:
    with pytest.raises(OptionError) as refused:
        parse(Options, {name: "1"}, set())
    assert str(refused.value) == said


def test_names_are_checked_without_values() -> None:
    assert unknown(Options, ["COUNT", "Pace", "fulName", "Secrets", "colour"]) == {  # sic
        "Secrets": "secret", "colour": "", "fulName": "fullName",  # sic
    }  # fmt: skip


def test_all_unknown_options_are_named_at_once() -> None:
    require_known(Options, ["COUNT", "Pace"])
    with pytest.raises(OptionError) as refused:
        require_known(Options, ["cuont", "count", "colour"], "mine")
    said = "format mine knows no option colour, no option cuont; did you mean count?"
    assert str(refused.value) == said


def test_an_alias_is_the_option_itself() -> None:
    assert parse(Options, {"PACE": "3"}) == {"rate": 3}
    with pytest.raises(OptionError, match="pace must be a positive whole number, not 'x'"):
        parse(Options, {"pace": "x"})
    with pytest.raises(OptionError, match="rate and pace are the same option: give one of them"):
        parse(Options, {"pace": "3", "rate": "3"})


def test_a_bound_that_a_stream_does_not_have_is_refused() -> None:
    assert parse(Options, {"end": "now"}, read="batch") == parse(Options, {"end": "now"})
    with pytest.raises(OptionError, match="end is for batch reads only: a stream has no end"):
        parse(Options, {"end": "now"}, read="stream")


def test_an_option_of_streams_does_nothing_in_a_batch_read_and_the_log_says_so(
    caplog: pytest.LogCaptureFixture,
) -> None:
    for _ in range(2):
        assert parse(Options, {"pace": "3"}, read="batch") == {"rate": 3}
    assert [record.message for record in caplog.records] == [
        "option pace is for streams only and does nothing in a batch read"
    ]


def test_times_that_no_socket_takes_are_the_longest_that_it_does() -> None:
    with socket.socket() as unused:
        unused.settimeout(seconds("timeout", "9" * 18))


def test_the_largest_number_of_java_is_taken_as_kafka_s_source_does() -> None:
    assert parse(Options, {"count": "9223372036854775807"}) == {"count": 2**63 - 1}


@pytest.mark.parametrize("given", ["0", "-1", "x", "", str(2**63), "9" * 5000])
def test_a_count_is_positive(given: str) -> None:
    with pytest.raises(OptionError, match="count must be a positive whole number, not "):
        parse(Options, {"count": given}, set())


def test_true_or_false() -> None:
    assert boolean("a", "TRUE") is True
    assert boolean("a", " false") is False


def test_the_documentation() -> None:
    assert table(Options) == (
        "| option | default | |\n|---|---|---|\n| `fullName` | `nobody` | A name. |\n"
        "| `count` |  | How many. |\n| `secret` |  | Nobody sees it. |\n"
        "| `end` |  | The last. Batch reads only. |\n"
        "| `rate` |  | Speed. Streams only. Also `pace`. |\n"
    )


def test_a_secret_is_not_shown() -> None:
    assert "hidden" not in repr(Options(secret="hidden"))
