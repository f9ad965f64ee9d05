"""The words of a program that cannot start, before a cause that does not say so itself."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from penstock.core.errors import ConfigError, PenstockError, StorageError
from penstock.net.tcp import ListenError


@contextmanager
def starting(failed: str) -> Iterator[None]:
    """Put ``failed`` before the text of an error that names only an option, a file or an address.

    Raises PenstockError. One whose text is whole as it is passes unchanged.
    """
    try:
        yield
    except (ConfigError, StorageError, ListenError) as error:
        raise PenstockError(f"{failed} - {error}") from error
