"""/pipelines: Spark's queries tell how they are, nsqadmin asks for it. NSQ has no such page."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from penstock.core.malformed import MALFORMED
from penstock.net.http.server.api import ApiError, ApiRouter
from penstock.net.http.server.service import Request
from penstock.nsq.nsqd.stats.pipelines import Pipelines
from penstock.nsq.pipeline_status import PipelineStatus

_BODY_MAX: Final = 128 << 10


class PipelinesApi:
    """The endpoints of one nsqd."""

    def __init__(self, pipelines: Pipelines) -> None:
        self._pipelines = pipelines

    def add_routes(self, router: ApiRouter) -> None:
        router.v1("GET", "/pipelines", self._show, quiet=True)
        router.v1("POST", "/pipelines", self._tell, max_body=_BODY_MAX, quiet=True)

    def _show(self, request: Request) -> Any:
        return {"pipelines": self._pipelines.all()}

    def _tell(self, request: Request) -> Any:
        try:
            status = msgspec.json.decode(request.body, type=PipelineStatus)
        except MALFORMED:
            raise ApiError(400, "INVALID_BODY") from None
        self._pipelines.told(status)
        return {}
