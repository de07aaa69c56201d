"""Snapshots of a live run: one file per batch, written aside, synced and renamed, so that a crash leaves old or new."""

from __future__ import annotations

import os
import pickle
from pathlib import Path
from typing import Any

from deadband.compiler.errors import DeadbandError

__all__ = ["Snapshots"]

KEPT = 2


class Snapshots:
    """The snapshots of one component in a folder of its own; `fingerprint` says which queries they belong to."""

    def __init__(self, folder: Path, fingerprint: str):
        self._folder = folder
        self.fingerprint = fingerprint
        folder.mkdir(parents=True, exist_ok=True)

    def save(self, batch: int, content: dict[str, Any]) -> None:
        path = self._folder / f"{batch:012d}.snapshot"
        aside = path.with_suffix(".writing")
        with open(aside, "wb") as file:
            pickle.dump({"fingerprint": self.fingerprint, "batch": batch, **content}, file, protocol=5)
            file.flush()
            os.fsync(file.fileno())
        os.replace(aside, path)
        for old in self._saved()[:-KEPT]:
            old.unlink(missing_ok=True)

    def load(self) -> dict[str, Any] | None:
        """The newest snapshot, or None before the first batch."""
        saved = self._saved()
        if not saved:
            return None
        with open(saved[-1], "rb") as file:
            content = pickle.load(file)
        if content["fingerprint"] != self.fingerprint:
            raise DeadbandError(
                f"the checkpoint {self._folder} belongs to other queries",
                detail="a running query's state fits only the queries and streams it was made for",
                hint="start with the same statements, or with a new checkpoint folder",
            )
        return content

    def _saved(self) -> list[Path]:
        return sorted(self._folder.glob("*.snapshot"))
