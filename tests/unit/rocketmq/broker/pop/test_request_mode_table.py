from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest

from penstock.rocketmq.broker.pop.request_mode_table import RequestModes
from penstock.rocketmq.protocol.errors import BodyError


def test_modes_are_kept_until_their_topic_goes() -> None:
    modes, again = RequestModes(), RequestModes()
    modes.put("T", "G", "POP", 2)
    again.load(modes.as_json())
    assert (again.of("T", "G"), again.of("T", "other")) == (("POP", 2), ("PULL", 0))
    again.forget_topic("T")
    assert again.of("T", "G") == ("PULL", 0)


def test_what_is_loaded_takes_the_place_of_what_was_there() -> None:
    """As when a slave reads the table again that its master has written."""
    modes = RequestModes()
    modes.put("T", "G", "POP", 2)
    for value in ({"T": {"H": {"topic": "T", "consumerGroup": "H", "mode": "POP"}, "I": {}}}, {}):
        with suppress(BodyError):
            modes.load({"messageRequestModeMap": value})
        assert modes.of("T", "H") == ("PULL", 0)
    assert modes.of("T", "G") == ("PULL", 0)


@pytest.mark.parametrize("value", [None, {}, {"messageRequestModeMap": {"T": {"G": {}}}}])
def test_a_file_that_is_none(value: Any) -> None:
    with pytest.raises(BodyError):
        RequestModes().load(value)
