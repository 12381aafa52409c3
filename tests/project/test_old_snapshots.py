"""An earlier release's snapshot opens, or is refused with a message that says what to do."""

import numpy as np
import pytest

from old_snapshots import EVERY, FOLDER, HALF, ROWS, fed, parts_of, saved_today, version_of
from sfumato.operators.state.snapshot import SnapshotError

FILES = sorted(FOLDER.glob("*.bin"))


@pytest.mark.parametrize("name", EVERY)
def test_every_operator_has_its_snapshot_among_the_old_ones(name):
    file, data = saved_today(name)
    assert file in FILES, "a new layout: `python tests/old_snapshots.py` writes its snapshot"
    assert parts_of(file.read_bytes()) == parts_of(data), "a new layout: raise its version"


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_an_old_snapshot_goes_on_or_is_refused_for_its_version(file):
    subject = EVERY[file.stem.partition(", version ")[0]]
    data, rest = file.read_bytes(), np.arange(HALF, ROWS)
    today, _ = fed(subject, np.arange(HALF))
    if version_of(data) != version_of(today.snapshot()):
        with pytest.raises(SnapshotError, match="empty checkpoint, or use the release"):
            subject.restore(today, data)
        return
    old, answers = fed(subject, rest, subject.restore(today, data))
    _, expected = fed(subject, rest, today)
    assert [key for key, _ in answers] == [key for key, _ in expected]
    assert subject.counts(old) == subject.counts(today)
