"""The tutorials, run command by command as a reader follows them (page_reader.py).

Spark's tutorial has a test in tests/spark, and other pages in test_followed_pages.py.
"""

from __future__ import annotations

from pathlib import Path

from tests.page_reader import Reader, reader_of
from tools.harness.rocketmq.servers import run_servers
from tools.pages.documentation import DOCS

FOLLOWED = ["tutorial-nsq", "tutorial-rocketmq"]
"""The pages of these tests; tests/page_blocks.py has them too."""


def test_nsq_in_ten_minutes(tmp_path: Path) -> None:
    with reader_of(tmp_path / "data") as reader:
        reader.follow(DOCS / "tutorial-nsq.md")


def test_rocketmq_in_ten_minutes(tmp_path: Path) -> None:
    with run_servers() as servers:
        reader = Reader(tmp_path, {"127.0.0.1:9876": servers.address})
        reader.follow(DOCS / "tutorial-rocketmq.md")
