"""Statistics, filters and checks of uncertain tuples in memory, against a tuple's possible worlds.

`test_memory_equals_spark` compares these functions with Spark's.
"""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sfumato as sf
from engine_cases import rows_of
from memory_tables import tuples_of
from seeds import examples
from sfumato.kernels.distributions.tuples import existences
from worlds import law_over, moments_of, quantile_of, worlds


@st.composite
def valid_tuples(draw):
    """Draw a list of (prob, x, y) with probabilities that sum to at most 1."""
    count = draw(st.integers(1, 5))
    weights = [draw(st.integers(1, 9)) for _ in range(count + 1)]
    total = sum(weights)
    values = st.integers(-3, 3).map(float)
    return [(w / total, draw(values), draw(values)) for w in weights[:count]]


def table_of(tuples):
    numbers = range(len(tuples))
    columns = {"k": pa.array(numbers), "site": ["ab"[i % 2] for i in numbers]}
    return pa.table(columns | {"alternatives": tuples_of(tuples, x=pa.float64(), y=pa.float64())})


@given(st.lists(valid_tuples(), min_size=20, max_size=40))
def test_numbers_read_off_alternatives_are_those_of_the_possible_worlds(tuples):
    table = table_of(tuples)
    shares = (0.0, 0.3, 0.5, 1.0)
    columns = [
        sf.existence(table), sf.expected("x", table), sf.expected("x", table, conditional=True),
        sf.stddev("x", table), sf.stddev("x", table, conditional=True),
        *(sf.quantile("x", q, table) for q in shares),
    ]  # fmt: skip
    for alternatives, *row in zip(tuples, *(c.to_pylist() for c in columns), strict=True):
        found = worlds([[(p, x) for p, x, _ in alternatives]])
        mean, variance, _ = moments_of(law_over(found, sum))
        given = law_over(found, lambda there: there[0] if there else None)
        mean_given, variance_given, exists = moments_of(given)
        existence, m, mc, s, sc, *quantiles = row
        assert [existence, m, mc] == pytest.approx(
            [float(exists), float(mean), float(mean_given)], abs=1e-12
        )
        assert [s**2, sc**2] == pytest.approx([float(variance), float(variance_given)], abs=1e-9)
        assert quantiles == [quantile_of(given, q - 1e-12) for q in shares]


@pytest.mark.parametrize(
    ("condition", "holds"),
    [
        ("x > 0", lambda x, y, site: x > 0),
        ("x > 0 AND y <= 1", lambda x, y, site: x > 0 and y <= 1),
        ("X + y BETWEEN -1 AND 2", lambda x, y, site: -1 <= x + y <= 2),
        ("site = 'a' OR x < y", lambda x, y, site: site == "a" or x < y),
        ("x IN (1, y) AND site in ('a', 'c')", lambda x, y, site: x in (1, y) and site == "a"),
        ("x NOT IN (1, y)", lambda x, y, site: x not in (1, y)),
        ("x NOT BETWEEN -1 AND y", lambda x, y, site: not -1 <= x <= y),
    ],
)
@examples(25)
@given(tuples=st.lists(valid_tuples(), min_size=10, max_size=20))
def test_where_keeps_the_alternatives_that_satisfy_the_condition(condition, holds, tuples):
    kept = [
        [a for a in alternatives if holds(a[1], a[2], "ab"[i % 2])]
        for i, alternatives in enumerate(tuples)
    ]
    found = sf.where(table_of(tuples), condition).select(["k", "alternatives"]).to_pylist()
    got = {row["k"]: [tuple(a.values()) for a in row["alternatives"]] for row in found}
    assert got == {i: alternatives for i, alternatives in enumerate(kept) if alternatives}


NAN, INF = float("nan"), float("inf")
CASES = [
    ([(1.0, 1.0, 1.0)], None),
    ([(0.5, 1.0, 1.0), (0.5 + 5e-10, 2.0, 1.0)], None),
    (None, "no alternatives"),
    ([], "no alternatives"),
    ([None], "an alternative is NULL"),
    ([(0.0, 1.0, 1.0)], "prob is missing or not in"),
    ([(-0.1, 1.0, 1.0)], "prob is missing or not in"),
    ([(NAN, 1.0, 1.0)], "prob is missing or not in"),
    ([(None, 1.0, 1.0)], "prob is missing or not in"),
    ([(1.1, 1.0, 1.0)], "prob is missing or not in"),
    ([(0.6, 1.0, 1.0), (0.6, 2.0, 1.0)], "sum to 1.2"),
    ([(0.6, NAN, 1.0)], "x is missing or not finite"),
    ([(0.6, 1.0, -INF)], "y is missing or not finite"),
    ([(0.6, 1.0, None)], "y is missing or not finite"),
]


def at_the_border_of_one():
    """Return tuples whose probabilities sum to 1, or to slightly more or less."""
    rng = np.random.default_rng(3)
    tuples = []
    for n in [*range(1, 60), 500]:
        for _ in range(3):
            weights = rng.random(n)
            weights *= (1.0 - rng.integers(-2, 9) * n * 2.0**-54) / weights.sum()
            tuples.append([(float(p), 0.0, 0.0) for p in np.minimum(weights, 1.0)])
    return tuples


def test_every_row_is_either_checked_or_rejected_with_its_reason():
    table = table_of([alternatives for alternatives, _ in CASES])
    valid, invalid = sf.split_invalid(table)
    assert valid.column("k").to_pylist() == [0, 1]
    assert valid.column_names == table.column_names
    rejected = {row["k"]: row["reason"] for row in invalid.to_pylist()}
    assert set(rejected) == set(range(2, len(CASES)))
    for k, reason in rejected.items():
        assert CASES[k][1] in reason
    with pytest.raises(ValueError, match="invalid row: "):
        sf.split_invalid(table, strict=True)


def test_existence_follows_the_rule_of_the_operators():
    tuples = at_the_border_of_one()
    prob = np.array([p for each in tuples for p, _, _ in each])
    expected = existences(np.cumsum([0, *map(len, tuples)]), prob)
    assert sf.existence(table_of(tuples)).to_pylist() == expected.tolist()
    assert 20 < (expected == 1.0).sum() < expected.size - 20


def test_a_float32_softmax_loses_no_row():
    """Sums of single-precision probabilities exceed 1 by about 1e-7; some probabilities are 0."""
    scores = np.random.default_rng(1).normal(0, 40, (300, 10)).astype(np.float32)
    weights = np.exp(scores - scores.max(1, keepdims=True))
    prob = weights / weights.sum(1, keepdims=True)
    assert (prob.astype(float).sum(1) > 1 + 1e-9).any()
    assert (prob == 0).any()
    structs = [[{"prob": p, "x": x} for x, p in enumerate(row)] for row in prob]
    kind = pa.list_(pa.struct([("prob", pa.float32()), ("x", pa.int64())]))
    for made in (
        sf.alternatives([[*range(10)]] * 300, prob.astype(float).tolist(), "x"),
        sf.alternatives(pa.array(structs, kind)),
    ):
        table = pa.table({"t": np.arange(300), "alternatives": made})
        assert sf.split_invalid(table)[1].num_rows == 0
        sums = [sum(a["prob"] for a in row) for row in made.to_pylist()]
        assert max(sums) <= 1 + 1e-12
        best = sf.top_k(table, 300, by="x", window=sf.Range("1 s"), order="t")
        assert best.num_rows == 300


def test_spark_rejects_the_same_rows_and_has_the_same_existences(spark):
    table = table_of([alternatives for alternatives, _ in CASES])
    df = spark.createDataFrame(table)
    for ours, sparks in zip(sf.split_invalid(table), sf.split_invalid(df), strict=True):
        assert rows_of(sparks.toArrow()) == rows_of(ours)
    with pytest.raises(Exception, match="invalid row: "):
        sf.split_invalid(df, strict=True)[0].collect()
    table = table_of(at_the_border_of_one())
    found = spark.createDataFrame(table).select("k", sf.existence().alias("e")).toPandas()
    assert found.sort_values("k")["e"].tolist() == sf.existence(table).to_pylist()


def test_pandas_lists_without_a_value_have_no_known_type():
    rows = pa.table({"t": [1, 3], "x": [1.0, 2.0], "existence": [0.5, 0.5]}).to_pandas()
    found = sf.window_aggregate(
        rows, {"v": "var(x)"}, window=sf.Range("2 us"), order="t", distribution=4
    )
    with pytest.raises(TypeError, match="`values` has no value, so its type is unknown"):
        sf.alternatives(found["v"].str["distribution"])
