"""Rows with equal event times that a controller releases at several arrivals: for any cuts,
downstream operators give the same answers as for a static frame."""

from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest

from seeds import seeds
from sfumato.operators.disorder.control import DisorderControl
from sfumato.tables.disorder.table_reorder import ReorderTableConfig
from sfumato.tables.joins.table_similarity_join import SimilarityJoinTableConfig
from table_runs import with_column
from table_subjects import PAIRS, RELEASED, answers, mark_released, released_feed, rows

ROWS = 160
SETTINGS = {"slack": {"slack": 3}, "no wait": {"slack": 0}, "delay": {"max_delay": 15}}
UNORDERED = {  # late members of an extent and rows without an extent have no order
    "extents with members", "corrected extents with members", "sessions with members",
    "extents and rows missed", "sessions and rows missed",
}  # fmt: skip
ALONE = [name for name, (_, _, sides) in RELEASED.items() if not sides]


def coarse(seed):
    """Return rows whose event times tie and are out of order, with their arrivals as `order0`."""
    rng = np.random.default_rng(seed)
    table = rows(rng, ROWS)["table"]
    event = table.column("event").to_numpy() // 15 * 15
    return with_column(table, "event", event), rng


def released(table, cuts, settings):
    """Return the rows in order of release, as one piece per part between the cuts."""
    config = ReorderTableConfig(control=DisorderControl(**settings), keys=0)
    operator, pieces = config.make(), []
    numbers = pa.StructArray.from_arrays([pa.array(np.arange(table.num_rows))], ["number"])
    given = table.select(["order0", "event", "__tie"]).append_column("row", numbers)
    found = [operator.process([(0, part)], 0) for part in parts_of(given, cuts)]
    found.append(operator.flush())
    for tables in found:
        if not sum(t.num_rows for t in tables):
            continue
        out = pa.concat_tables(tables).flatten()
        pieces.append(mark_released(table.take(out.column("row.number")), out))
    return pieces


def parts_of(table, cuts):
    places = [0, *sorted(cuts), table.num_rows]
    return [table.slice(a, b - a) for a, b in pairwise(places) if b > a]


def fed_with(config, feed, pieces):
    """Return an operator's answers to these pieces, one micro-batch each, and at the end."""
    operator = config.make()
    found = []
    for piece in pieces:
        batch = {"table": piece, "side": np.zeros(piece.num_rows, np.int64)}
        found += feed(operator, batch, np.arange(piece.num_rows))
    return by_key(found + answers(operator.flush()))


def by_key(found):
    """Return answers sorted by key; a key's answers stay in order."""
    return sorted(found, key=lambda answer: answer[0])


@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)
@pytest.mark.parametrize("name", ALONE)
@pytest.mark.parametrize("seed", seeds(4))
def test_cuts_do_not_change_the_answers_to_rows_that_tie(name, settings, seed):
    table, rng = coarse(seed)
    make, columns, _ = RELEASED[name]
    config = make(False)
    whole = pa.concat_tables(released(table, [], settings))
    shuffled = whole.take(pa.array(rng.permutation(ROWS)))  # as in a static frame

    def found(pieces):
        result = fed_with(config, released_feed(name, columns), pieces)
        return sorted(result) if name in UNORDERED else result

    expected = found([shuffled])
    assert len(expected) > 10
    for _ in range(5):
        cuts = rng.choice(np.arange(1, ROWS), int(rng.integers(0, 60)), replace=False)
        assert found(released(table, cuts, settings)) == expected


@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)
@pytest.mark.parametrize("seed", seeds(6))
def test_the_pace_of_two_sides_does_not_change_the_pairs_of_rows_that_tie(settings, seed):
    table, rng = coarse(seed)
    side = rng.integers(0, 2, ROWS)
    tables = [table.filter(pa.array(side == number)) for number in (0, 1)]
    config = SimilarityJoinTableConfig(output="changes", on=("x",), aligned=((), ()), **PAIRS)
    columns = ["row", "key0", "order0", "__tie", "alternatives", "late", "punctuation"]

    def pairs(cuts):
        operator, found = config.make(), []
        sides = [
            [
                (number, piece.select(columns))
                for piece in released(of, [cut for cut in cuts if cut < of.num_rows], settings)
            ]
            for number, of in enumerate(tables)
        ]
        if cuts:
            while sides[0] or sides[1]:  # one side may run ahead
                which = int(rng.integers(2)) if sides[0] and sides[1] else int(not sides[0])
                found += operator.process([sides[which].pop(0)], 0)
        else:
            found += operator.process([batch for of in sides for batch in of], 0)
        return by_key(answers(found + operator.flush()))

    expected = pairs([])
    assert len(expected) > 10
    for _ in range(5):
        assert pairs(rng.choice(np.arange(1, 90), 30, replace=False).tolist()) == expected
