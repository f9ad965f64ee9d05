"""The status of a pipeline, which Spark queries report to nodes and nsqadmin reads there."""

from __future__ import annotations

from typing import Annotated, Final, Literal, TypeAlias

from msgspec import Meta, Struct

NAME_MAX: Final = 256
"""Characters of a pipeline's id and name."""
PLACE_MAX: Final = 1024
SQL_MAX: Final = 16_384
ERROR_MAX: Final = 4096
GROUPS_MAX: Final = 1000
ANY_TOPIC: Final = "*"
"""Among a pipeline's groups: in every topic that has the group."""

_Name = Annotated[str, Meta(min_length=1, max_length=NAME_MAX, pattern=r"\A[^\x00-\x1f\x7f]*\Z")]
_Count = Annotated[int, Meta(ge=0, le=(1 << 63) - 1)]
_Rate = Annotated[float, Meta(ge=0, le=1e18)]
_Place = Annotated[str, Meta(max_length=PLACE_MAX)]
State: TypeAlias = Literal["running", "stopped", "failed"]


class PipelineStatus(Struct):
    """One query. Rows are those of this run, rates are rows a second over about the last minute.

    ``id`` is Spark's, which stays while the checkpoint does. ``groups`` are topics that it reads
    from nodes, with its group there; the topic ``*`` is any that has the group. ``started`` is unix
    seconds of the machine that runs it.
    """

    id: _Name
    name: _Name
    state: State
    source: _Place = ""
    sink: _Place = ""
    sql: Annotated[str, Meta(max_length=SQL_MAX)] = ""
    groups: Annotated[list[tuple[_Name, _Name]], Meta(max_length=GROUPS_MAX)] = []
    started: _Rate = 0.0
    batches: _Count = 0
    batch: Annotated[int, Meta(ge=-1, le=(1 << 63) - 1)] = -1
    batch_rows: _Count = 0
    batch_ms: _Count = 0
    rows_read: _Count = 0
    rows_written: _Count = 0
    rows_bad: _Count = 0
    read_per_s: _Rate = 0.0
    written_per_s: _Rate = 0.0
    lag: _Count = 0
    state_rows: _Count = 0
    state_bytes: _Count = 0
    error: Annotated[str, Meta(max_length=ERROR_MAX)] = ""


class ReportedStatus(PipelineStatus):
    """A status as a node keeps it.

    ``age`` is the seconds since it was told. ``error`` is the last one, which a later run does not
    take away, ``error_at`` its time in unix seconds of this node. ``lag`` is that of the groups on
    this node where there are some (``lag_is_here``), else as it was told. ``restarts`` is how often
    it began again since this node knows of it.
    """

    age: float = 0.0
    error_at: float = 0.0
    lag_is_here: bool = False
    restarts: int = 0
