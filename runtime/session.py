"""A local SparkSession of our own, started quietly, with a clear word when Java is missing."""

from __future__ import annotations

import contextlib
import logging
import os
import shutil
import sys
from collections.abc import Iterator
from typing import Any

from pyspark.sql import SparkSession

from deadband.compiler.errors import DeadbandError

__all__ = ["local_session"]


def local_session(**options: Any) -> SparkSession:
    """A session on local cores; options are Spark settings and win over ours."""
    home = os.environ.get("JAVA_HOME")
    if home and shutil.which("java", path=os.path.join(home, "bin")) is None:
        raise DeadbandError(
            f"JAVA_HOME is {home}, and there is no Java", hint="set it to a Java 17 or newer, or unset it"
        )
    if not home and shutil.which("java") is None:
        raise DeadbandError("Spark needs Java 17 or newer, and there is none", hint="install it, or set JAVA_HOME")
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # else executors may run another interpreter
    cores = os.cpu_count() or 2
    settings = {
        "spark.master": "local[*]",
        "spark.app.name": "deadband",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": str(cores),
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        "spark.driver.memory": "4g",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        **{k: str(v) for k, v in options.items()},
    }
    for logger in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
        logging.getLogger(logger).setLevel(logging.CRITICAL)  # errors reach the user as exceptions
    builder = SparkSession.builder
    for key, value in settings.items():
        builder = builder.config(key, value)
    with _quiet():
        spark = builder.getOrCreate()
        spark.sparkContext.setLogLevel("ERROR")
    return spark


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """The JVM writes its banner straight to file descriptor 2."""
    try:
        kept = os.dup(2)
    except OSError:
        yield
        return
    with open(os.devnull, "w") as nowhere:
        os.dup2(nowhere.fileno(), 2)
        try:
            yield
        finally:
            os.dup2(kept, 2)
            os.close(kept)
