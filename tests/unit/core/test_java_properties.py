"""Java's properties files."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from penstock.core import java_properties

FILE = """
# a comment
! another
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


names = st.from_regex(r"[a-zA-Z]{1,8}", fullmatch=True)
values = st.text(st.sampled_from("ab:=#! \\\nä"), max_size=6).filter(
    lambda value: not value[:1].isspace() and value.strip() == value
)


@given(st.dictionaries(names, values, max_size=4))
def test_round_trips(written: dict[str, str]) -> None:
    assert java_properties.loads(java_properties.dumps(written)) == written


def test_booleans_and_numbers() -> None:
    assert java_properties.dumps({"a": True, "b": 3, "c": "x"}) == "a=true\nb=3\nc=x\n"
