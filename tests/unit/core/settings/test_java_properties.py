"""Java's properties files."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.core.errors import ConfigError
from penstock.core.settings import java_properties

FILE = """
# a comment
! another \\
listenPort=9876
  brokerName : broker-a
path /data/store
empty
spaced = a b \\
         c
escaped\\=name=tab\\there\\u00e4\\\\
listenPort=9877
"""


def test_a_file() -> None:
    assert java_properties.loads(FILE) == {
        "listenPort": "9877",
        "brokerName": "broker-a",
        "path": "/data/store",
        "empty": "",
        "spaced": "a b c",
        "escaped=name": "tab\thereä\\",
    }


@pytest.mark.parametrize("char", "\x00\x0b\x0c\x1c\x1d\x1e\x7f\x85\u2028\u2029", ids=ascii)
def test_only_carriage_return_and_line_feed_end_a_line(char: str) -> None:
    assert java_properties.loads(f"a=x{char}b=y") == {"a": f"x{char}b=y"}
    for end in ("\r", "\n", "\r\n"):
        assert java_properties.loads(f"a=x{end}b=y") == {"a": "x", "b": "y"}


# The properties that OpenJDK's java.util.Properties reads from these texts.
READ_BY_JAVA = {
    "#x\\\na=1": {"a": "1"},
    "\\\n#x\na=1": {"a": "1"},
    "a=1\\\n\nb=2": {"a": "1", "b": "2"},
    "a=1\\\r\n  #2": {"a": "1#2"},
    "a=1\\\\\nb=2": {"a": "1\\", "b": "2"},
    "a==b": {"a": "=b"},
    "a = : b ": {"a": ": b "},
    "=x": {"": "x"},
    "a\\u000bb=\\ud83d\\ude00": {"a\x0bb": "\U0001f600"},
    "a=x\\": {"a": "x"},
}


@pytest.mark.parametrize("text", READ_BY_JAVA)
def test_reading_is_that_of_java(text: str) -> None:
    assert java_properties.loads(text) == READ_BY_JAVA[text]


@pytest.mark.parametrize("text", ["a=\\u12", "\\u=1", "a=\\ud83d", "a=\\ude00\\ud83d"])
def test_broken_escapes_are_refused(text: str) -> None:
    with pytest.raises(ConfigError):
        java_properties.loads(text)


any_text = st.text(max_size=8) | st.text(
    st.sampled_from("ab:=#! \\\t\n\r\f\v\x00\x85\u2028ä\U0001f600")
)


@given(st.dictionaries(any_text, any_text, max_size=4))
def test_what_is_written_is_what_is_read(written: dict[str, str]) -> None:
    text = java_properties.dumps(written)
    assert java_properties.loads(text) == written
    assert text.isascii()
    assert text.replace("\n", "").isprintable()
    assert text.count("\n") == len(written)


def test_written_as_rocketmqs_tools_do() -> None:
    written = {"a": True, "b": 3, "c": "x:y=z", "d e": " f", "g": "ä\x0bh=1"}
    assert java_properties.dumps(written) == (
        "a=true\nb=3\nc=x:y=z\nd\\ e=\\ f\ng=\\u00e4\\u000bh=1\n"
    )
