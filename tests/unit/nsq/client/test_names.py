"""Names are refused here as the server would."""

from __future__ import annotations

import pytest

from penstock.nsq.client.errors import BadChannel, BadTopic
from penstock.nsq.client.names import checked_addresses, checked_channel, checked_topic


def test_valid_names() -> None:
    assert checked_topic("t#ephemeral", "PUB") == "t#ephemeral"
    assert checked_channel("c") == "c"


@pytest.mark.parametrize("name", ["", "two words", "t\nCLS", "ä", "x" * 65])
def test_invalid_names(name: str) -> None:
    with pytest.raises(BadTopic, match=r"^E_BAD_TOPIC MPUB topic name "):
        checked_topic(name, "MPUB")
    with pytest.raises(BadChannel, match=r"^E_BAD_CHANNEL SUB channel name "):
        checked_channel(name)


@pytest.mark.parametrize("name", [b"t", None, 3])
def test_names_are_texts(name: str) -> None:
    with pytest.raises(TypeError, match=r"topic name .* is no str"):
        checked_topic(name, "PUB")
    with pytest.raises(TypeError, match=r"channel name .* is no str"):
        checked_channel(name)


def test_addresses_are_a_list_of_texts() -> None:
    with pytest.raises(TypeError, match=r"given as a list: \['h:1'\]"):
        checked_addresses("h:1")
    with pytest.raises(TypeError, match=r"address \['h:1'\] is no str"):
        checked_addresses([["h:1"]])  # type: ignore[list-item]


def test_addresses() -> None:
    assert checked_addresses(iter(["h:1"])) == ["h:1"]
    with pytest.raises(ValueError, match="missing port"):
        checked_addresses(["h"])
