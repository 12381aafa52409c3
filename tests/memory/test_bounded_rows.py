"""One row cannot cause unbounded work: bounds on its alternatives, extents and pairs."""

import os
import signal
import subprocess
import sys
import time

import numpy as np
import pyarrow as pa
import pytest

import sfumato as sf
from handed_on import handed_on
from memory_tables import tuples_of
from sfumato.limits import (
    MAX_ALTERNATIVES,
    MAX_ALTERNATIVES_VARIABLE,
    max_alternatives_with_uncertain_time,
)
from sfumato.tables.reading.user_warnings import InvalidRowsWarning

PLANE = {"x": pa.float64(), "y": pa.float64()}
BOUND = 10
REASON = (
    "11 alternatives, more than the bound of 10 (sfumato.maxAlternatives on Spark, "
    "SFUMATO_MAX_ALTERNATIVES in memory)"
)
HOW = {"order": "t"}
JOINED = {"on": "x", "within": 0.5, "probability": 0.01, "window": sf.Rows(5), "order": "t"}


def table(*sizes, seed=0):
    """Return one certain row per size, with this number of alternatives."""
    rng = np.random.default_rng(seed)
    rows = [[(1 / n, float(i), float(y)) for i, y in enumerate(rng.normal(size=n))] for n in sizes]
    return pa.table({"t": pa.array(range(len(rows))), "alternatives": tuples_of(rows, **PLANE)})


@pytest.fixture
def bounded(monkeypatch):
    monkeypatch.setenv(MAX_ALTERNATIVES_VARIABLE, str(BOUND))


OPERATORS = {
    "rows": lambda t: sf.window_aggregate(t, {"s": "sum(x)"}, window=sf.Rows(3), **HOW),
    "extents": lambda t: sf.window_aggregate(t, {"s": "max(x)"}, window=sf.Range("5 us"), **HOW),
    "delta": lambda t: sf.window_aggregate(t, {"s": "avg(x)"}, window=sf.Delta(1e9, on="x"), **HOW),
    "top_k": lambda t: sf.top_k(t, sf.Top(1, every="1 us"), by="x", window=sf.Range("5 us"), **HOW),
    "join, left": lambda t: sf.similarity_join(t, table(2), **JOINED),
    "join, right": lambda t: sf.similarity_join(table(2), t, **JOINED),
    "self join": lambda t: sf.self_join(t, **JOINED),
    "where": lambda t: sf.where(t, "x > 100"),
}


@pytest.mark.parametrize("name", OPERATORS)
def test_every_operator_leaves_a_row_of_too_many_alternatives_out_and_counts_it(bounded, name):
    with pytest.warns(InvalidRowsWarning, match="11 alternatives, more than the bound of 10"):
        found = OPERATORS[name](table(3, BOUND, BOUND + 1))
    assert found.equals(OPERATORS[name](table(3, BOUND)))
    counted = [
        counts
        for counts in sf.ops.counters(found).values()
        if "reasons" in counts and counts["rows"] == 3
    ]
    assert counted[0]["reasons"][REASON] == 1


def test_split_invalid_returns_such_a_row_with_the_reason(bounded):
    given = table(BOUND, BOUND + 1)
    assert sf.split_invalid(given)[0].equals(given.slice(0, 1))
    assert sf.split_invalid(given)[1].column("reason").to_pylist() == [REASON]
    with pytest.raises(ValueError, match="invalid row: 11 alternatives, more than the bound of 10"):
        sf.split_invalid(given, strict=True)


def test_the_bound_is_ten_thousand_and_the_environment_moves_it(monkeypatch):
    monkeypatch.delenv(MAX_ALTERNATIVES_VARIABLE, raising=False)
    given = table(MAX_ALTERNATIVES, MAX_ALTERNATIVES + 1)
    assert MAX_ALTERNATIVES == 10_000
    assert sf.split_invalid(given)[1].column("t").to_pylist() == [1]
    monkeypatch.setenv(MAX_ALTERNATIVES_VARIABLE, "10001")
    assert sf.split_invalid(given)[1].num_rows == 0


@pytest.mark.parametrize("given", ["0", "-1", "1e4", "many", "9" * 30, "٣"])
def test_a_bound_that_is_no_number_is_refused(monkeypatch, given):
    monkeypatch.setenv(MAX_ALTERNATIVES_VARIABLE, given)
    with pytest.raises(ValueError, match="`SFUMATO_MAX_ALTERNATIVES`, the bound on alternatives"):
        sf.split_invalid(table(1))


def test_results_with_more_values_than_the_bound_are_refused_before_they_are_computed(bounded):
    how = {"window": sf.Rows(2), "order": "t"}
    found = sf.window_aggregate(table(3, 4), {"s": "sum(x)"}, distribution=BOUND, **how)
    assert sf.split_invalid(handed_on(found, "s"))[1].num_rows == 0
    message = "`distribution` asks for up to 11 alternatives per row, more than the bound of 10"
    with pytest.raises(ValueError, match=message):
        sf.window_aggregate(table(3), {"s": "sum(x)"}, distribution=BOUND + 1, **how)
    assert len(sf.samples([1.0], 0.5, BOUND)[0]) == BOUND
    with pytest.raises(ValueError, match="`n` asks for up to 11 alternatives per row"):
        sf.samples([1.0], 0.5, BOUND + 1)
    with pytest.raises(ValueError, match="`n` asks for up to 1000000000000 alternatives per row"):
        sf.samples([1.0], 0.5, 10**12)


def imputed(donors, joint=False, **how):
    rng = np.random.default_rng(0)
    past = pa.table({"a": np.zeros(donors), "x": rng.normal(size=donors), "y": np.arange(donors)})
    rows = pa.table({"a": [9.0], "x": pa.array([None], pa.float64())})
    given = {"attributes": ["x"], "dependencies": "a -> x : 0.01 -> 0.1"}
    if joint:
        rows = rows.append_column("y", pa.array([None], pa.float64()))
        given = {
            "attributes": ["x", "y"],
            "dependencies": ["a -> x : 9 -> 9", "a -> y : 9 -> 9"],
            "joint": True,
        }
    return sf.impute(rows, repository=past, method="plain", **given, **how)


@pytest.mark.parametrize("joint", [False, True])
def test_a_row_imputed_from_more_donors_than_the_bound_is_merged_to_it(monkeypatch, joint):
    monkeypatch.delenv(MAX_ALTERNATIVES_VARIABLE, raising=False)
    found = imputed(MAX_ALTERNATIVES + 5_000, joint)
    [alternatives] = found.column("alternatives").to_pylist()
    assert len(alternatives) == MAX_ALTERNATIVES
    assert sum(one["prob"] for one in alternatives) == pytest.approx(1.0)
    assert sf.split_invalid(found)[1].num_rows == 0


def test_a_row_is_imputed_within_a_lower_bound_and_more_is_refused(bounded):
    [alternatives] = imputed(50).column("alternatives").to_pylist()
    assert len(alternatives) == BOUND
    with pytest.raises(ValueError, match="`max_alternatives` asks for up to 11 alternatives per"):
        imputed(50, max_alternatives=BOUND + 1)


def test_pairs_with_too_many_alternatives_are_represented_by_fewer(monkeypatch):
    monkeypatch.setenv(MAX_ALTERNATIVES_VARIABLE, "400")
    sizes, rng = (300, 200), np.random.default_rng(1)
    sides, how = [], {"window": sf.Rows(2), "order": "t", "probability": 0.01}
    for n in sizes:
        prob = rng.dirichlet(np.ones(n)) * 0.9
        values = rng.normal(size=(n, 2))
        rows = tuples_of([np.column_stack([prob, values]).tolist()], **PLANE)
        sides.append(pa.table({"t": pa.array([0]), "alternatives": rows}))
    for on, within in (("x", 1.0), (["x", "y"], 1.5)):
        found = sf.similarity_join(*sides, on=on, within=within, **how)
        [few] = found.column("alternatives").to_pylist()
        monkeypatch.setenv(MAX_ALTERNATIVES_VARIABLE, "100000")
        whole = sf.similarity_join(*sides, on=on, within=within, **how)
        [every] = whole.column("alternatives").to_pylist()
        monkeypatch.setenv(MAX_ALTERNATIVES_VARIABLE, "400")
        assert (len(few), len(every) > 10_000) == (400, True)
        assert sf.split_invalid(found)[1].num_rows == 0
        probability = found.column("probability")[0].as_py()
        assert sum(one["prob"] for one in few) == pytest.approx(probability, rel=1e-12)
        assert whole.column("probability")[0].as_py() == probability
        known = {(one["left_x"], one["right_x"]) for one in every}
        assert all((one["left_x"], one["right_x"]) in known for one in few)
        for name in ("left_x", "right_x", "left_y", "right_y"):
            # 400 representatives of the pairs have nearly the same distribution functions.
            assert distance(few, every, lambda one, name=name: one[name]) < 0.06
        assert distance(few, every, lambda one: one["left_x"] - one["right_x"]) < 0.06


def distance(some, others, of):
    """Return the largest difference of two normalised distribution functions."""
    at = np.array(sorted(of(one) for one in others))
    functions = []
    for rows in (some, others):
        values, prob = np.array([(of(one), one["prob"]) for one in rows]).T
        order = np.argsort(values)
        sums = np.append(0.0, np.cumsum(prob[order]))
        functions.append(sums[np.searchsorted(values[order], at, "right")] / sums[-1])
    return np.abs(functions[0] - functions[1]).max()


def test_a_row_may_be_in_ten_thousand_extents():
    window = sf.Range("10 ms", slide="1 us")
    found = sf.window_aggregate(table(1), {"n": "count(*)"}, window=window, order="t")
    assert found.num_rows == 10_000


def test_a_row_with_an_uncertain_time_may_lie_in_a_bounded_number_of_places():
    rows = [[{"prob": 1 / n, "at": i} for i in range(n)] for n in (100, 101)]
    given = pa.table({"alternatives": rows})
    assert max_alternatives_with_uncertain_time(10_000) == 100
    with pytest.warns(
        InvalidRowsWarning, match="more than 100 alternatives, each in up to 10000 e"
    ):
        found = sf.window_aggregate(
            given, {"n": "count(*)"}, window=sf.Range("10 ms", slide="1 us"), order="at"
        )
    counts = sf.ops.counters(found)["sfumato_window_1_input"]
    assert (counts["rows"] > 1, counts["invalid"]) == (True, 1)


@pytest.mark.parametrize("empty", [False, True])
def test_a_row_centuries_ahead_causes_a_bounded_number_of_extents(empty):
    second, far = 10**6, 250 * 365 * 86_400 * 10**6
    given = pa.table({"t": pa.array([0, second, 2 * second, far]), "x": [1.0, 2.0, 3.0, 4.0]})
    window = sf.Range("1 s", empty=empty)
    found = sf.window_aggregate(given, {"s": "sum(x)"}, window=window, order="t")
    assert 4 <= found.num_rows <= 10_010


LONG = """
import sys
import pyarrow as pa, numpy as np
import sfumato as sf

def table(n, heavy):
    rng = np.random.default_rng(0)
    rows = [[{"prob": 1 / n, "x": float(x), "y": float(y)} for x, y in rng.normal(size=(n, 2))]]
    return pa.table({"t": pa.array(range(heavy)), "alternatives": pa.array(rows * heavy)})

def join(n, heavy):
    t = table(n, heavy)
    sf.similarity_join(t, t, on=["x", "y"], within=0.5, probability=1e-9, window=sf.Rows(1000),
                       order="t", alternatives=False)

join(40, 3)  # compiled now, so that the signal comes while a kernel runs
print("ready", flush=True)
try:
    join(10_000, 200)  # some 2e12 pairs of alternatives, in one call
except KeyboardInterrupt:
    print("interrupted", flush=True)
    sys.exit(7)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
def test_control_c_reaches_a_kernel_in_the_middle_of_a_call():
    with subprocess.Popen(
        [sys.executable, "-W", "ignore", "-c", LONG], stdout=subprocess.PIPE, text=True,
        env=os.environ.copy(),
    ) as process:  # fmt: skip
        try:
            assert process.stdout.readline() == "ready\n"
            time.sleep(3.0)  # it may be interrupted while it reads the rows or joins them
            assert process.poll() is None
            process.send_signal(signal.SIGINT)
            out, _ = process.communicate(timeout=60)
            assert (out, process.returncode) == ("interrupted\n", 7)
        finally:
            process.kill()
