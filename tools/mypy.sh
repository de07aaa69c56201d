#!/usr/bin/env bash
# Runs mypy on the folders laid out as the package they are installed as, and reports paths as they are in the repository.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
root=$PWD types=$PWD/build/types

rm -rf "$types"
mkdir -p "$types/deadband"
ln -s "$root"/deadband/* "$root"/{grammar,compiler,runtime} "$types/deadband/"
cd "$types"
"$root/.venv/bin/python" -m mypy --config-file "$root/pyproject.toml" --cache-dir "$root/.mypy_cache" "$@" |
    sed -E 's#^deadband/(grammar|compiler|runtime)/#\1/#'
