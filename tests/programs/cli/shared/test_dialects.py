"""The dialects know each other through their command only."""

from __future__ import annotations

import subprocess
import sys

import pytest

PROGRAM = """
import sys
from penstock.broker import dialects
from penstock.cli.shared.dialects import register_dialects
from penstock.storage.batch import Batch

register_dialects()
loaded = lambda: {n.split(".")[1] for n in sys.modules if n.startswith("penstock.")}
print(sorted(loaded() & {"nsq", "rocketmq"}))
batch = Batch.build(0, 1, 5, 1, 5, [b"hello"], dialect=int(sys.argv[1]))
print(dialects.bodies(batch, 0, 1), sorted(loaded() & {"nsq", "rocketmq"}))
print(bytes(dialects.nsq_view(batch).frames), sorted(loaded() & {"nsq", "rocketmq"}))
"""


@pytest.mark.parametrize(
    ("dialect", "lines"),
    [
        ("0", ["[b''] ['nsq']", "b'hello' ['nsq']"]),
        ("1", ["[b'hello'] ['rocketmq']",
               "b'\\x00\\x00\\x00#\\x00\\x00\\x00\\x02\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x05"
               "\\x00\\x010000000000000001hello' ['nsq', 'rocketmq']"]),
    ],
)  # fmt: skip
def test_a_dialect_is_loaded_when_a_batch_needs_it(dialect: str, lines: list[str]) -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM, dialect], capture_output=True, text=True,
                          timeout=60, check=True)  # fmt: skip
    assert done.stdout.splitlines() == ["[]", *lines]
