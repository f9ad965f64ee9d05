"""Every block of code of the documentation's pages, and what runs or holds it.

A block of commands (`sh`), of a session (`console`) or of Python is run by
`tests/test_page_commands.py` or `tests/test_page_programs.py`, unless a row here says which other
test runs it, or why none can on a machine like this. A block in any other language needs a row.
`tests/test_page_blocks.py` says so.
"""

from __future__ import annotations

from fnmatch import fnmatch
from functools import cache
from typing import Final, NamedTuple

from tools.pages.documentation import DOCS, PAGES, all_blocks

RUN: Final = {"sh", "console", "python"}
"""The languages whose blocks are run without a row."""

_TUTORIALS = "tests/test_tutorials.py"
_COMMANDS = "tests/test_followed_pages.py"
_SAMPLES = "tests/test_page_samples.py"
_SPARK = "tests/spark/test_pages.py"
_RUN = "each would start a Spark: tests/spark/test_pages.py has its file checked and tested"
_CLUSTER = "tests/spark/test_cluster.py, tests/spark/test_submitted.py"
_RELEASE = "tests/release/test_fresh.py installs the wheel"
_SYSTEMD = "needs root and systemd; tests/deploy/test_systemd.py checks the units"
_PAIR = "needs root and systemd; tests/deploy/test_pair.py runs its programs"
_DRAWING = "a drawing"

ROWS: Final = (
    # pages, what a block has in it (its first line with its language too), the test or the reason
    ("arrow.md", "pip install", _RELEASE),
    ("backup.md", "", _COMMANDS),
    ("beyond-nsq.md", "", _COMMANDS),
    ("cli.md", "```text", _SAMPLES),
    ("client.md", "asyncio.run(main())", _COMMANDS),
    ("client.md", "nsq.client.blocking import", _COMMANDS),
    ("client.md", "max_in_flight 9", _DRAWING + "; tests/unit/nsq/client has its figures"),
    ("client.md", "failure", _DRAWING + "; tests/unit/nsq/client has its figures"),
    ("client.md", "```log", _SAMPLES),
    ("deploy.md", "```json", _SAMPLES),
    ("deploy.md", "```ini", _SAMPLES),
    ("deploy.md", "```yaml", "needs cert-manager; tests/deploy/test_manifests.py has its names"),
    ("deploy.md", "systemctl", _SYSTEMD),
    ("deploy.md", "docker build", "needs docker; tools/deploy/images.py follows all steps"),
    ("deploy.md", "helm", "needs a cluster; tests/deploy/test_manifests.py has its files"),
    ("from-nsqd.md", "", _COMMANDS),
    ("from-pynsq.md", "", _COMMANDS),
    ("from-rocketmq.md", "", _COMMANDS),
    ("index.md", "pip install", _RELEASE),
    ("monitoring.md", "```yaml", "tests/monitoring/test_rules.py"),
    ("monitoring.md", "```promql", "tests/monitoring/test_rules.py"),
    ("monitoring.md", "```json", _SAMPLES),
    ("monitoring.md", "nsq.127_0_0_1_4151", _SAMPLES),
    ("monitoring.md", "go tool pprof", "needs Go; tests/programs/nsq/test_debug_pages.py"),
    ("monitoring.md", "4151/pipelines", _SAMPLES),
    ("nsqadmin.md", "```json", _SAMPLES),
    ("nsqd.md", "", _COMMANDS),
    ("nsqlookupd.md", "", _COMMANDS),
    ("operate.md", "", _COMMANDS),
    ("pipelines*.md", "```toml", _SPARK),
    ("pipelines.md", "dp.table", "tests/spark/programs/test_declarative.py"),
    ("pipelines*.md", "```python", _SPARK),
    ("pipelines*.md", "penstock pipeline run", _RUN),
    ("pipelines.md", "pipeline compact", "tests/spark/test_compaction.py"),
    ("pipelines.md", "pipeline submit", _CLUSTER),
    ("pipelines.md", "spark-class", "tests/spark/test_submitted.py"),
    ("pipelines.md", "```dockerfile", "needs docker and images; " + _SAMPLES + " reads it"),
    ("pipelines.md", "```yaml", "tests/spark/programs/test_declarative.py"),
    ("pipelines.md", "FAILED", _SPARK),
    ("pipelines*.md", "events@10.0.0.5", "tests/unit/spark/archive/test_names.py has such names"),
    ("pipelines.md", "became", "tests/unit/cli/pipeline/test_compact.py"),
    ("replication.md", "```mermaid", _DRAWING),
    ("replication.md", "b:4151/replication", "tests/programs/cli/test_promote.py"),
    ("replication.md", "nsqd --needs-lease", "needs etcd; tests/programs/cli/lease/test_etcd.py"),
    ("replication.md", "nsqd-pair.service", _PAIR),
    ("replication.md", "mqbroker-pair.service", _PAIR),
    ("replication.md", "kubectl apply", "needs a cluster; tests/deploy/test_pair.py has its files"),
    ("rocketmq-client.md", "asyncio.run(main())", _COMMANDS),
    ("rocketmq-client.md", "rocketmq.client.blocking import", _COMMANDS),
    ("rocketmq.md", "bin/mqproxy", "Java's; tests/interop/test_rocketmq_proxy.py starts it so"),
    ("rocketmq.md", "```json", "tests/interop/test_rocketmq_proxy.py"),
    ("rocketmq.md", "```yaml", _SAMPLES),
    ("rocketmq.md", "```properties", _SAMPLES),
    ("security.md", "```json", _SAMPLES),
    ("spark.md", "──", _DRAWING),
    ("spark.md", "--data-path", "tests/spark/test_tap.py"),
    ("spark.md", "nsq_to_nsq", "tests/spark/test_tap.py"),
    ("spark.md", "127.0.0.1:5151", "tests/spark/test_tap.py"),
    ("spark.md", "options(...)", "leaves options out; pipelines use the function in all tests"),
    ("spark.md", "```python", _SPARK),
    ("spark.md", "```properties", _SAMPLES),
    ("spark.md", "spark-submit", _SAMPLES),
    ("spec/nsq.md", "```text", _SAMPLES),
    ("spec/nsqadmin-api.md", "```json", _SAMPLES),
    ("spec/rocketmq.md", "clientID", "no JSON, but the kinds of its values; tests/unit/rocketmq"),
    ("spec/rocketmq.md", "```text", _SAMPLES),
    ("testing.md", "", "tests/test_testing_page.py"),
    ("tutorial-nsq.md", "", _TUTORIALS),
    ("tutorial-rocketmq.md", "", _TUTORIALS),
    ("tutorial-spark.md", "", "tests/spark/test_tutorial.py"),
)  # fmt: skip


class Block(NamedTuple):
    """A block of a page, which has its path below docs."""

    page: str
    language: str
    text: str

    def name(self) -> str:
        """The page and the beginning of the block, for people."""
        return f"{self.page}: {self.text.split('#')[0].split(chr(10))[0].strip()[:50]}"

    def row(self) -> int | None:
        """The number of the first row that is about this block."""
        marked = f"```{self.language}\n{self.text}"
        found = (n for n, (page, mark, _) in enumerate(ROWS)
                 if fnmatch(self.page, page) and mark in marked)  # fmt: skip
        return next(found, None)


@cache
def page_blocks() -> tuple[Block, ...]:
    return tuple(
        Block(page.relative_to(DOCS).as_posix(), language, text)
        for page in PAGES
        for language, text in all_blocks(page)
    )


def without_row(*languages: str) -> list[Block]:
    """The blocks in these languages that no row is about."""
    return [each for each in page_blocks() if each.language in languages and each.row() is None]


def held_by(test: str) -> list[Block]:
    """The blocks that a row leaves to this test."""
    return [
        each for each in page_blocks() if (row := each.row()) is not None and test in ROWS[row][2]
    ]


def sample(page: str, mark: str) -> str:
    """The text of the only block of a page that has this in it."""
    (found,) = (
        each.text for each in page_blocks()
        if each.page == page and mark in f"```{each.language}\n{each.text}"
    )  # fmt: skip
    return found
