"""Build and test the conda recipe with rattler-build: `make conda`, after `make dist`.

    python packaging/conda.py [FOLDER]      the package, in FOLDER/noarch (build/conda/out)

No channel is asked. The packages that the recipe needs are taken from the Python package index and
put into a channel on disk, next to a substitute for conda's Python: links of a virtual environment
to the Python that runs this. This tries the recipe: that it builds, that its requirements agree,
and that the package can be imported. It does not try whether a public channel has those packages.
"""

from __future__ import annotations

import asyncio
import shutil
import sys
from importlib.metadata import Distribution, distributions
from pathlib import Path

import rattler_build as rb
from packaging.requirements import Requirement
from rattler.index import index_fs
from rattler_build.progress import SimpleProgressCallback

from environments import ROOT, UV, require, run

WORK = ROOT / "build" / "conda"
CHANNEL = WORK / "channel"
PLATFORM = "linux-64"
VERSION = "{}.{}".format(*sys.version_info)
SITE = Path("lib", f"python{VERSION}", "site-packages")


def main(folder: Path) -> None:
    """Make the channel, then build and test the recipe; end the program where one fails."""
    if not list((ROOT / "dist").glob("sfumato-*.tar.gz")):
        raise SystemExit(
            "The recipe builds dist/sfumato-*.tar.gz, which does not exist: run `make dist`"
        )
    shutil.rmtree(WORK, ignore_errors=True)
    (CHANNEL / "noarch").mkdir(parents=True)
    recipe = rb.Stage0Recipe.from_file(ROOT / "packaging" / "recipe.yaml")
    substitute_python()
    python_packages(needs(recipe))
    asyncio.run(index_fs(CHANNEL))
    found = recipe.run_build(
        output_dir=folder,
        channels=[CHANNEL.as_uri()],
        progress_callback=SimpleProgressCallback(),
        tool_config=rb.ToolConfiguration(test_strategy="native"),
        variant_config=rb.VariantConfig({"python": [f"{VERSION}.* *_cpython"]}),
    )
    for result in found:
        print("Built and tested:", *result.packages)


def needs(recipe: rb.Stage0Recipe) -> list[str]:
    """Return the requirements of building and running, without Python, as pip takes them."""
    asked = recipe.as_single_output().requirements.to_dict()
    names = [line.replace(" ", "") for line in (*asked["host"], *asked["run"])]
    return [name for name in names if not name.startswith("python")]


def substitute_python() -> None:
    """Make a package `python` whose interpreter is the one that runs this."""
    stage = WORK / "python"
    (stage / "bin").mkdir(parents=True)
    here = Path(sys.executable).resolve()
    for name in ("python", "python3", f"python{VERSION}"):
        (stage / "bin" / name).symlink_to(here)
    (stage / "pyvenv.cfg").write_text(f"home = {here.parent}\nversion = {VERSION}\n")
    version = "{}.{}.{}".format(*sys.version_info)
    assemble("python", version, "0_cpython", stage, [])


def python_packages(names: list[str]) -> None:
    """Make packages of the channel from these and their requirements."""
    folder = WORK / "wheels"
    require(run([*UV, "pip", "install", "--quiet", "--target", folder, *names]))
    found = {p.metadata["Name"].lower(): p for p in distributions(path=[str(folder)])}
    for name, package in found.items():
        stage = staged(package, WORK / "stage" / name)
        needed = sorted(asked_by(package) & found.keys())
        assemble(name, package.version, "py_0", stage, [f"python {VERSION}.*", *needed])


def asked_by(package: Distribution) -> set[str]:
    """Return the names of a package's requirements, without extras."""
    lines = [Requirement(line) for line in package.requires or ()]
    return {each.name for each in lines if not each.marker or each.marker.evaluate({"extra": ""})}


def staged(package: Distribution, stage: Path) -> Path:
    """Copy the files of a package into a folder, where an environment has them."""
    for file in package.files or ():
        at = Path(str(package.locate_file(file)))
        if ".." not in file.parts and at.is_file():
            (stage / SITE / file).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(at, stage / SITE / file)
    return stage


def assemble(name: str, version: str, build: str, stage: Path, needed: list[str]) -> None:
    into = CHANNEL / PLATFORM
    options = {"files_dir": stage, "depends": needed, "compression_level": 1}
    rb.assemble_package(name, version, PLATFORM, build, into, **options)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if sys.argv[1:] else WORK / "out")
