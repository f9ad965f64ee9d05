"""The sub-command that lists clusters with their brokers."""

from __future__ import annotations

from contextlib import suppress
from typing import Final

from penstock.core.errors import PenstockError
from penstock.rocketmq.client.admin.brokers import runtime_info
from penstock.rocketmq.mqadmin.admin import Admin
from penstock.rocketmq.mqadmin.output import Output, Shown, Table
from penstock.rocketmq.mqadmin.posix_parser import ParsedOptions
from penstock.rocketmq.mqadmin.rounds import every

BROKERS: Final = Table(
    "brokers", "%-16s  %-22s  %-4s  %-22s %-16s %19s %19s %10s %5s %6s",
    "cluster broker id address version in out pageCacheWaitMs hours space",
    ("#Cluster Name", "#Broker Name", "#BID", "#Addr", "#Version", "#InTPS(LOAD)",
     "#OutTPS(LOAD)", "#PCWait(ms)", "#Hour", "#SPACE"),
)  # fmt: skip
TOTALS: Final = Table(
    "brokers",
    "%-16s  %-32s %14d %14d %14d %14d",
    "cluster broker inYesterday outYesterday inToday outToday",
    (
        "#Cluster Name",
        "#Broker Name",
        "#InTotalYest",
        "#OutTotalYest",
        "#InTotalToday",
        "#OutTotalToday",
    ),
)
_MS_PER_HOUR: Final = 3_600_000


async def list_clusters(admin: Admin, given: ParsedOptions, out: Output) -> None:
    """All brokers with their load, or with what came and went; again and again on request."""
    show_more = "moreStats" in given

    async def show() -> None:
        await (_show_totals if show_more else _show_load)(admin, out)

    if "interval" in given:
        await every(admin, given.number("interval"), show, out)
    await show()


async def _figures(admin: Admin, address: str) -> dict[str, str]:
    """The figures of a broker, none of one that does not answer: the others are shown still."""
    try:
        return await runtime_info(admin, address)
    except PenstockError:
        return {}


async def _show_load(admin: Admin, out: Output) -> None:
    out.head(BROKERS)
    for cluster, broker, number, address in (await admin.clusters()).replicas():
        figures = await _figures(admin, address)
        earliest = figures.get("earliestMessageTimeStamp")
        hours = (admin.now_ms - int(earliest)) / _MS_PER_HOUR if earliest else 0.0
        space = float(figures.get("commitLogDiskRatio") or 0.0)
        out.row(
            BROKERS,
            cluster,
            broker,
            Shown(str(number), number),
            address,
            figures.get("brokerVersionDesc", ""),
            _rate(figures, "putTps", "send"),
            _rate(figures, "getTransferedTps", "pull"),
            figures.get("pageCacheLockTimeMills", ""),
            Shown(f"{hours:2.2f}", hours),
            Shown(f"{space:.4f}", space),
        )


def _rate(figures: dict[str, str], name: str, pool: str) -> Shown:
    """Messages a second, with the requests that wait and how long the first one has."""
    rate = 0.0
    with suppress(ValueError, IndexError):
        rate = float(figures.get(name, "").split()[0])
    queued = figures.get(f"{pool}ThreadPoolQueueSize", "")
    waited = figures.get(f"{pool}ThreadPoolQueueHeadWaitTimeMills", "")
    return Shown(f"{rate:9.2f}({queued},{waited}ms)", rate)


async def _show_totals(admin: Admin, out: Output) -> None:
    out.head(TOTALS)
    for cluster, broker, _, address in (await admin.clusters()).replicas():
        figures = await _figures(admin, address)
        put, get = _totals(figures, "msgPutTotal"), _totals(figures, "msgGetTotal")
        out.row(TOTALS, cluster, broker, put[0], get[0], put[1], get[1])


def _totals(figures: dict[str, str], name: str) -> tuple[int, int]:
    """Messages of yesterday and of today."""
    try:
        before, morning, now = (
            int(figures[f"{name}{when}"])
            for when in ("YesterdayMorning", "TodayMorning", "TodayNow")
        )
    except (KeyError, ValueError):
        return 0, 0
    return morning - before, now - morning
