#!/usr/bin/env bash
# Makes .venv and installs the project into it when pyproject.toml has changed; finds Java 17+, or installs it on Debian as root.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

PYTHON=${PYTHON:-python3}
STAMP=.venv/deadband-installed

fail() { printf 'setup: %s\n' "$@" >&2; exit 1; }

can_apt() { [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; }

apt_update() { apt-get update -qq || true; } # a stale list may still do

apt_install() { DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends "$1"; }

# Spark runs $JAVA_HOME/bin/java when JAVA_HOME is set, else the java on PATH.
java_major() {
    local java=java
    [ -z "${JAVA_HOME:-}" ] || java=$JAVA_HOME/bin/java
    { "$java" -version 2>&1 || true; } | sed -nE 's/.* version "(1\.)?([0-9]+).*/\2/p' | head -n 1
}

has_java() { [ "$(java_major)" -ge 17 ] 2>/dev/null; }

check_java() {
    has_java && return
    [ -z "${JAVA_HOME:-}" ] || fail "JAVA_HOME is $JAVA_HOME, which is not Java 17 or later." \
        "Point JAVA_HOME at Java 17 or later, or unset it."
    if can_apt; then
        echo "setup: installing Java 17"
        apt_update
        apt_install openjdk-17-jre-headless || apt_install default-jre-headless || true
        hash -r
        has_java && return
    fi
    fail "Spark needs Java 17 or later, and none was found in JAVA_HOME or on PATH." \
        "Install one (Debian and Ubuntu: openjdk-17-jre-headless; macOS: brew install openjdk@17) or set JAVA_HOME."
}

check_python() {
    "$PYTHON" -c 'import sys; sys.exit(sys.version_info < (3, 10))' 2>/dev/null ||
        fail "Python 3.10 or later is needed; '$PYTHON' is missing or older." "Name another one: make setup PYTHON=python3.11"
    "$PYTHON" -c 'import ensurepip, venv' 2>/dev/null && return
    if can_apt; then
        echo "setup: installing python3-venv"
        apt_update
        apt_install python3-venv || true
        "$PYTHON" -c 'import ensurepip, venv' 2>/dev/null && return
    fi
    fail "'$PYTHON' cannot make virtual environments." "Install its venv module (Debian and Ubuntu: python3-venv)."
}

installed_from() { pwd; cat pyproject.toml; }

check_java
if ! .venv/bin/python -m pip --version >/dev/null 2>&1; then
    check_python
    "$PYTHON" -m venv --clear .venv
fi
if ! installed_from | cmp -s - "$STAMP"; then
    echo "setup: installing deadband into .venv (about a minute the first time)"
    .venv/bin/python -m pip install --quiet --disable-pip-version-check --editable '.[dev,bench,plot]'
    installed_from >"$STAMP"
fi
