"""``penstock top``: live on a terminal, one plain table elsewhere."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from dataclasses import asdict
from typing import Any

from penstock.cli.shared.node_selection import DEFAULT_NODE, NodeSelection
from penstock.cli.shared.pipes import quiet_pipe
from penstock.cli.top import draw
from penstock.cli.top.all_nodes import Cluster
from penstock.cli.top.poll import TIMEOUT_S, Poller
from penstock.cli.top.table import Row, reader_rows, topic_rows
from penstock.cli.top.terminal import Keys, Terminal, is_terminal, styled
from penstock.cli.top.view import View
from penstock.cluster.http_client import HttpClient
from penstock.core.errors import PenstockError


class NobodyAnswers(PenstockError):
    """None of the nodes could be asked."""


def run_top(where: NodeSelection, *, interval_s: float, once: bool, as_json: bool) -> None:
    """Show until q, Ctrl-C or SIGTERM. Raises NobodyAnswers when there is nothing to print."""
    if not where.nsqds and not where.lookupds:
        where = where._replace(nsqds=[DEFAULT_NODE])
    if once or as_json or not is_terminal():
        asyncio.run(_print(where, interval_s, as_json))
        return
    with Terminal() as terminal:
        asyncio.run(_live(terminal, where, interval_s))


async def _live(terminal: Terminal, where: NodeSelection, interval_s: float) -> None:
    async with where.http(TIMEOUT_S) as http:
        await Live(terminal, http, where, interval_s).run()


async def _print(where: NodeSelection, interval_s: float, as_json: bool) -> None:
    """Two looks, an interval apart, for there are no rates without."""
    cluster = Cluster()
    async with where.http(TIMEOUT_S) as http:
        poller = Poller(http, cluster, where, interval_s)
        await poller.once()
        if any(not node.error for node in cluster.all()):
            await asyncio.sleep(interval_s)
            await poller.once()
    if all(node.error for node in cluster.all()):
        reasons = [f"{node.address}: {node.error}" for node in cluster.all()] + cluster.troubles
        raise NobodyAnswers("no node answers: " + "; ".join(reasons or ["none is known"]))
    with quiet_pipe():
        if as_json:
            print(json.dumps(as_object(cluster), indent=2))
            return
        for line in draw.table(View(cluster)):
            colour = is_terminal()
            print(styled(line, max(1, len(line)), colour=colour))


def as_object(cluster: Cluster) -> dict[str, Any]:
    """Everything as JSON: the nodes, and topics with their channels and groups by node."""
    nodes = cluster.all()
    topics = [
        _shown(row)
        | {
            "readers": [
                _shown(reader)
                for reader in reader_rows(nodes, row.name, cluster.history, by_node=True)
                if reader.node == row.node
            ]
        }
        for row in topic_rows(nodes, cluster.history, by_node=True)
    ]
    return {
        "nodes": [
            {
                "address": node.address,
                "version": node.version,
                "health": node.health,
                "error": node.error,
            }
            for node in nodes
        ],
        "troubles": cluster.troubles,
        "topics": topics,
    }


def _shown(row: Row) -> dict[str, Any]:
    fields = asdict(row)
    del fields["rates"]
    if row.kind:  # only of topics
        del fields["readers"], fields["nbytes"]
    return fields


class Live:
    """The view on a terminal, with the network on one side and keys and signals on the other."""

    def __init__(
        self, terminal: Terminal, http: HttpClient, where: NodeSelection, interval_s: float
    ) -> None:
        self._terminal = terminal
        self._keys = Keys()
        self._cluster = Cluster()
        self._view = View(self._cluster)
        self._news = asyncio.Event()
        self._poller = Poller(http, self._cluster, where, interval_s, self._news.set)
        self._ended = False

    async def run(self) -> None:
        """Draw whenever something changes, until the end is asked for."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            loop.add_signal_handler(number, self._end)
        loop.add_signal_handler(signal.SIGWINCH, self._news.set)
        loop.add_signal_handler(signal.SIGTSTP, self._suspend)
        if self._terminal.has_keys:
            loop.add_reader(sys.stdin, self._typed)
        self._poller.start()
        try:
            while not self._ended and not self._view.quit:
                self._draw()
                await self._news.wait()
                self._news.clear()
        finally:
            loop.remove_reader(sys.stdin)
            await self._poller.stop()

    def _end(self) -> None:
        self._ended = True
        self._news.set()

    def _typed(self) -> None:
        data = self._terminal.read()
        if not data:
            self._end()
            return
        for key in self._keys.feed(data):
            self._view.press(key)
        self._news.set()

    def _suspend(self) -> None:
        """Ctrl-Z: the shell gets its terminal, and we take ours again when we go on."""
        self._terminal.leave()
        # Not SIGTSTP, whose default our handler has taken away.
        os.kill(os.getpid(), signal.SIGSTOP)
        self._terminal.enter()
        self._news.set()

    def _draw(self) -> None:
        width, height = self._terminal.size()
        self._terminal.draw(draw.screen(self._view, width, height), width)
