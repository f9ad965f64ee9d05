from __future__ import annotations

from penstock.net.profiles.call_stacks import Frame
from penstock.net.profiles.pprof import Profile, ValueType

from .proto import read

INNER = Frame("m.inner", "m.py", 7, 5)
OUTER = Frame("m.outer", "m.py", 300, 200)


def test_all_of_it_is_read_back() -> None:
    cpu = ValueType("cpu", "nanoseconds")
    profile = Profile((ValueType("samples", "count"), cpu), program="nsqd", time_ns=1 << 60,
                      duration_ns=5, period=(cpu, 10**7), default="cpu",
                      comment="no comment")  # fmt: skip
    profile.add([INNER, OUTER], (3, 30_000_000), {"thread": "MainThread"})
    profile.add([OUTER], (0, -1))
    profile.add([], (1, 1))
    found = read(profile.encode())
    assert found.types == [("samples", "count"), ("cpu", "nanoseconds")]
    assert found.samples == [
        ([tuple(INNER), tuple(OUTER)], [3, 30_000_000], {"thread": "MainThread"}),
        ([tuple(OUTER)], [0, -1], {}),
        ([], [1, 1], {}),
    ]
    assert (found.program, found.time_ns, found.duration_ns) == ("nsqd", 1 << 60, 5)
    assert (found.period_type, found.period, found.default) == (tuple(cpu), 10**7, "cpu")
    assert found.comments == ["no comment"]


def test_equal_frames_are_kept_once() -> None:
    kind = ValueType("n", "count")
    few, many = (Profile((kind,), program="p", time_ns=1) for _ in range(2))
    few.add([INNER, OUTER], (1,))
    for _ in range(1000):
        many.add([INNER, OUTER], (1,))
    assert len(many._locations) == len(few._locations) == 2
    assert read(many.encode()).totals() == [1000]


def test_an_empty_profile_and_odd_names() -> None:
    kind = ValueType("n", "count")
    assert read(Profile((kind,), program="p", time_ns=1).encode()).samples == []
    profile = Profile((kind,), program="p", time_ns=1)
    profile.add([Frame("f\ud800ü", "x.py", 1, 1)], (1,))
    assert read(profile.encode()).functions() == {"f?ü"}
