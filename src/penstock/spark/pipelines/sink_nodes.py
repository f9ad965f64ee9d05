"""The nodes of an exactly-once sink, kept in the checkpoint: those that nsqlookupd names are found
once, and a list that is given may change only when no batch is unfinished.

A batch that comes again must go to the nodes that it went to before. Those nodes know a batch that
was begun (``sink.commits``), but a new list may have none of them. The checkpoint holds the query
id, by which nodes know the writer; so a list beside it lives exactly as long as that writer does.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from penstock.spark.errors import SinkError
from penstock.spark.pipelines import own
from penstock.spark.sink.node_rotation import known_nodes
from penstock.spark.sink.sink_settings import SinkSettings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FILE: Final = "penstock.nodes.json"


def fixed(spark: SparkSession, options: Mapping[str, str], checkpoint: str) -> dict[str, str]:
    """Options of ``format("nsq")`` as a sink, with a fixed list of nodes where they need one.

    Raises SinkError when there is no node, or the checkpoint has a batch for nodes of another list,
    and SourceError when nsqlookupd does not answer.
    """
    settings = SinkSettings.parse(options)
    if not settings.exactly_once:
        return dict(options)
    if settings.nodes:
        require_same(spark, settings.nodes, checkpoint)
        return dict(options)
    nodes = _kept(spark, checkpoint) or _found(spark, settings, checkpoint)
    others = {key: value for key, value in options.items() if key.lower() != "lookupd_http_address"}
    return others | {"nsqd_http_address": ",".join(nodes)}


def require_same(spark: SparkSession, nodes: Sequence[str], checkpoint: str) -> None:
    """Raise SinkError if the checkpoint has a batch that may be for other nodes than these."""
    kept = _kept(spark, checkpoint)
    if kept and set(kept) != set(nodes) and own.has_unfinished_batch(spark, checkpoint):
        raise SinkError(
            f"checkpoint {checkpoint} has a batch that was not finished, for nodes "
            f"{', '.join(kept)}, and the sink names {', '.join(nodes)}: run it with the list of "
            "before, --available-now, and then with the new one"
        )
    if set(kept) != set(nodes):
        _keep(spark, checkpoint, list(nodes))


def _kept(spark: SparkSession, checkpoint: str) -> list[str]:
    nodes: list[str] = json.loads(own.text(spark, checkpoint, FILE) or "[]")
    return nodes


def _found(spark: SparkSession, settings: SinkSettings, checkpoint: str) -> list[str]:
    if own.has_unfinished_batch(spark, checkpoint):
        raise SinkError(
            f"checkpoint {checkpoint} has a batch that was not finished, perhaps for other nodes: "
            "run it with the options of before, --available-now, and then with exactlyOnce and "
            "lookupd_http_address"
        )
    nodes = known_nodes(settings, settings.access)
    _keep(spark, checkpoint, nodes)
    return nodes


def _keep(spark: SparkSession, checkpoint: str, nodes: list[str]) -> None:
    """Write the list under its name when it is whole: a batch may follow at once."""
    path, files = own.place(spark, checkpoint, FILE)
    part, _ = own.place(spark, checkpoint, f"{FILE}.part")
    stream = files.create(part, True)
    stream.write(json.dumps(nodes).encode())
    stream.close()
    # Hadoop's rename replaces no file.
    files.delete(path, False)
    if not files.rename(part, path):
        raise SinkError(f"cannot write {path}, the list of the sink's nodes")
