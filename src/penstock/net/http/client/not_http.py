"""The error of an answer that is not HTTP, for clients with and without httptools."""

from __future__ import annotations

from typing import Final

_NSQ_PORT: Final = (
    "that is the TCP port of nsqd or nsqlookupd; HTTP is at another, by default 4151 or 4161"
)


class NotHttpError(ValueError):
    """An answer that is not HTTP; ``begun`` is the beginning of it."""

    def __init__(self, begun: bytes) -> None:
        port_of_nsq = b"E_BAD_PROTOCOL" in begun  # nsqd's and nsqlookupd's word for "GET "
        super().__init__(_NSQ_PORT if port_of_nsq else "what answers there does not speak HTTP")
