"""What gives another value each time: no weight, condition or answer over all ticks may depend on it."""

from __future__ import annotations

from sqlglot import exp

__all__ = ["unstable_part"]

_TYPES = (
    exp.CurrentDate,
    exp.CurrentDatetime,
    exp.CurrentTime,
    exp.CurrentTimestamp,
    exp.Localtime,
    exp.Localtimestamp,
    exp.Rand,
    exp.Randn,
    exp.Randstr,
    exp.Shuffle,
    exp.TableSample,
    exp.Uniform,
    exp.Uuid,
)
_NAMES = (
    "input_file_block_length",
    "input_file_block_start",
    "input_file_name",
    "java_method",
    "monotonically_increasing_id",
    "now",
    "reflect",
    "spark_partition_id",
    "try_reflect",
)


def unstable_part(node: exp.Expr) -> exp.Expr | None:
    """The first part of a tree that is not a function of its inputs, or None."""
    for part in node.find_all(*_TYPES, exp.Anonymous):
        if not isinstance(part, exp.Anonymous) or part.name.lower() in _NAMES:
            return part
    return None
