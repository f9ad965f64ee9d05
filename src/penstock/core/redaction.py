"""Redaction of passwords and secrets in texts for logs, pages and error messages."""

from __future__ import annotations

import re
from typing import Final

HIDDEN: Final = "***"

_PASSWORD: Final = re.compile(
    r"((?:^|//|[\s=(\"'])[^\s/?#:@]*):"
    # A URL with an unescaped slash in its password is invalid, but its password is still secret.
    # Behind a port, though, a slash begins the path.
    r"(?:[^\s/?#]*|(?!\d*[/?#])\S*?)@"
)
_PARAMETER: Final = re.compile(
    r"([?&](?:secret|token|access_token|password|api_?key)=)[^&#\s\"]+", re.IGNORECASE
)
_OPTION: Final = re.compile(r"(\bauth[_-]secret[,=])(?:\\.|[^\"\\\n])+")
_USER: Final = re.compile(r"(?<=//)[^/?#]*@")


def without_secrets(text: str) -> str:
    """The text with stars in place of secrets.

    Secrets are the passwords in addresses, with or without a scheme, secret parameters in their
    queries, and the client option ``auth_secret``.
    """
    text = _PASSWORD.sub(rf"\1:{HIDDEN}@", text)
    text = _PARAMETER.sub(rf"\1{HIDDEN}", text)
    return _OPTION.sub(rf"\1{HIDDEN}", text)


def without_user(url: str) -> str:
    """The URL without user and password, for readers who must not learn the user either."""
    return _USER.sub("", url, count=1)
