"""What importing the clients costs."""

from __future__ import annotations

import pytest

import penstock.nsq.client as client


def test_every_name_is_there() -> None:
    for name in client.__all__:
        assert getattr(client, name) is not None
    with pytest.raises(AttributeError):
        _ = client.nothing
