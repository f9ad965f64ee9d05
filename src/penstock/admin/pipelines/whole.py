"""The status of a pipeline over all nodes that know it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from msgspec import Struct, structs

from penstock.nsq.pipeline_status import ToldStatus

SILENT: Final = "silent"
"""The state of a pipeline that reported last that it runs, long ago."""
SILENT_S: Final = 30.0


class NodePipelines(Struct):
    """The answer of a node at /pipelines."""

    pipelines: list[ToldStatus] | None = None


def whole_pipelines(told: Iterable[tuple[str, NodePipelines]]) -> list[dict[str, Any]]:
    """The pipelines over the nodes that know them, by name."""
    found: dict[str, list[tuple[str, ToldStatus]]] = {}
    for node, answer in told:
        for status in answer.pipelines or ():
            found.setdefault(status.id, []).append((node, status))
    return sorted(map(_whole, found.values()), key=lambda each: (each["name"], each["id"]))


def _whole(parts: list[tuple[str, ToldStatus]]) -> dict[str, Any]:
    """The newest status; lags of nodes add up, and the last error of any is the last."""
    newest = min((status for _, status in parts), key=lambda status: status.age)
    failed = max((status for _, status in parts), key=lambda status: status.error_at)
    here = [status.lag for _, status in parts if status.lag_is_here]
    is_silent = newest.state == "running" and newest.age > SILENT_S
    fields = structs.asdict(newest)
    del fields["lag_is_here"]
    return fields | {
        "state": SILENT if is_silent else newest.state,
        "lag": sum(here) if here else newest.lag,
        "error": failed.error,
        "error_at": failed.error_at,
        "nodes": sorted(node for node, _ in parts),
    }
