"""Plans for people and programs: text, JSON, Mermaid and HTML of the same tree."""

from deadband.compiler.explain.plan import Plan

__all__ = ["Plan"]
