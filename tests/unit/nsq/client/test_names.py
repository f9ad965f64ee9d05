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


def test_addresses() -> None:
    assert checked_addresses(iter(["h:1"])) == ["h:1"]
    with pytest.raises(ValueError, match="missing port"):
        checked_addresses(["h"])
