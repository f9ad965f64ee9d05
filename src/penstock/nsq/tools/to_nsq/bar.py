"""A bar on stderr for a file of known size: how much is published, how quickly, how long yet."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    Progress,
    TaskProgressColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)


@contextmanager
def bar(total: int) -> Iterator[Callable[[float], None]]:
    """Show a bar of ``total`` bytes while inside, and yield a function that moves it on."""
    columns = (
        BarColumn(bar_width=None),
        TaskProgressColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
    )
    # Lines that are logged meanwhile stand above the bar.
    with Progress(*columns, console=Console(stderr=True), redirect_stdout=False) as progress:
        task = progress.add_task("", total=total)
        yield lambda size: progress.advance(task, size)
