"""What importing the clients costs."""

from __future__ import annotations

import subprocess
import sys

import pytest

import penstock.nsq.client as client


def test_every_name_is_there() -> None:
    for name in client.__all__:
        assert getattr(client, name) is not None
    with pytest.raises(AttributeError):
        _ = client.nothing


def test_neither_numpy_nor_a_broker_is_imported() -> None:
    code = """
import sys, penstock.nsq.client as c
for name in c.__all__: getattr(c, name)
import penstock.nsq.client.aio
layers = ("cramjam", "zlib_ng", "penstock.net.tls")
heavy = ("numpy", "penstock.broker", "penstock.storage", "penstock.nsq.nsqd", "msgspec", *layers)
sys.exit([name for name in sys.modules if name.startswith(heavy)] or 0)
"""
    done = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True)
    assert done.returncode == 0, done.stderr
