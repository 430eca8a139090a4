"""What delaymq is made of: a bill of materials of the wheel, and what may be said of the licences, the sources and the
known faults of every crate that it is built and tested with.

`supply_chain.py bill WHEEL` writes a bill in CycloneDX's JSON 1.6 beside the wheel;
`make dist` calls it. `supply_chain.py check` asks cargo-deny, and cargo-audit where `ADVISORY_DATABASE` names a folder
with a copy of RustSec's advisory database; `make supply-chain` calls it. A tool that answers well without having seen
each crate of Cargo.lock counts as failed. The exit code is 1 where something was found, 2 where a tool could not be
asked or saw too little.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import subprocess
import sys
import tempfile
import tomllib
import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
# Built apart from the workspace, with a lock file and rules of its own.
APART = (ROOT / "rust" / "fuzz" / "guided",)
SHIPPED = "delaymq-binding"
FOUND, UNFIT = 1, 2
NOTHING_ALLOWED = """
graph.all-features = true
licenses = { allow = [], include-dev = true, include-build = true }
"""
BINARIES = Path(sys.executable).parent


class UnfitError(Exception):
    """A tool could not be asked, or saw too little for its answer to count."""


@dataclass(frozen=True, order=True)
class Crate:
    name: str
    version: str

    @property
    def link(self) -> str:
        """Its package URL."""
        return f"pkg:cargo/{self.name}@{self.version}"


def answered(
    command: Sequence[str], *, may_end_with: Iterable[int] = (0,), folder: Path = ROOT
) -> subprocess.CompletedProcess[str]:
    try:
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    except OSError as error:
        raise UnfitError(f"{command[0]} cannot be run: {error}") from error
    if done.returncode not in may_end_with:
        raise UnfitError(f"{' '.join(command)} ended with {done.returncode}:\n{done.stderr[-2_000:]}")
    return done


def locked(folder: Path = ROOT) -> dict[Crate, str | None]:
    """Every crate of Cargo.lock, with the SHA-256 of its archive in hex; those of this project have none."""
    with (folder / "Cargo.lock").open("rb") as file:
        packages = tomllib.load(file)["package"]
    return {Crate(package["name"], package["version"]): package.get("checksum") for package in packages}


# --- the bill of materials -------------------------------------------------------------------------------------------


def resolved() -> dict[str, Any]:
    """What cargo builds for this machine, with the features that the wheel is built with."""
    told = answered(["rustc", "-vV"]).stdout.splitlines()
    host = next(line.removeprefix("host: ") for line in told if line.startswith("host: "))
    whole = answered(["cargo", "metadata", "--locked", "--format-version", "1", "--filter-platform", host]).stdout
    found: dict[str, Any] = json.loads(whole)
    return found


def reached(nodes: dict[str, Any], root: str, kinds: set[str | None], ends: Iterable[str] = ()) -> set[str]:
    """What `root` needs by these kinds of dependency, itself included; what one of `ends` needs does not count."""
    found, left = {root}, [root]
    while left:
        if (one := left.pop()) in ends:
            continue
        for edge in nodes[one]["deps"]:
            if edge["pkg"] not in found and kinds & {kind["kind"] for kind in edge["dep_kinds"]}:
                found.add(edge["pkg"])
                left.append(edge["pkg"])
    return found


def component(package: dict[str, Any], checksum: str | None, *, linked: bool) -> dict[str, Any]:
    crate = Crate(package["name"], package["version"])
    found: dict[str, Any] = {
        "type": "library",
        "bom-ref": crate.link,
        "name": crate.name,
        "version": crate.version,
        "purl": crate.link,
        # What is needed to build and is not in the wheel.
        "scope": "required" if linked else "excluded",
    }
    if package["license"] is not None:
        found["licenses"] = [{"expression": package["license"].replace("/", " OR ")}]
    if checksum is not None:
        found["hashes"] = [{"alg": "SHA-256", "content": checksum}]
    return found


def bill(wheel: Path) -> dict[str, Any]:
    """The bill of materials of a wheel that was built from this folder."""
    graph, checksums = resolved(), locked()
    packages = {package["id"]: package for package in graph["packages"]}
    nodes = {node["id"]: node for node in graph["resolve"]["nodes"]}
    crates = {one: Crate(package["name"], package["version"]) for one, package in packages.items()}
    root = next(one for one, crate in crates.items() if crate.name == SHIPPED)
    built = sorted(reached(nodes, root, {None, "build"}), key=lambda one: crates[one])
    # A procedural macro runs while its user is compiled: neither it nor what it needs is in the wheel.
    macros = {one for one in built if any("proc-macro" in target["kind"] for target in packages[one]["targets"])}
    linked = reached(nodes, root, {None}, macros) - macros
    version, digest = packages[root]["version"], hashlib.sha256(wheel.read_bytes()).hexdigest()
    whole = f"pkg:pypi/delaymq@{version}"
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, f'{whole}#{digest}')}",
        "version": 1,
        "metadata": {
            "component": {
                "type": "library",
                "bom-ref": whole,
                "name": "delaymq",
                "version": version,
                "purl": whole,
                "licenses": [{"expression": "Apache-2.0"}],
                "hashes": [{"alg": "SHA-256", "content": digest}],
                "properties": [{"name": "file", "value": wheel.name}],
            },
            "tools": {"components": [{"type": "application", "name": "rustc", "version": compiler()}]},
        },
        "components": [component(packages[one], checksums[crates[one]], linked=one in linked) for one in built],
        "dependencies": [
            {"ref": whole, "dependsOn": [crates[root].link]},
            *({"ref": crates[one].link, "dependsOn": needed(nodes[one], crates, built)} for one in built),
        ],
    }


def needed(node: dict[str, Any], crates: dict[str, Crate], built: Iterable[str]) -> list[str]:
    return sorted({crates[edge["pkg"]].link for edge in node["deps"] if edge["pkg"] in built})


def compiler() -> str:
    return answered(["rustc", "--version"]).stdout.split()[1]


# --- the checks ------------------------------------------------------------------------------------------------------


def compiled(folder: Path) -> set[Crate]:
    """Every crate that is compiled for some target, feature, test or bench; Cargo.lock has a few that never are."""
    # Each target by its name: `all` counts what is asked for on none, too, as a crate does to fix another version.
    targets = [
        word for name in answered(["rustc", "--print", "target-list"]).stdout.split() for word in ("--target", name)
    ]
    what = ["--workspace", "--all-features", *targets, "--edges", "normal,build,dev"]
    command = ["cargo", "tree", "--locked", *what, "--prefix", "none", "--format", "{p}"]
    lines = answered(command, folder=folder).stdout.splitlines()
    words = [line.split() for line in lines if line]
    return {Crate(name, version.removeprefix("v")) for name, version, *_ in words}


def diagnosed(folder: Path, config: Path, *checks: str) -> tuple[int, list[dict[str, Any]]]:
    """cargo-deny's exit code, and all that it says of crates."""
    command = [str(BINARIES / "cargo-deny"), "--locked", "--config", str(config), "--manifest-path", "Cargo.toml"]
    command += ["--log-level", "debug", "--format", "json", "check", *checks]
    done = answered(command, may_end_with=range(256), folder=folder)
    try:
        told = [json.loads(line) for line in done.stderr.splitlines()]
    except ValueError as error:
        raise UnfitError(f"cargo-deny gave no report ({done.returncode}):\n{done.stderr[-2_000:]}") from error
    return done.returncode, [line["fields"] for line in told if line["type"] == "diagnostic"]


def named(diagnostics: Iterable[dict[str, Any]], code: str) -> set[Crate]:
    """The crates that diagnostics of this code are about."""
    crates = [graph["Krate"] for one in diagnostics if one.get("code") == code for graph in one.get("graphs", [])]
    return {Crate(crate["name"], crate["version"]) for crate in crates}


def licences_and_sources(folder: Path, config: Path) -> int:
    """0, or 1 where cargo-deny refused something."""
    wanted = compiled(folder)
    with tempfile.TemporaryDirectory() as place:
        # It must refuse all of them where nothing is allowed: else its word that all is well says nothing.
        nothing = Path(place) / "deny.toml"
        nothing.write_text(NOTHING_ALLOWED)
        if missing := wanted - named(diagnosed(folder, nothing, "licenses")[1], "rejected"):
            raise UnfitError(f"cargo-deny did not look at {', '.join(one.link for one in sorted(missing))}")
    code, diagnostics = diagnosed(folder, config, "licenses", "bans", "sources")
    refused = [one for one in diagnostics if one["severity"] == "error"]
    for one in refused:
        crates = ", ".join(sorted({graph["Krate"]["name"] for graph in one.get("graphs", [])}))
        print(f"{one.get('code', 'error')}: {one['message']}{f': {crates}' if crates else ''}", file=sys.stderr)
    if code or refused:
        return FOUND
    if missing := wanted - named(diagnostics, "accepted"):
        raise UnfitError(f"cargo-deny said nothing of {', '.join(one.link for one in sorted(missing))}")
    where = "" if folder == ROOT else f" of {folder.relative_to(ROOT)}"
    print(f"licences, sources, versions: {len(wanted)} crates{where}, nothing refused")
    return 0


def advisories(folder: Path, database: str | None) -> int:
    """0, or 1 where a crate of Cargo.lock has a known fault."""
    if database is None:
        print("advisories: NOT RUN, no database was given (ADVISORY_DATABASE=folder)")
        return 0
    command = [str(BINARIES / "cargo-audit"), "audit", "--db", database, "--no-fetch", "--stale", "--json"]
    done = answered([*command, "--file", str(folder / "Cargo.lock")], may_end_with=range(256))
    try:
        report = json.loads(done.stdout)
        known, seen = report["database"]["advisory-count"], report["lockfile"]["dependency-count"]
        found = report["vulnerabilities"]["list"]
        warned = [one for kind in report["warnings"].values() for one in kind]
    except (ValueError, KeyError) as error:
        raise UnfitError(f"cargo-audit gave no report ({done.returncode}):\n{done.stderr[-2_000:]}") from error
    if known < 1 or seen < len(locked(folder)):
        raise UnfitError(f"cargo-audit saw {known} advisories and {seen} of {len(locked(folder))} crates")
    for one in [*found, *warned]:
        package, advisory = one["package"], one["advisory"] or {"id": one["kind"], "title": "see the registry"}
        print(f"{package['name']} {package['version']}: {advisory['id']}: {advisory['title']}", file=sys.stderr)
    print(f"advisories: {known} known, {seen} crates, {len(found)} faults, {len(warned)} warnings")
    return FOUND if found else 0


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    verbs = parser.add_subparsers(dest="verb", required=True)
    verbs.add_parser("bill").add_argument("wheel", type=Path)
    checks = verbs.add_parser("check")
    checks.add_argument("--config", type=Path, default=ROOT / "deny.toml")
    chosen = parser.parse_args(arguments)
    try:
        if chosen.verb == "check":
            configs = {ROOT: chosen.config.resolve()} | {folder: folder / "deny.toml" for folder in APART}
            codes = [licences_and_sources(folder, config) for folder, config in configs.items()]
            return max(*codes, *(advisories(folder, os.environ.get("ADVISORY_DATABASE")) for folder in configs))
        made = bill(chosen.wheel)
    except UnfitError as error:
        print(f"supply chain: {error}", file=sys.stderr)
        return UNFIT
    file = chosen.wheel.with_suffix(".cdx.json")
    file.write_text(json.dumps(made, indent=2) + "\n")
    print(f"{file.name}: {len(made['components'])} crates")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
