"""``penstock pipeline init``: a pipeline's file to edit."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

from penstock.core.errors import PenstockError


def write_file(kind: str, to: Path) -> None:
    """Write the file of a kind. Raises PenstockError when there is one, and where it cannot be."""
    text = template(kind)
    try:
        with to.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise PenstockError(f"{to} is there already: give another name") from None
    except OSError as error:
        raise PenstockError(f"{to} cannot be written: {error.strerror}") from None
    print(f"{to}: edit it, then")
    for command in ("validate", "test", "run"):
        print(f"  penstock pipeline {command} {to}")


def template(kind: str) -> str:
    """The text of the file that is written for a kind."""
    return (files("penstock.spark.pipelines") / "templates" / f"{kind}.toml").read_text("utf-8")
