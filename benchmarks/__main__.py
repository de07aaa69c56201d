"""python -m benchmarks NAME [--quick] [--data DIR] [--json FILE]"""

from __future__ import annotations

import importlib
import inspect
import json
import platform
import time
from pathlib import Path
from typing import Any

import click

NAMES = ("compile", "drift", "filters")


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("name", type=click.Choice([*NAMES, "all"]))
@click.option("--quick", is_flag=True, help="Smaller sizes: minutes become seconds.")
@click.option("--data", type=click.Path(exists=True, file_okay=False, path_type=Path), help="A folder of real traces.")
@click.option("--json", "file", type=click.Path(dir_okay=False, path_type=Path), help="Where to write the figures.")
def main(name: str, quick: bool, data: Path | None, file: Path | None) -> None:
    """Runs one benchmark, or all of them, and prints its table.

    \b
    Example: python -m benchmarks drift --quick --json /tmp/drift.json
    """
    found: dict[str, Any] = {}
    for each in NAMES if name == "all" else (name,):
        started = time.perf_counter()
        module = importlib.import_module(f"benchmarks.{each}")
        so_far = {"file": file} if name != "all" and "file" in inspect.signature(module.run).parameters else {}
        figures = module.run(quick=quick, data=data, **so_far)
        found[each] = {"figures": figures, "quick": quick, "machine": _machine()}
        found[each]["seconds"] = round(time.perf_counter() - started, 1)
    if file is not None:
        file.write_text(json.dumps(found if name == "all" else found[name], indent=1) + "\n")


def _machine() -> dict[str, Any]:
    import os

    return {"cores": os.cpu_count(), "python": platform.python_version(), "system": platform.machine()}


if __name__ == "__main__":
    main()
