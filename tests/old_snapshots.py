"""Snapshots of every operator from past releases; `python tests/old_snapshots.py` adds today's.

A file is named after its subject and the version of its layout. It holds the operator's state after
the first half of the subject's rows.
"""

import json
from pathlib import Path

import numpy as np

from operator_subjects import SUBJECTS
from sfumato.operators.state.snapshot import SNAPSHOT_PREFIX
from table_subjects import TABLES

FOLDER = Path(__file__).parent / "snapshots"
EVERY = {**SUBJECTS, **{f"{name} over tables": subject for name, subject in TABLES.items()}}
ROWS, HALF = 80, 40


def rows_of(subject):
    return subject.rows(np.random.default_rng(7), ROWS)


def fed(subject, places, operator=None):
    """Return the operator after the rows at some places, and its answers."""
    operator = subject.make() if operator is None else operator
    return operator, subject.feed(operator, rows_of(subject), places)


def header_of(data):
    _, _, length = SNAPSHOT_PREFIX.unpack_from(data)
    return json.loads(data[SNAPSHOT_PREFIX.size : SNAPSHOT_PREFIX.size + length])


def version_of(data):
    """Return the version of a snapshot's layout; for a chain, with the versions of its steps."""
    header = header_of(data)
    steps = [str(version) for _, version in header["values"].get("layouts", ())]
    return f"{header['version']} of {'.'.join(steps)}" if steps else str(header["version"])


def parts_of(data):
    """Return (name, type, number of dimensions) of every array in a snapshot."""
    parts = header_of(data)["parts"]
    return {(name, part["dtype"], len(part["shape"])) for name, part in parts.items()}


def saved_today(name):
    """Return (file, bytes) of a subject's snapshot as it is written now."""
    operator, _ = fed(EVERY[name], np.arange(HALF))
    data = operator.snapshot()
    return FOLDER / f"{name}, version {version_of(data)}.bin", data


def write():
    FOLDER.mkdir(exist_ok=True)
    for name in EVERY:
        file, data = saved_today(name)
        if not file.exists():
            file.write_bytes(data)
            print(f"{file}: {len(data)} bytes")


if __name__ == "__main__":
    write()
