"""The broker's state: versions, rates, totals, disk, delays; and single statistics.

The names are those of the Java broker, 4.9's and 5.x's, and so are the forms: all values are texts
(RocketMQ spec 2.5). What this broker does not have says so: no request waits in the queue of a
thread pool, no message between the log and its queue, and there is no wheel of timers.
"""

from __future__ import annotations

from dataclasses import dataclass
from operator import attrgetter
from typing import TYPE_CHECKING, Final

from penstock.core.clock import wall_ms
from penstock.core.units import MILLISECOND
from penstock.rocketmq.broker.answering import RefusedError, answers, json_answer
from penstock.rocketmq.protocol.codes import RequestCode, ResponseCode
from penstock.rocketmq.protocol.command import PROTOCOL_VERSION, Command
from penstock.storage.files.disk_space import DiskSpace
from penstock.storage.log import Log

if TYPE_CHECKING:
    from penstock.core.clock import Clock
    from penstock.rocketmq.broker.broker_settings import BrokerSettings
    from penstock.rocketmq.broker.delays.schedule import Schedule
    from penstock.rocketmq.broker.state.stats import Stats
    from penstock.rocketmq.broker.state.totals import Totals
    from penstock.rocketmq.broker.store.message_store import MessageStore
    from penstock.rocketmq.remoting import Connection

TICK_S: Final = 1.0
_CAPACITIES: Final = {"send": 10_000, "pull": 100_000, "query": 20_000}
"""Java's defaults: exporters divide queue sizes by them. Ours are always empty."""
_NOT_HERE: Final = {
    **{f"{pool}ThreadPoolQueueSize": 0 for pool in _CAPACITIES},
    **{f"{pool}ThreadPoolQueueCapacity": most for pool, most in _CAPACITIES.items()},
    **{f"{pool}ThreadPoolQueueHeadWaitTimeMills": 0 for pool in _CAPACITIES},
    "EndTransactionQueueSize": 0,
    "EndTransactionThreadPoolQueueCapacity": 100_000,
    "pageCacheLockTimeMills": 0,
    "dispatchBehindBytes": 0,
    "dispatchMaxBuffer": 0,
    "startAcceptSendRequestTimeStamp": 0,
    "remainTransientStoreBufferNumbs": (1 << 31) - 1,  # what Java says without such buffers
    "timerReadBehind": 0,
    "timerOffsetBehind": 0,
    "timerCongestNum": 0,
    "timerEnqueueTps": 0.0,
    "timerDequeueTps": 0.0,
}


@dataclass(slots=True, eq=False)
class RuntimeInfo:
    """Answers with the figures of the broker."""

    settings: BrokerSettings
    stats: Stats
    store: MessageStore
    schedule: Schedule
    clock: Clock

    @answers(RequestCode.GET_BROKER_RUNTIME_INFO)
    def runtime_info(self, connection: Connection, request: Command) -> Command:
        table = {
            "brokerVersion": PROTOCOL_VERSION,
            "brokerVersionDesc": "V4_9_8",  # what that number stands for
            "brokerActive": "true",
            **_NOT_HERE,
            **self._logs(),
            **_totals(self.stats.totals, wall_ms(self.clock)),
            **_disk(self.settings.store_path_root_dir),
            **self._delays(),
        }
        return json_answer(request, {"table": {name: str(value) for name, value in table.items()}})

    @answers(RequestCode.VIEW_BROKER_STATS_DATA)
    def view_statistic(self, connection: Connection, request: Command) -> Command:
        """One statistic over the last minute, hour and day."""
        name, key = request.text("statsName"), request.text("statsKey")
        found = self.stats.view(name, key)
        if found is None:
            raise RefusedError(ResponseCode.SYSTEM_ERROR, f"The stats <{name}> <{key}> not exist")
        return json_answer(request, found)

    def _logs(self) -> dict[str, object]:
        """Figures of the store. Offsets are physical ones: they tell messages apart, not bytes."""
        topics = self.store.topics.values()
        logs = [topic.log for topic in topics if isinstance(topic.log, Log)]
        oldest = [log.oldest_ns for log in logs]
        unsynced = [log.bytes_from(log.append_offset - log.unsynced_messages) for log in logs]
        low, high = self.store.physical_bounds()
        return {
            "commitLogMinOffset": low,
            "commitLogMaxOffset": high,
            "remainHowManyDataToFlush": _readable(sum(unsynced)),
            "earliestMessageTimeStamp": min((ns for ns in oldest if ns), default=-MILLISECOND)
            // MILLISECOND,
        }

    def _delays(self) -> dict[str, object]:
        """The progress of each delay level in its queue: ``delivered,stored``."""
        return {
            f"scheduleMessageOffset_{level}": f"{delivered},{stored}"
            for level, (delivered, stored) in self.schedule.progress().items()
        }


def _totals(totals: Totals, now_ms: int) -> dict[str, object]:
    transferred = totals.rates(attrgetter("got"))
    return {
        "bootTimestamp": totals.started_ms,
        "runtime": _duration(now_ms - totals.started_ms),
        "putTps": totals.rates(attrgetter("put")),
        "getFoundTps": totals.rates(attrgetter("found")),
        "getMissTps": totals.rates(attrgetter("missed")),
        "getTotalTps": totals.rates(lambda sample: sample.found + sample.missed),
        "getTransferedTps": transferred,  # Java 4's spelling, and Java 5's
        "getTransferredTps": transferred,
        "msgPutTotalYesterdayMorning": totals.yesterday.put,
        "msgPutTotalTodayMorning": totals.today.put,
        "msgPutTotalTodayNow": totals.put_messages,
        "msgGetTotalYesterdayMorning": totals.yesterday.got,
        "msgGetTotalTodayMorning": totals.today.got,
        "msgGetTotalTodayNow": totals.got_messages,
        "putMessageTimesTotal": totals.put_messages,
        "putMessageSizeTotal": totals.put_bytes,
        "putMessageAverageSize": totals.average_put_bytes,
        "putMessageFailedTimes": totals.put_failures,
        "putMessageEntireTimeMax": totals.slowest_put_ms,
        "putMessageDistributeTime": totals.put_time_distribution(),
        "putLatency99": f"{totals.put_time_quantile(0.99):.2f}",
        "putLatency999": f"{totals.put_time_quantile(0.999):.2f}",
        "getMessageEntireTimeMax": totals.slowest_get_ms,
    }


def _duration(ms: int) -> str:
    minutes, seconds = divmod(ms // 1000, 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    return f"[ {days} days, {hours} hours, {minutes} minutes, {seconds} seconds ]"


def _disk(path: str) -> dict[str, object]:
    """The used share of the disk, which holds logs and queues; -1 when it cannot be asked."""
    space = DiskSpace.of(path)
    share = space.used_share if space is not None else -1.0
    table: dict[str, object] = {
        "commitLogDiskRatio": share,
        f"commitLogDiskRatio_{path}": share,
        "consumeQueueDiskRatio": share,
    }
    if space is not None:
        total, free = _readable(space.total), _readable(space.free)
        table["commitLogDirCapacity"] = f"Total : {total}, Free : {free}."
    return table


def _readable(nbytes: int) -> str:
    """Bytes as Java prints them: ``318 B``, ``252.0 GiB``."""
    if nbytes < 1024:
        return f"{nbytes} B"
    amount, unit = float(nbytes), -1
    while amount >= 1024 and unit < 5:
        amount, unit = amount / 1024, unit + 1
    return f"{amount:.1f} {'KMGTPE'[unit]}iB"
