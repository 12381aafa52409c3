"""The layouts of all saved state, and their record per release.

`python tests/state_formats.py` records today's layouts as "unreleased"; `make release` moves
them to the release's version.
"""

import importlib
import json
import pkgutil
from pathlib import Path

import sfumato.operators
import sfumato.tables

FILE = Path(__file__).resolve().parents[1] / "packaging" / "state_formats.json"


def today() -> dict[str, int]:
    """Return the layout version of each kind, from the existing classes."""
    found: dict[str, int] = {}
    for package in (sfumato.operators, sfumato.tables):
        for each in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            module = importlib.import_module(each.name)
            for thing in vars(module).values():
                own = vars(thing) if isinstance(thing, type) else {}
                if {"kind", "version"} <= set(own) and thing.__module__ == module.__name__:
                    found[thing.kind] = thing.version
    return dict(sorted(found.items()))


def recorded() -> dict[str, dict[str, int]]:
    """Return the version of each kind, by release and for "unreleased"."""
    return json.loads(FILE.read_text())


if __name__ == "__main__":
    known = json.loads(FILE.read_text()) if FILE.is_file() else {}
    FILE.write_text(json.dumps({**known, "unreleased": today()}, indent=1) + "\n")
