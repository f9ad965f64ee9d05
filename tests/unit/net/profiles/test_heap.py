from __future__ import annotations

import tracemalloc
from collections.abc import Iterator

import pytest

from penstock.core.clock import SYSTEM_CLOCK
from penstock.net.profiles import heap
from penstock.net.profiles.heap import HeapProfile

from .proto import read


class Keeper:
    """Allocates in a method, in a function inside of it, and in a property."""

    def keep(self, size: int) -> list[bytes]:
        def one() -> bytes:
            return bytes(size)

        return [one() for _ in range(100)]

    @property
    def kept(self) -> bytes:
        return bytes(50_000)

    @staticmethod
    def static() -> bytes:
        return bytes(60_000)


@pytest.fixture
def watching() -> Iterator[None]:
    heap.watch()
    yield
    heap.unwatch()
    assert not tracemalloc.is_tracing()


@pytest.mark.usefixtures("watching")
def test_what_is_kept_is_shown_with_its_place() -> None:
    assert heap.is_watching()
    kept = [Keeper().keep(1000), Keeper().kept, Keeper.static()]
    lost = Keeper().keep(3000)
    del lost
    profile = HeapProfile(SYSTEM_CLOCK)
    profile.take()
    found = read(profile.pprof())
    assert found.types == [("inuse_objects", "count"), ("inuse_space", "bytes")]
    assert found.default == "inuse_space"
    sizes: dict[str, list[int]] = {}
    for stack, values, _ in sorted(found.samples, key=lambda sample: sample[1]):
        sizes[stack[0][0]] = values  # the largest of each place
    one = sizes[f"{__name__}.Keeper.keep.<locals>.one"]
    assert one[0] == 100
    assert 100_000 < one[1] < 110_000
    assert sizes[f"{__name__}.Keeper.kept"][1] > 50_000
    assert sizes[f"{__name__}.Keeper.static"][1] > 60_000
    stack = next(stack for stack, values, _ in found.samples if values == one)
    assert stack[1][0].endswith((".keep", ".<listcomp>"))
    assert f"{__name__}.test_what_is_kept_is_shown_with_its_place" in {place[0] for place in stack}
    text = profile.text()
    assert " bytes in 100 objects\n" in text
    assert f'File "{__file__}"' in text
    assert len(kept) == 3


@pytest.mark.usefixtures("watching")
def test_the_number_of_stacks_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heap, "STACKS_MAX", 1)
    kept = [Keeper().kept, Keeper.static(), Keeper().keep(10)]
    profile = HeapProfile(SYSTEM_CLOCK)
    profile.take()
    found = read(profile.pprof())
    assert len(found.samples) == 2
    assert found.samples[0][0][0][0] == f"{__name__}.Keeper.static"
    assert found.samples[1][0][0][0] == "(further stacks)"
    assert found.totals()[1] > 110_000
    assert len(kept) == 3


@pytest.mark.usefixtures("watching")
def test_code_of_no_module_goes_by_its_line() -> None:
    space: dict[str, bytes] = {}
    exec(compile("\n\nkept = bytes(77_000)", "<made up>", "exec"), space)
    profile = HeapProfile(SYSTEM_CLOCK)
    profile.take()
    assert "<made up>:3" in read(profile.pprof()).functions()
    assert len(space["kept"]) == 77_000
