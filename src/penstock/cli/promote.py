"""``penstock promote``: a follower becomes primary, and what is not known about it is said."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, Final

from penstock.cluster.access import Access
from penstock.cluster.blocking import Daemon, secured
from penstock.cluster.exchange import code_of, parsed
from penstock.cluster.upstream_errors import RefusedError, UpstreamError
from penstock.core.counted import counted
from penstock.core.errors import PenstockError
from penstock.core.redaction import without_secrets
from penstock.net.http.client.keep_alive import Tls

ASK_S: Final = 5.0
PROMOTE_S: Final = 90.0
"""The time in which the old primary, if it is there, hands over all it has; the node has as long
again to open its data path. One whose hook may take longer says so.
"""
_POLL_S: Final = 0.05
_WAIT_S_MAX: Final = 24 * 3600.0
_NUMBER_MAX: Final = 1 << 63


def furthest(addresses: Sequence[str], access: Access) -> str:
    """The address of the follower that has most messages. Raises PenstockError."""
    found: dict[str, tuple[int, str]] = {}
    for address in addresses:
        try:
            status = _status_of(address, access)
        except UpstreamError as error:
            print(f"{error}: what only it has is not known")
            continue
        if status.get("role") == "follower":
            count = int(_number(status, "messages") or 0)
            found[address] = count, str(status.get("history"))
            print(f"{without_secrets(address)} has {counted(count, 'message')}")
    if not found:
        raise PenstockError("none of these nodes is a follower that answers")
    if len({history for _, history in found.values()}) > 1:
        raise PenstockError("these are copies of different nodes: give those of one")
    return max(found, key=lambda address: found[address][0])


def _tls(access: Access) -> Tls | None:
    return Tls(access.new_context(), access.server_name) if access.concerns_tls else None


def _status_of(address: str, access: Access) -> dict[str, Any]:
    url = secured(address, access, ASK_S)
    with Daemon(url, ASK_S, tls=_tls(access), headers=access.headers) as node:
        try:
            return node.get("/replication")
        except RefusedError as error:
            if error.is_unknown:
                raise PenstockError(
                    f"{without_secrets(address)} cannot be promoted: give the HTTP address of a "
                    "follower, an nsqd or mqbroker of Penstock"
                ) from error
            raise


def run_promote(
    address: str, access: Access, *, force: bool = False, wait_s: float = PROMOTE_S
) -> None:
    """Promote the node at an HTTP address, by ``force`` although it is not whole, and wait until it
    takes publishes. Raises PenstockError.
    """
    tls = _tls(access)
    shown = without_secrets(address)
    url = secured(address, access, ASK_S)
    status = _status_of(address, access)
    if status.get("role") == "primary":
        print(f"{shown} is primary already, in epoch {status.get('epoch')}")
        return
    wait_s = max(wait_s, ASK_S + min(_number(status, "promotion_seconds") or 0, _WAIT_S_MAX))
    with Daemon(url, 2 * wait_s, tls=tls, headers=access.headers) as node:
        reply = node.ask("POST", "/replication/promote" + ("?force=true" if force else ""))
        answer = parsed(reply.body)
        if reply.status != 200:
            raise PenstockError(f"{shown}: {answer.get('why') or code_of(reply.body)}")
    for line in _told(shown, answer, status):
        print(line)
    _wait_until_ready(url, tls, access, wait_s)
    print("it takes publishes now")


def _told(address: str, answer: dict[str, Any], status: dict[str, Any]) -> list[str]:
    """The outcome, for it and for the primary before, which ``status`` names."""
    epoch, before = answer.get("epoch"), status.get("primary") or "the primary before"
    lines = [f"{address} is primary in epoch {epoch}"]
    if answer.get("old_primary_told") and answer.get("whole"):
        return [*lines, f"{before} has stepped back, and all that it had is here"]
    seconds, messages = _number(answer, "lag_seconds"), int(_number(answer, "lag_messages") or 0)
    if answer.get("old_primary_told"):
        lines.append(f"{before} has stepped back, but has not handed over all that it had")
    else:
        lines.append(
            f"{before} could not be reached: whether it still takes publishes cannot be "
            f"known from here; it takes none any more once it hears of epoch {epoch}, "
            "which it is told as soon as it can be reached"
        )
        if not answer.get("before_hook"):
            lines.append(
                f"whether another follower of {before} was promoted too cannot be known "
                "from here: it has no --promote-before-hook that takes a "
                "lease"
            )
    if answer.get("copied") is True:
        return [*lines, f"all that {before} had acknowledged is here: its OKs waited for this copy"]
    if seconds is None and messages:
        lines.append(
            "this copy was not whole at any time since it was started: "
            f"at least {counted(messages, 'message')} are not here"
        )
    elif seconds is None:
        was = "was whole" if status.get("was_whole") else "was not whole"
        lines.append(
            f"this copy {was} when it last heard from {before}, before it was started: "
            "how many messages are not here is not known"
        )
    else:
        known = f"; it knew of {counted(messages, 'message')} that it had not" * (messages > 0)
        lines.append(f"what {before} acknowledged in its last {seconds:g} s may not be here{known}")
    return lines


def _number(answer: dict[str, Any], name: str) -> float | None:
    """A number in an answer; None where there is another value, or no number of that size."""
    value = answer.get(name)
    is_number = isinstance(value, int | float) and 0 <= value < _NUMBER_MAX
    return value if is_number else None


def _wait_until_ready(url: str, tls: Tls | None, access: Access, wait_s: float) -> None:
    """Wait until the node has opened its ports again; one of an earlier version answers before.
    Raises PenstockError.
    """
    for _ in range(int(wait_s / _POLL_S)):
        try:
            with Daemon(url, ASK_S, tls=tls, headers=access.headers) as node:
                if node.get("/replication").get("role") == "primary":
                    return
        except UpstreamError:
            pass
        time.sleep(_POLL_S)
    raise PenstockError(f"{url} was promoted, but does not answer: see its log")
