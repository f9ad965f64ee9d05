from __future__ import annotations

import pytest

from penstock.cli.shared.starting import starting
from penstock.core.errors import ConfigError, LockedError, PenstockError, StorageError
from penstock.net.tcp import ListenError


@pytest.mark.parametrize("kind", [ConfigError, StorageError, LockedError, ListenError])
def test_a_cause_gets_the_words_of_the_program(kind: type[PenstockError]) -> None:
    with pytest.raises(PenstockError) as raised, starting("it cannot start"):
        raise kind("why")
    assert str(raised.value) == "it cannot start - why"
    assert isinstance(raised.value.__cause__, kind)


def test_a_text_that_is_whole_stays_as_it_is() -> None:
    with pytest.raises(PenstockError, match=r"^why$"), starting("it cannot start"):
        raise PenstockError("why")
