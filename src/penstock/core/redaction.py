"""Texts without the passwords and secrets in them, for logs, pages and messages of errors."""

from __future__ import annotations

import re
from typing import Final

HIDDEN: Final = "***"

_PASSWORD: Final = re.compile(
    r"((?:^|//|[\s=(\"'])[^\s/?#:@]*):"
    # A password with an unescaped slash makes a URL that no program takes, but is one all the same;
    # what follows a port is a path.
    r"(?:[^\s/?#]*|(?!\d*[/?#])\S*?)@"
)
_PARAMETER: Final = re.compile(
    r"([?&](?:secret|token|access_token|password|api_?key)=)[^&#\s\"]+", re.IGNORECASE
)
_OPTION: Final = re.compile(r"(\bauth[_-]secret[,=])(?:\\.|[^\"\\\n])+")
_USER: Final = re.compile(r"(?<=//)[^/?#]*@")


def without_secrets(text: str) -> str:
    """The text with stars for the passwords of addresses, with or without a scheme, for secrets in
    their queries, and for the client option `auth_secret`.
    """
    text = _PASSWORD.sub(rf"\1:{HIDDEN}@", text)
    text = _PARAMETER.sub(rf"\1{HIDDEN}", text)
    return _OPTION.sub(rf"\1{HIDDEN}", text)


def without_user(url: str) -> str:
    """The URL without user and password, for those who have to be known themselves."""
    return _USER.sub("", url, count=1)
