"""Actions of administrators: create, delete, pause, unpause, empty, tombstone (NSQ spec 5.2)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Final, NoReturn

from penstock.admin.notifications import Action, Notifier
from penstock.admin.permissions import Access
from penstock.admin.read_api import answering, names, text_of
from penstock.admin.router import AdminRouter
from penstock.cluster.fanout import Warnings
from penstock.cluster.writes import Changes
from penstock.core.names import is_valid_name
from penstock.net.http.server.service import Request
from penstock.net.http.server.v1_api import ApiError

_SPACE: Final = " \t\r\n"
_REASONS: Final = {
    "Expecting value": "looking for beginning of value",
    "Expecting property name enclosed in double quotes": (
        "looking for beginning of object key string"
    ),
    "Expecting ':' delimiter": "after object key",
    "Expecting ',' delimiter": "after object key:value pair",
    "Invalid control character at": "in string literal",
    "Invalid control character": "in string literal",
    "Invalid \\escape": "in string escape code",
    "Invalid \\uXXXX escape": "in \\u hexadecimal character escape",
}
_NAMES: Final[dict[type, str]] = {
    str: "string",
    bool: "bool",
    list: "array",
    int: "number",
    float: "number",
    tuple: "object",
}


def _refuse(word: str) -> NoReturn:
    raise ValueError(f"invalid character {word[0]!r} looking for beginning of value")


# Objects are told apart from arrays by being tuples of pairs.
_decoder = json.JSONDecoder(object_pairs_hook=tuple, parse_constant=_refuse)


def read_strings(body: bytes, names: Sequence[str]) -> list[str]:
    """The strings at ``names`` of the object in ``body``, in that order; absent ones are empty.

    Raises ValueError with the text that Go's decoder has.
    """
    value = _first_value(body.decode("utf-8", "replace"))
    found = dict.fromkeys(names, "")
    # `null` counts as `{}` for Go's decoder (NSQ spec 5.2).
    if value is None:
        return list(found.values())
    if not isinstance(value, tuple):
        fields = "; ".join(f'{name.title()} string "json:\\"{name}\\""' for name in names)
        kind = _NAMES[type(value)]
        raise ValueError(
            f"json: cannot unmarshal {kind} into Go value of type struct {{ {fields} }}"
        )
    for key, item in value:
        # Go's decoder takes names in any case, and leaves a field alone for null.
        name = key if key in found else key.lower()
        if name not in found or item is None:
            continue
        if not isinstance(item, str):
            kind = _NAMES[type(item)]
            raise ValueError(
                f"json: cannot unmarshal {kind} into Go struct field .{name} of type string"
            )
        found[name] = item
    return [_whole(text) for text in found.values()]


def _first_value(text: str) -> Any:
    start = len(text) - len(text.lstrip(_SPACE))
    if start == len(text):
        raise ValueError("EOF")
    try:
        # Go's decoder takes the first value and ignores what follows (NSQ spec 5.2).
        return _decoder.raw_decode(text, start)[0]
    except json.JSONDecodeError as error:
        raise ValueError(_reason(error, text)) from None
    except RecursionError:
        raise ValueError("exceeded max depth") from None


def _reason(error: json.JSONDecodeError, text: str) -> str:
    at = error.pos
    if error.msg.startswith("Expecting"):
        at += len(text[at:]) - len(text[at:].lstrip(_SPACE))
    reason = _REASONS.get(error.msg)
    if reason is None or at >= len(text):  # an unterminated string, for one
        return "unexpected EOF"
    shown = {"'": "'\\''", '"': "'\"'"}.get(text[at]) or _quoted(text[at])
    return f"invalid character {shown} {reason}"


def _quoted(char: str) -> str:
    escapes = {"\n": "\\n", "\r": "\\r", "\t": "\\t", "\\": "\\\\"}
    if char in escapes:
        return f"'{escapes[char]}'"
    return f"'{char}'" if char.isprintable() else f"'\\x{ord(char):02x}'"


def _whole(text: str) -> str:
    """A text without halves of surrogate pairs, which JSON can say and UTF-8 cannot."""
    return text.encode("utf-8", "replace").decode() if not text.isascii() else text


_ACTIONS: Final = frozenset(("pause", "unpause", "empty"))
_ACCEPT: Final = "accept_damage"


class ActionsApi:
    """The handlers that change something; each asks first whether the user may."""

    def __init__(self, changes: Changes, access: Access, notifier: Notifier) -> None:
        self._changes = changes
        self._access = access
        self._notifier = notifier

    def add_routes(self, router: AdminRouter) -> None:
        router.v1("POST", "/api/topics", answering(self._create))
        router.v1("POST", "/api/topics/:topic", answering(self._act_on_topic))
        router.v1("POST", "/api/topics/:topic/:channel", answering(self._act_on_channel))
        router.v1("DELETE", "/api/topics/:topic", answering(self._delete_topic))
        router.v1("DELETE", "/api/topics/:topic/:channel", answering(self._delete_channel))
        router.v1("DELETE", "/api/nodes/:node", answering(self._tombstone))

    async def _create(self, request: Request) -> Any:
        # First: who may change nothing gets 403, even for a bad body (NSQ spec 5.2).
        self._access.check_admin(request)
        topic, channel = _strings(request, "topic", "channel")
        if not is_valid_name(topic):
            raise ApiError(400, "INVALID_TOPIC")
        if channel and not is_valid_name(channel):
            raise ApiError(400, "INVALID_CHANNEL")
        errors = await self._changes.create(topic, channel)
        self._notifier.tell(Action("create_topic", topic), request)
        if channel:
            self._notifier.tell(Action("create_channel", topic, channel), request)
        return _done(errors)

    async def _act_on_topic(self, request: Request) -> Any:
        return await self._act(request, text_of(request.param), "")

    async def _act_on_channel(self, request: Request) -> Any:
        return await self._act(request, *names(request))

    async def _act(self, request: Request, topic: str, channel: str) -> Any:
        self._access.check_admin(request)
        (action,) = _strings(request, "action")
        if action == _ACCEPT and not channel:
            return await self._accept(request, topic)
        if action not in _ACTIONS:
            raise ApiError(400, "INVALID_ACTION")
        what = "channel" if channel else "topic"
        try:
            return _done(await self._changes.act(action, topic, channel))
        finally:  # the notification goes out even when no node could be asked
            self._notifier.tell(Action(f"{action}_{what}", topic, channel), request)

    async def _accept(self, request: Request, topic: str) -> Any:
        errors = await self._changes.accept_damage(topic)
        self._notifier.tell(Action(_ACCEPT, topic), request)
        return _done(errors)

    async def _delete_topic(self, request: Request) -> Any:
        self._access.check_admin(request)
        topic = text_of(request.param)
        errors = await self._changes.delete(topic)
        self._notifier.tell(Action("delete_topic", topic), request)
        return _done(errors)

    async def _delete_channel(self, request: Request) -> Any:
        self._access.check_admin(request)
        topic, channel = names(request)
        errors = await self._changes.delete(topic, channel)
        self._notifier.tell(Action("delete_channel", topic, channel), request)
        return _done(errors)

    async def _tombstone(self, request: Request) -> Any:
        self._access.check_admin(request)
        node = text_of(request.param)
        try:
            (topic,) = read_strings(request.body, ("topic",))
        except ValueError:
            # A code here, where the other handlers answer with the decoder's text (NSQ spec 5.2).
            raise ApiError(400, "INVALID_BODY") from None
        if not is_valid_name(topic):
            raise ApiError(400, "INVALID_TOPIC")
        errors = await self._changes.tombstone(topic, node)
        self._notifier.tell(Action("tombstone_topic_producer", topic, node=node), request)
        return _done(errors)


def _strings(request: Request, *wanted: str) -> list[str]:
    try:
        return read_strings(request.body, wanted)
    except ValueError as error:
        raise ApiError(400, str(error)) from None


def _done(errors: list[str]) -> dict[str, str]:
    warnings = Warnings()
    warnings.add(errors)
    return {"message": warnings.message}
