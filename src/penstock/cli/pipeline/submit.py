"""``penstock pipeline submit``: a pipeline's file on a cluster, by spark-submit."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from penstock.core.errors import PenstockError
from penstock.spark.java import home_for_spark_submit
from penstock.spark.pipelines import Pipeline, submitted
from penstock.spark.requirements import require_packages
from penstock.spark.shipping import write_zip


@dataclass(frozen=True, slots=True)
class Submission:
    """An order; ``options`` are further ones of spark-submit."""

    file: Path
    master: str
    deploy_mode: str = "client"
    available_now: bool = False
    options: Sequence[str] = ()


def run_submit(submission: Submission, *, dry_run: bool) -> None:
    """Run spark-submit and end as it does, or print its command.

    Raises PenstockError for a file that cannot be used and where there is no spark-submit.
    """
    pipeline = Pipeline.from_file(submission.file)
    if dry_run:
        folder = Path(tempfile.gettempdir())
        print(shlex.join(command(submission, pipeline, write_zip(folder), "spark-submit")))
        return
    program = spark_submit()
    with tempfile.TemporaryDirectory(prefix="penstock-submit-") as folder_name:
        zip_ = write_zip(Path(folder_name))
        line = command(submission, pipeline, zip_, program)
        ended = subprocess.run(line, env=environment(submission, os.environ), check=False)
    sys.exit(ended.returncode)


def command(submission: Submission, pipeline: Pipeline, zip_: Path, program: str) -> list[str]:
    """The command line. The file goes along, as a driver may run anywhere."""
    given = _for_planners(submission, zip_) | dict(pipeline.spec.run.settings)
    settings = [part for key, value in given.items() for part in ("--conf", f"{key}={value}")]
    packages = ",".join(pipeline.spec.run.packages)
    return [
        program, "--master", submission.master, "--deploy-mode", submission.deploy_mode,
        "--name", pipeline.spec.name, "--py-files", str(zip_), "--files", str(submission.file),
        *(["--packages", packages] if packages else []), *settings, *submission.options,
        str(submitted.__file__), str(submission.file),
        *(["--available-now"] if submission.available_now else []),
    ]  # fmt: skip


def _for_planners(submission: Submission, zip_: Path) -> dict[str, str]:
    """The zip for the processes that Spark starts beside the driver, which ``--py-files`` misses.

    In a driver's pod Spark puts it into the working folder. YARN sees to it by itself.
    """
    if submission.deploy_mode == "cluster" and submission.master.startswith("k8s:"):
        return {"spark.kubernetes.driverEnv.PYTHONPATH": zip_.name}
    return {}


def spark_submit() -> str:
    """The program of SPARK_HOME, of PATH, or of the package pyspark. Raises PenstockError."""
    home = os.environ.get("SPARK_HOME")
    if home:
        program = Path(home, "bin", "spark-submit")
        if not os.access(program, os.X_OK):
            raise PenstockError(
                f"SPARK_HOME is {home}, where no bin/spark-submit can be run: set it to the folder "
                "of Spark, or unset it"
            )
        return str(program)
    found = shutil.which("spark-submit")
    if found:
        return found
    require_packages()
    package = find_spec("pyspark")
    if package is None or package.origin is None:
        raise PenstockError("there is no spark-submit: set SPARK_HOME, or install pyspark")
    return str(Path(package.origin).parent / "bin" / "spark-submit")


def environment(submission: Submission, given: Mapping[str, str]) -> dict[str, str]:
    """Ours, with a Java where none is chosen, and with this Python for a driver that runs here.

    spark-submit would hand this Python's path on to a driver that runs elsewhere.
    """
    chosen = dict(given)
    if "JAVA_HOME" not in chosen:
        chosen["JAVA_HOME"] = str(home_for_spark_submit())
    if submission.deploy_mode == "client":
        chosen.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    return chosen
