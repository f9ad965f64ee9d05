"""Errors in the bytes of a peer.

A broken rule of the protocol is a value with the exact text the peer is to see, so that whoever
notices it (the TCP session, HTTP's /mpub, a client) can pass it on without composing it again.
"""

from __future__ import annotations

from penstock.core.errors import PenstockError


class ProtocolError(PenstockError):
    """A peer broke the protocol.

    ``code`` is the upper-case word clients switch on, ``text`` the whole line of the error frame,
    code included ("E_BAD_BODY MPUB invalid message count 0"). Bytes of the peer that are not UTF-8
    are kept in ``text`` as surrogate escapes.
    """

    def __init__(self, code: str, description: str) -> None:
        self.code = code
        self.text = f"{code} {description}" if description else code
        super().__init__(self.text)
