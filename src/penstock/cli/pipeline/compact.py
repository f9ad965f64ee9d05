"""``penstock pipeline compact``: few files in place of the many that an archive's batches make."""

from __future__ import annotations

from pathlib import Path

from penstock.core.counted import counted
from penstock.core.errors import PenstockError, UsageError
from penstock.spark.compaction import Result, compact
from penstock.spark.pipelines import Pipeline
from penstock.spark.pipelines.own import local_folder
from penstock.spark.requirements import require_packages


def run_compact(place: Path, file_megabytes: int) -> None:
    """Compact a folder, or that of a pipeline's file, and print the counts.

    Raises PenstockError.
    """
    if file_megabytes < 1:
        raise UsageError(f"--file-megabytes must be 1 or more, not {file_megabytes}")
    require_packages()
    folder = sink_folder(place) if place.suffix == ".toml" else place
    print(sentence(folder, compact(folder, file_megabytes << 20)))


def sink_folder(file: Path) -> Path:
    """The folder that a pipeline writes to. Raises PenstockError where it is on no disk of ours."""
    sink = Pipeline.from_file(file).spec.sink
    path = sink.options.get("path")
    folder = local_folder(path) if path else None
    if folder is None:
        raise PenstockError(
            f"{file} writes {sink}, which is not a folder of this machine; compact it where it is"
        )
    return folder


def sentence(folder: Path, result: Result) -> str:
    """The last line on the screen."""
    if not result.folders:
        return f"{folder}: nothing to compact"
    return (
        f"{folder}: {counted(result.files_before, 'file')} in {counted(result.folders, 'folder')} "
        f"became {result.files_after:,}, "
        f"with the same {counted(result.rows, 'row')}"
    )
