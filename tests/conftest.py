"""Fixtures that several tests share."""

import os
import sys
from collections.abc import Iterator

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--rewrite", action="store_true", help="write the golden files anew; read the diff afterwards")


@pytest.fixture(scope="session")
def rewriting(request: pytest.FixtureRequest) -> bool:
    """Whether golden files are to be written instead of compared."""
    return request.config.getoption("--rewrite")


@pytest.fixture(scope="session")
def spark() -> Iterator:
    """A small local session; a JVM that starts fast matters more here than one that runs fast."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    from pyspark.sql import SparkSession

    session = (
        SparkSession.builder.master("local[2]")
        .appName("deadband-tests")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        # with C1 alone the code cache is 48 MB; once full, the JVM fails with NoSuchMethodException: linkToSpecial
        .config(
            "spark.driver.extraJavaOptions",
            "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=256m",
        )
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.default.parallelism", "2")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.warehouse.dir", "/tmp/deadband-tests-warehouse")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()
