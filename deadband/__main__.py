"""python -m deadband: the same as the deadband command."""

from deadband.cli import main

main()
