"""Replays the cases of `tools.jsonl`: the six tools against nsqd, nsqlookupd and HTTP servers.

A few lanes play side by side. Each has daemons of its own, which are empty before every case, for
the recorded runs use the same topics again and again. Runs that never get as far as a daemon (wrong
flags, `--version`) need no such care: some threads play them on a scene that they share.
"""

from __future__ import annotations

import tempfile
from collections.abc import Collection, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from queue import SimpleQueue

from tools.harness.samples import Case, load

from .report import Report
from .tool_before import prepare
from .tool_during import act
from .tool_outcome import compare
from .tool_run import Run
from .tool_scene import WAIT_S, Scene

LANES = 4
SIDE_BY_SIDE = 6
"""Runs at the same time: one in each lane, and those without a lane."""
DIFFERENT_S = 2.0
"""How long one that is known to differ is given to do what was recorded."""


class Stage:
    """The scenes of all lanes."""

    def __init__(self, stack: ExitStack) -> None:
        with ThreadPoolExecutor(LANES) as pool:
            stacks = [stack.enter_context(ExitStack()) for _ in range(LANES)]
            self._scenes = list(pool.map(Scene, stacks))
        self._free: SimpleQueue[Scene] = SimpleQueue()
        for scene in self._scenes:
            self._free.put(scene)

    @contextmanager
    def empty_scene(self) -> Iterator[Scene]:
        """One that nobody else uses."""
        scene = self._free.get()
        try:
            scene.empty()
            yield scene
        finally:
            self._free.put(scene)

    @property
    def shared(self) -> Scene:
        """One for runs that leave no trace."""
        return self._scenes[0]


@contextmanager
def stage() -> Iterator[Stage]:
    """The daemons for any number of replays."""
    with ExitStack() as stack:
        yield Stage(stack)


def replay_tools(
    path: Path, tools: Iterable[str], place: Stage, different: Collection[str] = ()
) -> Report:
    """Play all cases of these tools; those that are known to differ are not waited for long."""
    report = Report(path.name)
    chosen = set(tools)
    cases = [case for case in load(path) if tool_of(case) in chosen]

    def play(case: Case) -> BaseException | None:
        return _outcome(case, place, DIFFERENT_S if case["name"] in different else WAIT_S)

    quiet = [case for case in cases if is_quiet(case)]
    others = [case for case in cases if not is_quiet(case)]
    with (
        ThreadPoolExecutor(SIDE_BY_SIDE - LANES) as pool,
        ThreadPoolExecutor(LANES) as lanes,
    ):
        ended, played = pool.map(play, quiet), lanes.map(play, others)
        outcomes = [*ended, *played]
    for case, miss in zip([*quiet, *others], outcomes, strict=True):
        if miss is None:
            report.held.append(case["name"])
        else:
            report.miss(case["name"], miss)
    return report


def tool_of(case: Case) -> str:
    """The tool that a case runs."""
    return str(case["request"]["command"].split()[0])


def is_quiet(case: Case) -> bool:
    """Whether it ends by itself without having reached a daemon."""
    reached = ("{tcp", "{http", "{lookupd", "{fake")
    return (
        isinstance(case["expect"]["exit"], int)
        and case["expect"].keys() == {"exit", "stdout", "stderr"}
        and case["request"].keys() == {"command"}
        and not case["setup"]
        and not any(place in case["request"]["command"] for place in reached)
    )


def _outcome(case: Case, place: Stage, patience_s: float) -> BaseException | None:
    with tempfile.TemporaryDirectory(prefix="penstock-tools-", ignore_cleanup_errors=True) as path:
        try:
            if is_quiet(case):
                _play(Run(case, place.shared, Path(path), patience_s), quiet=True)
            else:
                with place.empty_scene() as scene:
                    _play(Run(case, scene, Path(path), patience_s), quiet=False)
        except Exception as error:
            return error
    return None


def _play(run: Run, *, quiet: bool) -> None:
    """Raises Miss when something else happens than recorded."""
    if not quiet:
        prepare(run)
    run.start()
    try:
        if not quiet:
            act(run)
        run.end()
        compare(run)
    finally:
        run.process.end()
