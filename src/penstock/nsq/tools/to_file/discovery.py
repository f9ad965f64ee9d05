"""The topics that are written: those that were named, or those that nsqlookupd knows."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections.abc import Iterable
from typing import TYPE_CHECKING

from penstock.cluster.cluster import Addresses, Cluster
from penstock.cluster.exchange import Timeouts
from penstock.cluster.fanout import Strict
from penstock.cluster.http_client import HttpClient
from penstock.cluster.upstream_errors import NoAnswerError
from penstock.core.clock import SYSTEM_CLOCK
from penstock.core.errors import PenstockError
from penstock.core.units import SECOND
from penstock.net.tasks import spawn
from penstock.nsq.client.errors import ClientError
from penstock.nsq.tools.consumers import new_consumer
from penstock.nsq.tools.errors import describe
from penstock.nsq.tools.flags import check_names, user_agent
from penstock.nsq.tools.lifecycle import Stop
from penstock.nsq.tools.to_file.command_line import ToFileFlags
from penstock.nsq.tools.to_file.filename import Filenames, host_name
from penstock.nsq.tools.to_file.pattern import matcher
from penstock.nsq.tools.to_file.topic import Topic
from penstock.nsq.tools.to_file.topic_files import Writer

if TYPE_CHECKING:
    from penstock.nsq.client import Config

logger = logging.getLogger("penstock.nsq.tools.to_file")


class Topics:
    """The topics that are being written, each in a task of ``group``."""

    def __init__(
        self, flags: ToFileFlags, config: Config, stop: Stop, group: asyncio.TaskGroup
    ) -> None:
        self._flags = flags
        self._config = config
        self._stop = stop
        self._group = group
        self._is_allowed = matcher(flags.topic_pattern)
        self._running: dict[str, Topic] = {}
        self.refused = False
        """True once a topic could not be written."""

    def __len__(self) -> int:
        return len(self._running)

    def start(self, names: Iterable[str]) -> None:
        """Begin to write those that are not being written yet."""
        for name in names:
            if name in self._running:
                continue
            if not self._is_allowed(name):
                pattern = self._flags.topic_pattern
                logger.warning("skipping topic %s (doesn't match pattern %s)", name, pattern)
                continue
            try:
                check_names([name], self._flags.channel)
                topic = self._topic(name)
            except PenstockError as error:
                self._refused(name, str(error))
                continue
            self._running[name] = topic
            self._group.create_task(self._run(name, topic))

    async def discover(self) -> None:
        """Ask the nsqlookupds at every refresh, the first time after one, until the tool ends."""
        flags = self._flags
        timeouts = Timeouts(
            flags.http_client_connect_timeout / SECOND, flags.http_client_request_timeout / SECOND
        )
        async with HttpClient(timeouts, agent=user_agent("nsq_to_file")) as http:
            addresses = Addresses(flags.lookupd_http_addresses, ())
            cluster = Cluster(http, addresses, SYSTEM_CLOCK)
            while not await self._ends_within(flags.topic_refresh / SECOND):
                try:
                    self.start(await cluster.topics(Strict()))
                except NoAnswerError as error:
                    logger.error("could not retrieve topic list: %s", error)

    def close_file(self) -> None:
        """Every topic closes its file; the next message opens another."""
        for name, topic in self._running.items():
            spawn(topic.close_file(), name=f"hang up {name}")

    async def _ends_within(self, seconds: float) -> bool:
        try:
            async with asyncio.timeout(seconds):
                await self._stop.wait()
        except TimeoutError:
            return False
        return True

    async def _run(self, name: str, topic: Topic) -> None:
        try:
            await topic.run(self._stop)
        except ClientError as error:
            self._refused(name, describe(error))
        finally:
            del self._running[name]

    def _refused(self, name: str, reason: str) -> None:
        self.refused = True
        logger.error("couldn't create logger for new topic %s: %s", name, reason)

    def _topic(self, name: str) -> Topic:
        flags = self._flags
        consumer = new_consumer(flags, name, flags.channel, self._config)
        filenames = Filenames(
            flags.layout,
            flags.datetime_format,
            topic=name,
            host=host_name(flags.host_identifier, socket.gethostname()),
            pid=os.getpid(),
            suffix=flags.suffix,
        )

        def say(level: int, text: str) -> None:
            logger.log(level, "[%s/%s] %s", name, flags.channel, text)

        writer = Writer(flags, filenames, SYSTEM_CLOCK, say)
        return Topic(consumer, writer, sync_interval=flags.sync_interval, say=say)
