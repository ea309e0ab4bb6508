#!/usr/bin/env bash
# Shows that a fresh clone works on a bare Debian: make demo and make test, on a minimal system that has git,
# make, python3, python3-venv and ca-certificates only, and then make test again without network.
#
#   root  everything as root: missing system packages are installed by make itself
#   user  as an ordinary user: make names one command, which root runs once
#
# Takes several minutes, needs root, and is no part of the tests. What is committed is checked, not what is
# in the working tree.
set -euo pipefail
repository=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

usage() {
    cat <<USAGE
usage: dev/bare_root_check.sh [--only root|user] [--suite SUITE] [--keep]
  --only    one of the two checks (default: both)
  --suite   the Debian suite (default: this machine's own)
  --keep    leave the systems behind, and say where
USAGE
}
say() { printf '\n=== %s (%d s)\n' "$*" "$SECONDS"; }
fail() { printf 'bare root check: %s\n' "$*" >&2; exit 1; }

# shellcheck source=/dev/null
own_suite() { (. /etc/os-release && printf '%s\n' "${VERSION_CODENAME:-}"); }

# ---- outside: prepare a folder, run the rest in namespaces of its own, delete the folder ----------------

outside() {
    local only="root user" suite keep=""
    suite=$(own_suite)
    while [ $# -gt 0 ]; do
        case "$1" in
        --only) only=${2:-}; shift 2 ;;
        --suite) suite=${2:-}; shift 2 ;;
        --keep) keep=yes; shift ;;
        -h | --help) usage; exit 0 ;;
        *) usage >&2; exit 2 ;;
        esac
    done
    case "$only" in root | user | "root user") ;; *) usage >&2; exit 2 ;; esac
    [ -n "$suite" ] || fail "this system does not say what its suite is; use --suite"
    [ "$(id -u)" = 0 ] || fail "needs root, for chroot and mounts"
    command -v unshare >/dev/null || fail "needs unshare (package util-linux)"
    command -v debootstrap >/dev/null ||
        DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends debootstrap >/dev/null

    work=$(mktemp -d /var/tmp/bare-root.XXXXXX)
    if [ -n "$keep" ]; then
        trap 'echo "kept: $work"' EXIT
    else
        # The mounts below it ended with their namespace; should one be left, this does not enter it.
        trap 'rm -rf --one-file-system "$work"' EXIT
    fi
    # With the process namespace's first process all others end, so no server can be left behind.
    unshare --mount --propagation private --pid --fork --kill-child \
        bash "${BASH_SOURCE[0]}" --inside "$work" "$suite" "$only"
}

# ---- inside -------------------------------------------------------------------------------------------

# The archive that this machine's apt uses for the suite, or else for any of the distribution's suites.
archive() {
    local sources suite site
    sources=$(apt-get update --print-uris | sed -n "s|^'\(.*[^/]\)/*/dists/\([^/']*\)/InRelease'.*|\1 \2|p")
    for suite in "$1-updates" "$1" "$(own_suite)-updates"; do
        # A distribution's main archive also carries its updates, unlike third parties' of the same suite.
        site=$(awk -v suite="$suite" '$2 == suite && !found { print $1; found = 1 }' <<<"$sources")
        if [ -n "$site" ]; then
            printf '%s\n' "$site"
            return
        fi
    done
}

# Gives the system in $1 this machine's way to the network: resolver, certificates, proxies.
connect() {
    local file
    for file in /etc/resolv.conf /etc/ssl/certs/ca-certificates.crt /etc/pip.conf; do
        if [ -e "$file" ]; then cp -L "$file" "$1$file"; fi
    done
    if [ -d /etc/xdg/pip ]; then mkdir -p "$1/etc/xdg" && cp -rL /etc/xdg/pip "$1/etc/xdg/"; fi
    apt-config dump Acquire | { grep -iE 'proxy|check-valid-until|check-date|retries' || true; } \
        >"$1/etc/apt/apt.conf.d/99machine"
}

# Runs a command in the system $1 as the user $2 in the clone, with an environment as after a login.
within() {
    local root=$1 user=$2 home=/root path=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
    shift 2
    if [ "$user" != root ]; then home=/home/$user path=/usr/local/bin:/usr/bin:/bin; fi
    # shellcheck disable=SC2016 # expanded by the inner shell
    chroot --userspec="$user:$user" --groups="" "$root" \
        env -i HOME="$home" USER="$user" PATH="$path" "${proxies[@]}" \
        sh -c 'cd "$0" && exec "$@"' /home/clone "$@" </dev/null
}

# The same without any network but the loopback device, which a new network namespace has switched off.
offline() {
    local up='import fcntl, socket, struct
fcntl.ioctl(socket.socket(), 0x8914, struct.pack("16sH22x", b"lo", 0x41))'
    export -f within
    # shellcheck disable=SC2016 # expanded by the inner shell
    unshare --net bash -c 'python3 -c "$0"; proxies=(); within "$@"' "$up" "$@"
}

fresh_system() {
    local root=$work/$1
    cp -a "$work/base" "$root"
    mount -t proc proc "$root/proc"
    mount --rbind /dev "$root/dev"
    git -c safe.directory='*' clone -q "$repository" "$root/home/clone"
}

check_root() {
    local root=$work/root
    fresh_system root
    say "root: make demo"
    within "$root" root make demo
    say "root: make test"
    within "$root" root make test
    say "root: make test without network"
    # The server listens in the network namespace that it was started in.
    within "$root" root make stop
    offline "$root" root make test
}

check_user() {
    local root=$work/user output command
    fresh_system user
    chroot "$root" useradd --create-home tester
    chroot "$root" chown -R tester: /home/clone
    say "user: make test, before root did anything"
    if output=$(within "$root" tester make test 2>&1); then
        fail "make test succeeded without the system packages it needs?"
    fi
    printf '%s\n' "$output"
    command=$(grep -E '^ +apt-get ' <<<"$output") || true
    [ "$(grep -c . <<<"$command")" = 1 ] || fail "make test must print exactly one command for root"
    say "user: root runs:$command"
    within "$root" root sh -c "DEBIAN_FRONTEND=noninteractive; export DEBIAN_FRONTEND; $command" |
        tail -n 1
    say "user: make demo"
    within "$root" tester make demo
    say "user: make test"
    within "$root" tester make test
    say "user: make test without network"
    within "$root" tester make stop
    offline "$root" tester make test
}

inside() {
    work=$1
    local suite=$2 only=$3 mirror kind cache=$repository/.dev/debootstrap name
    proxies=()
    for name in http_proxy https_proxy ftp_proxy no_proxy HTTP_PROXY HTTPS_PROXY NO_PROXY; do
        if [ -n "${!name:-}" ]; then proxies+=("$name=${!name}"); fi
    done
    mirror=$(archive "$suite")
    [ -n "$mirror" ] || fail "apt's sources name no archive with the suite $suite"
    say "a minimal $suite"
    mkdir -p "$cache"
    debootstrap --variant=minbase --cache-dir="$cache" --include=git,make,python3,python3-venv,ca-certificates \
        "$suite" "$work/base" "$mirror" >"$work/debootstrap.log" 2>&1 ||
        { tail -n 20 "$work/debootstrap.log" >&2; fail "debootstrap failed"; }
    connect "$work/base"
    for kind in $only; do "check_$kind"; done
    say "bare root check passed: $only"
}

if [ "${1:-}" = --inside ]; then shift; inside "$@"; else outside "$@"; fi
