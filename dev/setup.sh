#!/usr/bin/env bash
# Makes .venv hold the project (editable) with all that its development needs. Quick, and without network,
# when that is done already. System packages are installed only if they are missing and we are root.
set -euo pipefail
cd "$(dirname "$0")/.."

say() { printf 'setup: %s\n' "$*" >&2; }
fail() { printf 'setup: %s\n' "$@" >&2; exit 1; }

# The newest that python3 is, else any that is new enough: an old python3 often has a newer neighbour.
find_python() {
    local name
    for name in python3 python3.14 python3.13 python3.12 python3.11; do
        if "$name" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
            printf '%s\n' "$name"
            return
        fi
    done
    fail "Python 3.11 or later is needed, and neither python3 nor python3.11 to python3.14 is one." \
        "Install one, for example with: apt-get install python3 python3-venv"
}

# What the installation depends on: the interpreter and the tables of pyproject.toml that pip reads. The
# lint settings are left out, or every change of them would need the network.
fingerprint() {
    "$1" - <<'PYTHON'
import hashlib, json, sys, tomllib
with open("pyproject.toml", "rb") as file:
    data = tomllib.load(file)
parts = [data.get(table) for table in ("build-system", "project", "dependency-groups")]
print(hashlib.sha256(json.dumps([sys.version, sys.prefix, parts]).encode()).hexdigest())
PYTHON
}

usable() { [ -x .venv/bin/python ] && .venv/bin/python -c 'import sys; sys.exit(sys.version_info < (3, 11))'; }
complete() {
    usable 2>/dev/null && [ -f .venv/.complete ] && [ "$(cat .venv/.complete)" = "$(fingerprint .venv/bin/python)" ]
}

# Prints the system packages that are missing, one a line.
missing_packages() {
    local python=$1 prefix=python3
    # A second Python of the distribution has packages of its own name.
    case "$python" in python3.*) prefix=$python ;; esac
    "$python" -c 'import ensurepip, venv' 2>/dev/null || echo "$prefix-venv"
    # mysqlclient has no wheels for Linux: it is compiled against the client library.
    if usable 2>/dev/null && .venv/bin/python -c 'import MySQLdb' 2>/dev/null; then return; fi
    "$python" -c 'import os, sysconfig; os.stat(sysconfig.get_path("include") + "/Python.h")' 2>/dev/null ||
        echo "$prefix-dev"
    command -v gcc >/dev/null || command -v cc >/dev/null || echo gcc
    # A C compiler comes without the C library's headers where recommended packages are not installed.
    [ -e /usr/include/stdio.h ] || command -v cc >/dev/null || echo libc6-dev
    if [ -n "${MYSQLCLIENT_CFLAGS:-}" ] && [ -n "${MYSQLCLIENT_LDFLAGS:-}" ]; then return; fi
    command -v pkg-config >/dev/null || echo pkg-config
    local library
    for library in mysqlclient mariadb libmariadb perconaserverclient; do
        if pkg-config --exists "$library" 2>/dev/null; then return; fi
    done
    echo default-libmysqlclient-dev
}

install_packages() {
    # Not "&&": one third-party archive that does not answer fails the update, and does not matter here.
    local install="apt-get update; apt-get install -y --no-install-recommends $*"
    if ! command -v apt-get >/dev/null; then
        fail "missing (by their Debian names): $*" \
            "Install what your system calls them: a C compiler, pkg-config, the headers of Python and of the" \
            "MySQL or MariaDB client library, and Python's venv module. Then run this again."
    fi
    if [ "$(id -u)" != 0 ]; then
        printf '\n    %s\n\n' "$install" >&2
        fail "system packages are missing: run the line above as root, once, and then the same make command"
    fi
    say "installing system packages: $*"
    DEBIAN_FRONTEND=noninteractive logged sh -c "$install"
}

# Runs a command that says more than anyone reads, unless it fails.
logged() {
    if ! "$@" </dev/null >>.dev/setup.log 2>&1; then
        tail -n 30 .dev/setup.log >&2
        fail "this failed: $*" "The whole log is .dev/setup.log"
    fi
}

if complete; then exit 0; fi

mkdir -p .dev/locks
if command -v flock >/dev/null; then
    # Two make commands at once: the second finds the work done.
    exec 9>.dev/locks/setup
    flock 9
    if complete; then exit 0; fi
fi

: >.dev/setup.log
python=$(find_python)
packages=$(missing_packages "$python")
if [ -n "$packages" ]; then
    # shellcheck disable=SC2086 # one word a package
    install_packages $packages
fi

if ! usable 2>/dev/null; then
    rm -rf .venv
    logged "$python" -m venv .venv
fi
rm -f .venv/.complete
say "installing qops and its development tools into .venv (once) ..."
pip=(.venv/bin/python -m pip --disable-pip-version-check install)
# --group is known since pip 25.1; Python ships older ones.
logged "${pip[@]}" --upgrade 'pip>=25.1'
logged "${pip[@]}" --editable . --group dev
fingerprint .venv/bin/python >.venv/.complete
