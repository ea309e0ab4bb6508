"""Programs from the distribution's packages, unpacked privately: no root, nothing installed.

MySQL's server is packaged in Debian's unstable suite but in no stable one. A program's package and all that
it depends on, down to the C library, are unpacked into one folder and run with that folder's own loader, so
the machine's libraries neither matter nor change.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from dev.server.files import STATE, ServerError, lock


@dataclass(frozen=True)
class _Product:
    """What is unpacked under one name: the newest package called `prefix`, with a version in its name or without.

    Of its dependencies those that match `needs` are what it loads when it runs. `beside` is what to replace in the
    package's name, and by what, for the name of another one. `unstable`: no other suite of Debian has it.
    """

    prefix: str
    needs: str
    beside: tuple[str, str] | None = None
    unstable: bool = False


# A server's scripts and their interpreters are left out.
_SERVER_NEEDS = r"(?!libperl)(lib|zlib|mysql-|mariadb-)"
_PRODUCTS = {
    "mysql": _Product("mysql-server-core", _SERVER_NEEDS, beside=("-server-", "-client-"), unstable=True),
    "mariadb": _Product("mariadb-server-core", _SERVER_NEEDS),
    "percona-toolkit": _Product("percona-toolkit", "lib|zlib|perl|percona-toolkit"),
    "libfaketime": _Product("libfaketime", "libfaketime"),  # what it needs, the program that loads it has
}
_KEYRINGS = ("debian-archive-keyring.gpg", "debian-archive-keyring.pgp", "ubuntu-archive-keyring.gpg")


def unpacked(product: str) -> Path | None:
    """Return the folder of the unpacked `product`, None if it is not (completely) there."""
    folder = STATE / "root" / product
    return folder if folder.is_dir() else None


def unpack(product: str) -> Path:
    """Return the folder of the unpacked `product`, downloading it first if it is not there.

    Raises ServerError if the machine has no apt, or no suite it knows of offers the package.
    """
    wanted = _PRODUCTS[product]
    with lock(f"packages-{product}"):
        folder = unpacked(product)
        if folder is not None:
            return folder
        for tool in ("apt-get", "apt-cache", "dpkg"):
            if shutil.which(tool) is None:
                raise ServerError(f"no {tool} on this machine")
        for leftover in STATE.glob(f"unpack-{product}-*"):
            shutil.rmtree(leftover, ignore_errors=True)
        _say(f"looking for {product} among the distribution's packages (only this first time) ...")
        problems = []
        for site, suite in _suites(wanted):
            with tempfile.TemporaryDirectory(prefix=f"unpack-{product}-", dir=STATE) as work:
                try:
                    draft = _Apt(Path(work), site, suite).unpack(wanted)
                except ServerError as error:
                    problems.append(str(error))
                    continue
                folder = STATE / "root" / product
                folder.parent.mkdir(exist_ok=True)
                # Only what is complete gets this name, so a killed download is never taken for one.
                draft.rename(folder)
                return folder
        raise ServerError("; ".join(problems) or "apt's sources name no archive of the distribution")


class _Apt:
    """apt with lists, cache and status of its own, for one suite of one archive."""

    def __init__(self, work: Path, site: str, suite: str) -> None:
        self.work = work
        self.suite = suite
        for name in ("lists/partial", "cache/archives/partial", "state", "debs", "root"):
            (work / name).mkdir(parents=True)
        # An empty status makes apt count every dependency as missing: the answer is the full closure.
        (work / "status").touch()
        keyrings = [f"/usr/share/keyrings/{name}" for name in _KEYRINGS]
        signed = ",".join(path for path in keyrings if Path(path).exists())
        options = "target=Packages" + (f" signed-by={signed}" if signed else "")
        architecture = _run(["dpkg", "--print-architecture"]).strip()
        source = f"deb [arch={architecture} {options}] {site} {suite} main\n"
        (work / "sources.list").write_text(source, encoding="utf-8")
        (work / "apt.conf").write_text(_CONFIGURATION.format(work=work), encoding="utf-8")
        if os.geteuid() == 0:
            # apt's download user could not write into a folder that only root can reach.
            with (work / "apt.conf").open("a", encoding="utf-8") as conf:
                conf.write('APT::Sandbox::User "root";\n')

    def unpack(self, product: _Product) -> Path:
        """Download and unpack the product's newest package with what it needs; return the folder."""
        self._apt("apt-get", "update", "-qq")
        package, version = self._newest(product.prefix)
        wanted = [package, *([package.replace(*product.beside)] if product.beside else [])]
        plan = self._apt("apt-get", "install", "-s", "--no-install-recommends", *wanted)
        names = [name for name in re.findall(r"^Inst (\S+)", plan, re.MULTILINE) if re.match(product.needs, name)]
        _say(f"downloading {package} {version} and what it needs, {len(names)} packages, from {self.suite}")
        self._apt("apt-get", "download", "-qq", *names, cwd=self.work / "debs")
        root = self.work / "root"
        for file in sorted((self.work / "debs").glob("*.deb")):
            _run(["dpkg", "-x", str(file), str(root)])
        for name in ("doc", "man", "locale", "lintian"):
            shutil.rmtree(root / "usr/share" / name, ignore_errors=True)
        manifest = {"suite": self.suite, "package": package, "version": version, "packages": names}
        (root / "manifest.json").write_text(json.dumps(manifest, indent=2) + "\n", encoding="utf-8")
        return root

    def _newest(self, prefix: str) -> tuple[str, str]:
        """Return name and version of the newest package of that name, or with a version after it."""
        versions: dict[str, str] = {}
        for name in self._apt("apt-cache", "pkgnames", prefix).split():
            if re.fullmatch(rf"{re.escape(prefix)}(-[\d.]+)?", name):
                found = re.search(r"Candidate: (\d\S*)", self._apt("apt-cache", "policy", name))
                versions |= {name: found[1]} if found else {}
        if not versions:
            raise ServerError(f"suite {self.suite} has no {prefix} package")
        newest = max(versions, key=lambda name: [int(part) for part in re.findall(r"\d+", versions[name])])
        return newest, versions[newest]

    def _apt(self, program: str, *arguments: str, cwd: Path | None = None) -> str:
        return _run([program, "-c", str(self.work / "apt.conf"), *arguments], cwd=cwd)


# With -c this is read after the machine's own files, so it overrides them and keeps all else of them:
# proxies, retries, certificates. The hooks are dropped because they act on the system.
_CONFIGURATION = """\
#clear APT::Update::Pre-Invoke;
#clear APT::Update::Post-Invoke;
#clear APT::Update::Post-Invoke-Success;
#clear DPkg::Post-Invoke;
Dir::State "{work}/state";
Dir::State::lists "{work}/lists";
Dir::State::status "{work}/status";
Dir::Cache "{work}/cache";
Dir::Etc::sourcelist "{work}/sources.list";
Dir::Etc::sourceparts "/dev/null";
Dir::Etc::preferences "/dev/null";
Dir::Etc::preferencesparts "/dev/null";
APT::Update::Error-Mode "any";
Acquire::Languages "none";
Acquire::Retries "3";
"""


def _suites(product: _Product) -> list[tuple[str, str]]:
    """Return (archive, suite) in the order to try: the machine's own suite, then unstable where only it will do."""
    known = _os_release()
    codenames = [known.get(f"{key}_CODENAME", "") for key in ("VERSION", "UBUNTU", "DEBIAN")]
    own = {*codenames, "stable", "testing", "unstable", "sid"}
    configured = _run(["apt-get", "update", "--print-uris"])
    listed = re.findall(r"'(\S+?)/?/dists/([^/']+)/(?:In)?Release", configured)
    found = list(dict.fromkeys((site, suite) for site, suite in listed if suite in own))
    # A distribution's main archive also carries its updates; third parties reuse the suite's name only.
    found.sort(key=lambda pair: (pair[0], f"{pair[1]}-updates") not in listed)
    is_debian = "ubuntu" not in (known.get("ID", ""), *known.get("ID_LIKE", "").split())
    if product.unstable and is_debian:
        found += dict.fromkeys((site, "unstable") for site, _ in found)
    return list(dict.fromkeys(found))


def _os_release() -> dict[str, str]:
    """Return the fields of os-release(5)."""
    try:
        text = Path("/etc/os-release").read_text(encoding="utf-8")
    except OSError:
        return {}
    return {key: value.strip("\"'") for key, value in re.findall(r"^(\w+)=(.*)$", text, re.MULTILINE)}


def _run(command: list[str], cwd: Path | None = None) -> str:
    """Return the command's output.

    Raises ServerError with the end of what it printed if it fails.
    """
    environment = {**os.environ, "LC_ALL": "C", "DEBIAN_FRONTEND": "noninteractive"}
    done = subprocess.run(
        command,
        cwd=cwd,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        lines = (done.stderr or done.stdout).strip().splitlines()
        raise ServerError(f"{command[0]} failed: {' / '.join(lines[-3:])}")
    return done.stdout


def _say(text: str) -> None:
    print(f"dev server: {text}", file=sys.stderr, flush=True)
