"""The pipeline's file that ``demo`` and ``up`` run: what ``penstock pipeline init archive`` writes.

It lies in the folder of the run, where it can be read, edited and run by itself.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

from penstock.cli.pipeline.init import template
from penstock.core.errors import PenstockError

if TYPE_CHECKING:
    from penstock.spark.pipelines import Pipeline

NAME: Final = "archive.toml"
# A later run may have other ports, so the file names nsqlookupd by a variable.
_LOOKUPD: Final = "PENSTOCK_LOOKUPD"


def write(folder: Path, topic: str, lookupd: str, rows_per_batch: int | None = None) -> Path:
    """Write the file, unless there is one, which may have been edited; its path.

    Raises PenstockError where it cannot be written.
    """
    file = folder / NAME
    source = f'lookupd_http_address = "${{{_LOOKUPD}:-{lookupd}}}"'
    if rows_per_batch is not None:
        source += f"\nmaxRecordsPerTrigger = {rows_per_batch}"
    text = _edited(
        template("archive"),
        {
            "topic": f"topic = {_quoted(topic)}",
            "nsqd_http_address": source,
            "path": f"path = {_quoted(str(folder / 'archive'))}",
            "every": 'every = "500ms"',
            "checkpoint": f"checkpoint = {_quoted(str(folder / 'checkpoint'))}",
        },
    )
    try:
        data = text.encode()
        with file.open("xb") as made:
            made.write(data)
    except FileExistsError:
        pass
    except UnicodeEncodeError:
        raise PenstockError(
            f"{file} cannot be written: TOML is UTF-8, which the folder's name is not"
        ) from None
    except OSError as error:
        raise PenstockError(f"{file} cannot be written: {error.strerror}") from None
    return file


def load(folder: Path, lookupd: str) -> Pipeline:
    """The pipeline of the file. Raises PipelineFileError, which names its line."""
    from penstock.spark.pipelines import Pipeline

    return Pipeline.from_file(folder / NAME, {**os.environ, _LOOKUPD: lookupd})


def _quoted(text: str) -> str:
    """The text as TOML has it, which knows no halves of characters, as JSON's escapes are."""
    return json.dumps(text, ensure_ascii=False)


def _edited(text: str, lines: Mapping[str, str]) -> str:
    """The text with these lines in place of the first that set their keys."""
    for key, line in lines.items():
        text, found = re.subn(rf"(?m)^{key} = .*$", line.replace("\\", r"\\"), text, count=1)
        assert found, key
    return text
