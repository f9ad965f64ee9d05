"""The commands of ``penstock pipeline``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from cyclopts import App, Parameter

from penstock.cli.pipeline.node_flags import PipelineNodeFlags

Switch = Annotated[bool, Parameter(negative="")]

pipeline = App(name="pipeline", help="Spark pipelines over the log, each one TOML file.")
run = App(name="run", help="Run a pipeline on an embedded Spark, with live progress.")
pipeline.command(run)


@run.default
def run_file(file: Path, /, *, available_now: Switch = False, every: str | None = None) -> None:
    """Run a pipeline's file on an embedded Spark, with live progress.

    Ctrl-C or SIGTERM ends it after the batch under way, a second one at once; the same command
    goes on where it was. `penstock pipeline run archive` needs no file.

    Parameters
    ----------
    file
        The pipeline's TOML file.
    available_now
        Do what is there now and end.
    every
        Time between micro-batches, such as 500ms or 10s, in place of the file's.
    """
    from penstock.spark.pipelines import Pipeline
    from penstock.spark.requirements import require_spark

    wanted = Pipeline.from_file(file)
    require_spark()
    from penstock.cli.pipeline.run_command import query_trigger, run_pipeline

    run_pipeline(wanted, query_trigger("--every", available_now, every))


@run.command
def archive(
    *,
    topic: str,
    to: str | Path,  # a text, as hdfs:// has two slashes, which shells complete as a path
    checkpoint: str | Path,
    format: Literal["parquet", "lines"] = "parquet",
    available_now: Switch = False,
    trigger: str = "1s",
    max_records_per_trigger: int | None = None,
    nodes: PipelineNodeFlags | None = None,
) -> None:
    """Archive topics in folders of topic, date and hour, each message exactly once.

    Parameters
    ----------
    topic
        Topic, several separated by commas, or * for all.
    to
        Folder of the files.
    checkpoint
        Folder with the progress of the archive; give the same one to continue.
    format
        Parquet with all columns, or gzipped text with a body a line, as nsq_to_file writes it.
    available_now
        Archive what is there now and end.
    trigger
        Time between micro-batches, such as 500ms or 10s.
    max_records_per_trigger
        Most messages in a micro-batch.
    """
    from penstock.spark.requirements import require_spark

    require_spark()
    from penstock.cli.pipeline.run_command import run_archive

    source = {"topic": topic, **(nodes or PipelineNodeFlags()).options()}
    if max_records_per_trigger is not None:
        source["maxRecordsPerTrigger"] = str(max_records_per_trigger)
    run_archive(
        source, str(to), str(checkpoint), format=format, available_now=available_now, every=trigger
    )


@pipeline.command
def init(
    kind: Literal["archive", "metrics", "forward", "deliver", "dedupe", "backfill"],
    file: Path | None = None,
    /,
) -> None:
    """Write a pipeline's file to edit.

    Parameters
    ----------
    kind
        Which pipeline.
    file
        File to write, KIND.toml by default; an existing one is left alone.
    """
    from penstock.cli.pipeline.init import write_file

    write_file(kind, file or Path(f"{kind}.toml"))


@pipeline.command
def validate(files: tuple[Path, ...], /, *, no_spark: Switch = False) -> None:
    """Check pipelines: first their keys and options, then their SQL by Spark's analyser.

    No message is read, and no node is asked.

    Parameters
    ----------
    files
        Pipelines' files.
    no_spark
        Check keys and options only, which takes no time.
    """
    from penstock.cli.pipeline.checks import run_validate

    run_validate(files, with_spark=not no_spark)


@pipeline.command
def test(files: tuple[Path, ...], /) -> None:
    """Run the [[tests]] of pipelines on a local Spark.

    Parameters
    ----------
    files
        Pipelines' files.
    """
    from penstock.cli.pipeline.checks import run_tests

    run_tests(files)


@pipeline.command(name="list")
def list_(places: tuple[Path, ...] = (Path(),), /, *, json: Switch = False) -> None:
    """List pipelines: what they read and write, and their state.

    Parameters
    ----------
    places
        Files, or folders whose *.toml files are looked at.
    json
        A JSON object a line.
    """
    from penstock.cli.pipeline.listing import run_list

    run_list(places, as_json=json)


@pipeline.command
def status(places: tuple[Path, ...] = (Path(),), /, *, json: Switch = False) -> None:
    """Show how pipelines run on this machine: rows, rates, lag, last batch, error.

    A run writes it into its checkpoint's folder, once a second at most.

    Parameters
    ----------
    places
        Files, or folders whose *.toml files are looked at.
    json
        A JSON object a line.
    """
    from penstock.cli.pipeline.listing import run_status

    run_status(places, as_json=json)


@pipeline.command
def submit(
    file: Path,
    /,
    *options: Annotated[str, Parameter(allow_leading_hyphen=True)],
    master: str,
    deploy_mode: Literal["client", "cluster"] = "client",
    available_now: Switch = False,
    dry_run: Switch = False,
) -> None:
    """Run a pipeline's file on a cluster by spark-submit, with the zip for its executors.

    Parameters
    ----------
    file
        The pipeline's TOML file.
    options
        Further options of spark-submit, after --: `-- --num-executors 4`.
    master
        The cluster, as of spark-submit: yarn, k8s://..., spark://...
    deploy_mode
        Where the driver runs.
    available_now
        Do what is there now and end.
    dry_run
        Print the command, and run nothing.
    """
    from penstock.cli.pipeline.submit import Submission, run_submit

    run_submit(Submission(file, master, deploy_mode, available_now, options), dry_run=dry_run)


@pipeline.command
def sql(
    statement: str | None = None, /, *, rows: int = 100, nodes: PipelineNodeFlags | None = None
) -> None:
    """Ask topics in SQL: each is a view of what its log holds now, with the body as text.

    Without a statement a shell reads statements, each up to a semicolon; `show topics` lists them.

    Parameters
    ----------
    statement
        One statement, such as "select count(*) from clicks".
    rows
        Most rows to print.
    """
    from penstock.spark.requirements import require_packages

    require_packages()
    from penstock.cli.pipeline.sql import run_sql

    run_sql((nodes or PipelineNodeFlags()).options(), statement, rows)


@pipeline.command
def compact(place: Path, /, *, file_megabytes: int = 128) -> None:
    """Merge the small files of an archive's folders into few, with the same rows.

    Stop the pipeline that writes there, compact, and start it again. Parquet and lines, also
    gzipped, in folders below the archive's; every row is compared before the small files go.

    Parameters
    ----------
    place
        The archive's folder, or the file of the pipeline that writes it.
    file_megabytes
        About the size of a merged file.
    """
    from penstock.cli.pipeline.compact import run_compact

    run_compact(place, file_megabytes)


@pipeline.command(name="zip")
def zip_for_executors(*, to: Path = Path()) -> None:
    """Write the zip that spark-submit gives to executors, and print where it is.

    spark-submit --py-files "$(penstock pipeline zip)" ...

    Parameters
    ----------
    to
        File to write, or folder for a file that is named for the version.
    """
    from penstock.spark.shipping import write_zip

    print(write_zip(to))
