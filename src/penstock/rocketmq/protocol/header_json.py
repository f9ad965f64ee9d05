"""The header as JSON, type 0 (RocketMQ spec 1.3): read with tolerance, written as the strictest
client wants it.

Clients send numbers and booleans for fields, languages as numbers, no version, unknown keys. What
they read must be compact JSON, every field a string: one of them splits the text at commas, another
fails on anything in ``extFields`` that is not a string.
"""

from __future__ import annotations

from contextlib import suppress
from reprlib import repr as shortened
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

from penstock.core.malformed import MALFORMED
from penstock.rocketmq.protocol import fastjson
from penstock.rocketmq.protocol.command import Command, Language
from penstock.rocketmq.protocol.errors import BodyError, FrameError
from penstock.storage.compiled import MSGSPEC, Struct

if TYPE_CHECKING or MSGSPEC:
    from msgspec import UNSET, Meta, UnsetType
    from msgspec.json import Decoder, Encoder

    _Int32: TypeAlias = Annotated[int, Meta(ge=-(1 << 31), le=(1 << 31) - 1)]
else:
    UNSET = UnsetType = None
    _Int32 = int


class _Header(Struct):
    """The usual header; its keys are in the alphabetical order in which they are written."""

    code: _Int32
    extFields: dict[str, Any] | UnsetType | None = UNSET
    flag: _Int32 = 0
    language: str | int | None = "OTHER"
    opaque: _Int32 = 0
    remark: str | UnsetType | None = UNSET
    serializeTypeCurrentRPC: str | None = "JSON"
    version: _Int32 = 0


if TYPE_CHECKING or MSGSPEC:
    _encode = Encoder().encode
    _decode = Decoder(_Header).decode
else:

    def _encode(header: _Header) -> bytes:
        return fastjson.dumps(vars(header))

    def _decode(header: bytes) -> _Header:
        return _decode_oddly(header)


_LANGUAGES = {language.name: language for language in Language}
_LANGUAGES_BY_NUMBER = {int(language): language for language in Language}


def encode(command: Command) -> bytes:
    """The header of a command."""
    return _encode(
        _Header(
            command.code,
            UNSET if command.ext is None else command.ext,
            command.flag,
            command.language.name,
            command.opaque,
            UNSET if command.remark is None else command.remark,
            "JSON",
            command.version,
        )
    )


def decode(header: bytes) -> Command:
    """Decode a header. Raises FrameError when that is not possible."""
    try:
        return _command(_decode(header))
    except RecursionError:
        raise FrameError("a JSON header is nested too deeply") from None
    except MALFORMED:
        return _command(_decode_oddly(header))


def _command(found: _Header) -> Command:
    fields = found.extFields or None
    return Command(
        found.code,
        found.opaque,
        _as_texts(fields) if fields else None,
        b"",
        found.flag,
        found.remark or None,
        _language(found.language),
        found.version,
    )


def _as_texts(fields: dict[str, Any]) -> dict[str, str]:
    """The fields with all values as strings; those that are null are left out."""
    for value in fields.values():
        # ali-ons and C++ clients send numbers and booleans; they count as their texts.
        if type(value) is not str:
            return {name: _as_text(value) for name, value in fields.items() if value is not None}
    return fields


def _as_text(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        # Java's parseBoolean knows words alone, so a boolean counts as its text.
        return "true" if value else "false"
    return str(value) if isinstance(value, int) else fastjson.dumps(value).decode()


def _language(value: str | int | None) -> Language:
    # A Python client sends a number; an unknown name is null in Java, and OTHER here.
    if isinstance(value, str):
        return _LANGUAGES.get(value, Language.OTHER)
    return _LANGUAGES_BY_NUMBER.get(value or 0, Language.OTHER)


def _decode_oddly(header: bytes) -> _Header:
    """A header that standard JSON or our types refuse, if fastjson would take it."""
    try:
        values = fastjson.loads_leniently(header)
    except BodyError as error:
        raise FrameError(f"a JSON header that is not JSON: {error}") from None
    if not isinstance(values, dict):
        raise FrameError("a JSON header that is not an object")
    fields = values.get("extFields")
    language, remark = values.get("language"), values.get("remark")
    return _Header(
        _number(values, "code", None),
        {_as_text(name): value for name, value in fields.items()}
        if isinstance(fields, dict)
        else UNSET,
        _number(values, "flag", 0),
        language if isinstance(language, str | int) else "OTHER",
        _number(values, "opaque", 0),
        remark if isinstance(remark, str) else UNSET,
        "JSON",
        _number(values, "version", 0),
    )


def _number(values: dict[Any, Any], name: str, default: int | None) -> int:
    value = values.get(name, default)
    if isinstance(value, str):
        with suppress(ValueError):
            value = int(value)
    if type(value) is not int or not -(1 << 31) <= value < 1 << 31:
        raise FrameError(f"a JSON header whose {name} is not a 32-bit number: {shortened(value)}")
    return value
