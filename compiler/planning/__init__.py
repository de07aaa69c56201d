"""Numeric planning: pure numpy and scipy, no plans, no Spark."""
