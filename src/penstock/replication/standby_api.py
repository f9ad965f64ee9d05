"""The HTTP API of a node that is not a primary: its role, its lag, its logs for reading.

All else that nsqd has is refused with 503, which says where it is.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from penstock import __version__
from penstock.broker.channels.alarms import Alarms
from penstock.broker.channels.channel import ChannelOptions
from penstock.broker.topic import Topic
from penstock.core.chance import SystemChance
from penstock.core.clock import Clock
from penstock.core.errors import PenstockError
from penstock.core.settings.version import NSQ_VERSION, go_line
from penstock.core.units import SECOND
from penstock.net.http.server.deferred_response import deferred_response_of
from penstock.net.http.server.guard import Guard
from penstock.net.http.server.route import Route
from penstock.net.http.server.service import DeferredResponse, HttpServer, Request, Response
from penstock.net.http.server.v1_api import (
    ApiError,
    ApiRouter,
    Query,
    answered,
    json_response,
    text_response,
)
from penstock.node.http.log_api import LogApi
from penstock.replication.copy import Copy
from penstock.replication.feed import Feed
from penstock.replication.hooks import HookError
from penstock.replication.metrics import ReplicationMetrics
from penstock.replication.primary import (
    FETCH_BODY_MAX,
    fence_of,
    fetch_of,
    succeeded,
)
from penstock.replication.standby import LagError, NotWholeError, Standby
from penstock.replication.state import Role
from penstock.replication.stream import CopyStream

EPOCHS: Final = re.compile("[0-9]{1,18}")

logger = logging.getLogger("penstock.replication")


class CopiedTopics(Mapping[str, Topic]):
    """The topics of a copy by name."""

    def __init__(self, copy: Copy, clock: Clock) -> None:
        self._copy = copy
        self._clock = clock
        self._made: dict[str, Topic] = {}
        copy.leaving.append(self._left)

    def _left(self, name: str) -> None:
        self._made.pop(name, None)

    def __getitem__(self, name: str) -> Topic:
        copied = self._copy.topics[name]
        log = copied.log
        made = self._made.get(name)
        # A topic that was put aside and copied again has another log under the same name.
        if made is None or made.log is not log:
            made = self._made[name] = Topic(
                name,
                log,
                None,
                clock=self._clock,
                chance=SystemChance(),
                alarms=Alarms(),
                options=ChannelOptions(),
            )
        made.queues = copied.queues
        return made

    def __iter__(self) -> Iterator[str]:
        return iter(self._copy.topics)

    def __len__(self) -> int:
        return len(self._copy.topics)


def serve(standby: Standby) -> HttpServer:
    """The HTTP server of a standby, with its metrics."""
    router = StandbyRouter(standby)
    standby.vitals.sources.append(ReplicationMetrics(router.figures).source)
    return HttpServer(router, clock=standby.clock, memory=standby.memory)


class StandbyRouter(ApiRouter):
    """The routes."""

    def __init__(self, standby: Standby) -> None:
        options = standby.options
        super().__init__(Guard.of(options, options.broadcast_address))
        self._standby = standby
        standby.vitals.add_routes(self, metrics=options.metrics)
        self.v1("GET", "/info", self._info)
        self.v1("GET", "/stats", self._stats)
        self.v1("GET", "/replication", self._status, quiet=True)
        self.v1("POST", "/replication/fetch", self._fetch, max_body=FETCH_BODY_MAX, quiet=True)
        self.v1("POST", "/replication/fence", self._fence)
        self.v1("POST", "/replication/promote", self._promote)
        log_api = LogApi(
            CopiedTopics(standby.copy, standby.clock),
            (),
            standby.ports,
            options.broadcast_address,
            standby.copy.store.epochs,
        )
        log_api.add_routes(self)

    def resolve(self, method: str, path: str, query: bytes) -> tuple[Route, str]:
        """The route if a standby has it, else the refusal of whatever a primary would do."""
        if method in ("POST", "PUT", "DELETE") and method not in self._find(path)[0]:
            return self._constant(self._refusal(), quiet=True), ""
        return super().resolve(method, path, query)

    def _refusal(self) -> Response:
        standby = self._standby
        code = standby.code.removeprefix("E_")
        content = {"message": code, "why": standby.refusal, "primary": standby.state.primary}
        return json_response(content, 503)

    # --- looking -------------------------------------------------------------------------------

    def _info(self, request: Request) -> Any:
        standby = self._standby
        return {
            "version": NSQ_VERSION,
            "broadcast_address": standby.options.broadcast_address,
            "http_port": standby.ports.http or standby.ports.replication,
            "tcp_port": standby.ports.tcp,
            "start_time": standby.vitals.started_ns // SECOND,
            "penstock_version": __version__,
            "role": standby.role,
        }

    def figures(self) -> dict[str, Any]:
        """The node's part of /stats."""
        standby = self._standby
        state, copy, pulling = standby.state, standby.copy, standby.pulling
        lag_ns = pulling.lag_ns if pulling is not None else None
        figures: dict[str, Any] = {
            "role": standby.role,
            "epoch": state.epoch,
            "history": state.history,
            "primary": state.primary,
        }
        if state.role is Role.FENCED:
            return figures | {
                "fenced_epoch": state.fenced_epoch,
                "only_here": standby.only_here(),
            }
        return figures | {
            "error": pulling.error if pulling is not None else None,
            "whole": copy.is_whole and state.was_whole,  # while it syncs it is not promoted yet
            "was_whole": state.was_whole,
            "lag_messages": copy.messages_behind,
            "lag_bytes": copy.nbytes_behind,
            "lag_seconds": None if lag_ns is None else round(lag_ns / SECOND, 3),
            "max_lag": str(standby.options.promote_max_lag),
            "needs_force": standby.needs_force,
            "messages": sum(end for _, end in copy.ends.values()),
            "topics": len(copy.topics),
            "put_aside": copy.put_aside,
            "promotion_seconds": standby.promotion_s,
        }

    def _status(self, request: Request) -> Any:
        return self.figures()

    def _stats(self, request: Request) -> Response:
        """/stats: no topic, as nothing can be consumed here, and how far the copy is."""
        standby = self._standby
        figures = self.figures()
        if Query.parse(request.query).get("format") != "json":
            head = f"{go_line('nsqd')}\n\nHealth: {standby.health}\n\nReplication:\n"
            lines = [f"   {name:<25}\t{value}\n" for name, value in figures.items()]
            return text_response(head + "".join(lines))
        return json_response(
            {
                "version": NSQ_VERSION,
                "health": standby.health,
                "start_time": standby.vitals.started_ns // SECOND,
                "topics": [],
                "memory": standby.vitals.go_memory(),
                "producers": None,
                "replication": figures,
            }
        )

    # --- between nodes -------------------------------------------------------------------------

    def _fetch(self, request: Request) -> CopyStream:
        """A fenced primary gives its successor what it has, and nobody else: another would take
        itself for a whole copy of a primary. A follower has no followers.
        """
        standby, state = self._standby, self._standby.state
        standby.secret.check(request)
        fetch = fetch_of(request)
        if state.role is not Role.FENCED:
            if fetch.history == state.history and fetch.epoch < state.known_epoch:
                # A former primary, which already copies its successor.
                raise succeeded("FENCED", state)
            raise ApiError(409, "FOLLOWER", primary=state.primary)
        if fetch.address != state.primary:
            raise succeeded("FENCED", state)
        return CopyStream(
            Feed(standby.source, fetch),
            fetch.address,
            standby.clock,
            standby.memory.answers,
            heard=lambda stream: None,
            closed=lambda stream: None,
            is_finite=True,
        ).with_first_answer()

    def _fence(self, request: Request) -> Any:
        standby = self._standby
        standby.secret.check(request)
        fence, state = fence_of(request), standby.state
        if fence.history != state.history:
            raise ApiError(409, "OTHER_HISTORY")
        if state.role is not Role.FENCED:
            is_known = fence.fork is not None and state.epoch >= fence.epoch
            if is_known:
                return {"role": state.role, "epoch": state.epoch}
            if fence.epoch <= state.known_epoch and fence.address != state.primary:
                raise succeeded("STEPPED_BACK", state)
            raise ApiError(409, "FOLLOWER", primary=state.primary)
        if state.is_other_s(fence.epoch, fence.address):
            raise succeeded("STEPPED_BACK", state)
        known = msgspec.structs.replace(state)
        known.fence(fence.epoch, fence.address, fence.fork or state.fork)
        standby.take_state(known)
        return {"role": known.role, "epoch": known.epoch}

    def _promote(self, request: Request) -> DeferredResponse:
        """Answered once the node takes publishes, which it does in another role than this."""
        standby = self._standby
        standby.secret.check(request)
        later = deferred_response_of(answered(self._promoted(request)), _failed)
        waiting = {each for each in standby.promoters if each.response is None}
        standby.promoters = waiting | {later}
        return later

    async def _promoted(self, request: Request) -> Any:
        standby = self._standby
        try:
            query = Query.parse(request.query)
            epoch = query.get("epoch") or "0"
            if not EPOCHS.fullmatch(epoch):
                raise ApiError(400, "INVALID_EPOCH")
            answer = await standby.promote(
                force=query.get("force") == "true",
                in_sync=query.get("in_sync") == "true",
                epoch=int(epoch),
            )
            if standby.serves is not None:
                await standby.serves
            return answer
        except NotWholeError as error:
            raise ApiError(409, "NOT_WHOLE", why=str(error), behind=error.behind) from None
        except LagError as error:
            raise ApiError(409, "LAGS", why=str(error)) from None
        except HookError as error:
            why = f"not promoted: {error}"
            raise ApiError(409, "HOOK_REFUSED", why=why) from None
        except PenstockError as error:
            raise ApiError(409, "NOT_PROMOTED", why=str(error)) from None


def _failed(error: BaseException) -> Response:
    logger.error("the promotion failed", exc_info=error)
    return json_response({"message": "INTERNAL_ERROR"}, 500)
