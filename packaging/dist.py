"""Build wheel and source distribution into dist/, and list what they consist of: `make dist`.

    dist/sfumato-*.whl, sfumato-*.tar.gz     the package, its metadata checked by twine
    dist/sbom.cdx.json                       all packages that `sfumato[all]` installs (CycloneDX)
    dist/licences.md                         the licence of each of those packages

Then both are tried in fresh environments (see `check.py`). Nothing is published.
"""

from __future__ import annotations

import shutil
import sys
import tarfile
import zipfile
from pathlib import Path

import check
from environments import ROOT, fresh, require, run

DIST = ROOT / "dist"
# The source distribution must have what building, testing and reading the package need.
NEEDED = (
    "pyproject.toml",
    "Makefile",
    "README.md",
    "CHANGELOG.md",
    "LICENSE",
    "src/sfumato/__init__.pyi",
    "src/sfumato/ops.pyi",
    "src/sfumato/py.typed",
    "src/sfumato/live/page",
    "tests/conftest.py",
    "tests/snapshots",
    "benchmarks/__main__.py",
    "docs/reference/semantics/index.md",
    "docs/pipeline.schema.json",
    "examples",
    "packaging/dist.py",
)
CACHES = (
    *("__pycache__", ".pyc", ".nbc", ".nbi"),
    *(".mypy_cache", ".ruff_cache", ".hypothesis", ".venv"),
)
LICENCES = """
from importlib.metadata import distributions
def licence(meta):
    classes = [c.split(" :: ")[-1] for c in meta.get_all("Classifier") or [] if "License ::" in c]
    plain = (meta["License"] or "").strip().splitlines()
    return meta["License-Expression"] or ", ".join(classes) or (plain[0] if plain else "not said")
rows = {d.metadata["Name"]: (d.version, licence(d.metadata)) for d in distributions()}
print("| package | version | licence |\\n|---|---|---|")
for name in sorted(rows, key=str.lower):
    print("|", name, "|", " | ".join(rows[name]), "|")
"""


def main() -> None:
    """Build the packages, check their contents, list what they consist of, and try them."""
    shutil.rmtree(DIST, ignore_errors=True)
    require(run([sys.executable, "-m", "build", "--outdir", DIST, ROOT]))
    (wheel,), (source,) = DIST.glob("*.whl"), DIST.glob("*.tar.gz")
    require(run([sys.executable, "-m", "twine", "check", "--strict", wheel, source]))
    if wrong := problems(wheel, source):
        raise SystemExit("\n".join(wrong))
    list_packages(wheel)
    check.main(wheel, source)
    print("In dist:", ", ".join(sorted(path.name for path in DIST.iterdir())))


def problems(wheel: Path, source: Path) -> list[str]:
    """Return what is missing in the archives, and what should not be there."""
    with zipfile.ZipFile(wheel) as archive:
        in_wheel = archive.namelist()
    with tarfile.open(source) as archive:
        in_source = [name.partition("/")[2] for name in archive.getnames()]
    found = [
        f"{path.name} has {name}"
        for path, names in ((wheel, in_wheel), (source, in_source))
        for name in names
        if any(cache in name for cache in CACHES)
    ]
    found += [f"{source.name} does not have {name}" for name in NEEDED if name not in in_source]
    files = [p for p in (ROOT / "src" / "sfumato").rglob("*") if p.is_file()]
    ours = {str(p.relative_to(ROOT / "src")) for p in files if "__pycache__" not in p.parts}
    found += [f"{wheel.name} does not have {name}" for name in sorted(ours - set(in_wheel))]
    strange = {name.split("/")[0].split("-")[0] for name in in_wheel} - {"sfumato"}
    return found + [f"{wheel.name} would install {name}" for name in sorted(strange)]


def list_packages(wheel: Path) -> None:
    """Write the bill of materials and the licences of an environment with all extras."""
    environment = fresh(ROOT / "build" / "all-extras")
    require(environment.pip("install", f"{wheel}[all]"))
    bom = [sys.executable, "-m", "cyclonedx_py", "environment", environment.python]
    bom += ["--pyproject", ROOT / "pyproject.toml", "--output-reproducible", "--of", "JSON"]
    require(run([*bom, "--output-file", DIST / "sbom.cdx.json"]))
    listed = require(environment.run(["python", "-c", LICENCES])).text
    (DIST / "licences.md").write_text(f"# Licences of what `sfumato[all]` installs\n\n{listed}")
    shutil.rmtree(environment.folder)


if __name__ == "__main__":
    main()
