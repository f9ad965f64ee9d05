"""The program that the test of channels kills: a channel into Parquet, until it is killed.

Arguments: the source's options as JSON, and a folder.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from penstock.spark.session import session


def main() -> None:
    """Run the query."""
    given, folder = json.loads(sys.argv[1]), Path(sys.argv[2])
    spark = session("local[2,4]", settings={"spark.sql.warehouse.dir": str(folder / "warehouse")})
    query = (
        spark.readStream.format("nsq").options(**given).load()
        .writeStream.format("parquet").option("path", str(folder / "out"))
        .option("checkpointLocation", str(folder / "checkpoint")).start()
    )  # fmt: skip
    query.awaitTermination()


if __name__ == "__main__":
    main()
