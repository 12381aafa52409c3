"""sf.impute with an order: changes since the last values, and correction by known values."""

import math
import warnings

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sfumato as sf
from sfumato.operators.imputation.dependency import Dependency
from sfumato.operators.imputation.imputer import Imputed, Imputer
from sfumato.operators.imputation.stream_imputer import (
    change_dependencies,
    change_names,
    equal_quantiles,
    level_dependencies,
    rows_back,
)
from tests.seeds import examples

ATTRIBUTES = ["x", "y"]
CHOSEN = [
    "age_x, earlier_x, value_y -> x : 0.5, 0.2, 0.1 -> 1",
    "age_x, earlier_x -> x : 0.5, 0.02 -> 1",
    "change_x, earlier_y -> y : 0.05, 0.2 -> 1",
    "age_y -> y : 0.5 -> 1",
]


def walk(random, n, gaps=0.2, keys=("a", "b"), scale=1.0) -> pd.DataFrame:
    """Return readings of devices in which x is a random walk and y follows it."""
    x = np.cumsum(random.normal(0, scale, n))
    rows = pd.DataFrame({"x": x, "y": 2 * x + random.normal(0, 0.3 * scale, n)})
    rows = rows.mask(random.random((n, 2)) < gaps)
    return rows.assign(at=np.cumsum(random.integers(1, 4, n)), device=random.choice(keys, n))


def with_history(rows, back=None) -> tuple[list[dict], list[dict]]:
    """Return each row with its earlier values, and the changes of the rows that are complete.

    back : by row and attribute, how many rows of the device before it has its earlier value
    """
    before, found, complete = {}, [], []
    for i, row in enumerate(rows.to_dict("records")):
        own, history = before.setdefault(row["device"], []), {}
        for a, name in enumerate(ATTRIBUTES):
            skipped = 0 if back is None else back[i, a] - 1
            seen = [(one[name], one["at"]) for one in own[: len(own) - skipped]]
            known = [pair for pair in seen if math.isfinite(pair[0])]
            history[name] = known[-1] if known else (math.nan, math.nan)
        columns = {name: row[name] - history[name][0] for name in ATTRIBUTES}
        columns |= {f"change_{name}": columns[name] for name in ATTRIBUTES}
        for name in ATTRIBUTES:
            age = abs(row["at"] - history[name][1])
            columns[f"age_{name}"] = np.log2(1.0 + age)
        columns |= {f"earlier_{name}": history[name][0] for name in ATTRIBUTES}
        columns |= {f"value_{name}": row[name] for name in ATTRIBUTES}
        found.append(row | columns | {name: row[name] for name in ATTRIBUTES})
        if all(math.isfinite(value) for value in columns.values()):
            complete.append(columns)
        own.append(row)
    return found, complete


def past_imputers(past, dependencies) -> tuple[Imputer, Imputer]:
    """Return the imputers of changes and of values, over the ordered rows of a past."""
    back = rows_back(past["device"].astype("category").cat.codes.to_numpy(np.int64), 2)
    rows = pd.DataFrame(with_history(past, back)[1])[list(change_names(ATTRIBUTES))]
    found = [Dependency.parse(text) for text in dependencies or ()]
    found = found or change_dependencies(rows.to_numpy(), ATTRIBUTES)
    used = {*ATTRIBUTES, *(name for each in found for name in each.names)}
    names = [name for name in rows if name in used]
    rows, scaling = rows[names], {}
    for name in names:
        low, high = rows[name].quantile([0.05, 0.95])
        span = (high - low) or (rows[name].max() - rows[name].min()) or 1.0
        scaling[name] = 0.0, 1.0 if name.startswith("age_") else span
    changes = Imputer(rows.to_numpy(), found, ATTRIBUTES, names=names, scaling=scaling)
    levels = Imputer(
        past[ATTRIBUTES].dropna().to_numpy(), level_dependencies(ATTRIBUTES), names=ATTRIBUTES
    )
    return changes, levels


def quantile(values, prob, level):
    order = np.argsort(values, kind="stable")
    reached = np.flatnonzero(np.cumsum(prob[order]) >= level - 1e-12)
    return values[order][reached[0] if len(reached) else -1]


def widened(values, prob, widths):
    """Return the values with both sides of the median widened, if they differ.

    widths : logarithms of the width, and of its further factors below and above the median
    """
    if len(np.unique(values)) < 2:
        return values
    off = values - quantile(values, prob, 0.5)
    both = np.exp(np.clip(widths[0] + np.array(widths[1:]), -2, 6))
    return quantile(values, prob, 0.5) + off * np.where(off < 0, *both)


def expected(past, rows, dependencies):
    """Return (alternatives of each row, number tested, number covered), row by row."""
    changes, levels = past_imputers(past, dependencies)
    widths, number, tested, covered, answers = {}, {}, 0, 0, []
    for row in with_history(rows)[0]:
        device = row["device"]
        number[device] = number.get(device, 0) + 1
        missing = [name for name in ATTRIBUTES if math.isnan(row[name])]
        known = [name for name in ATTRIBUTES if math.isfinite(row[f"earlier_{name}"])]
        history = [row[name] for name in changes.names[len(ATTRIBUTES) :]]

        def law_of(hidden, history=history):
            targets = [math.nan if name in hidden else 0.0 for name in ATTRIBUTES]
            done = changes.impute(np.array([[*targets, *history]]))
            return done.values, done.prob

        changing = [name for name in missing if name in known]
        others = [name for name in missing if name not in known]
        given, by_attribute = [row[name] for name in ATTRIBUTES], {}
        if changing:
            values, prob = law_of(changing)
            for a, name in enumerate(ATTRIBUTES):
                wide = widened(values[:, a], prob, widths.get((device, name), np.zeros(3)))
                values[:, a] = row[f"earlier_{name}"] + wide if name in changing else row[name]
                if name in changing:
                    by_attribute[name], given[a] = (values[:, a], prob), prob @ values[:, a]
        if others or not changing:
            done = levels.impute(np.array([given]))
            values, prob = done.values, done.prob
            by_attribute |= {n: (values[:, ATTRIBUTES.index(n)], prob) for n in others}
        if changing and others:
            answers.append(by_attribute)
        else:
            answers.append(np.column_stack([prob, values]))
        for a, name in enumerate(ATTRIBUTES):
            if name in missing or name not in known or number[device] % 4:
                continue
            values, prob = law_of([name])
            if len(np.unique(values[:, a])) < 2:
                continue
            before = widths.get((device, name), np.zeros(3))
            wide = widened(values[:, a], prob, before)
            true = row[f"change_{name}"]
            under, over = true < quantile(wide, prob, 0.05), true > quantile(wide, prob, 0.95)
            tested, covered = tested + 1, covered + (not under and not over)
            off = np.abs(values[:, a] - quantile(values[:, a], prob, 0.5))
            usual = prob @ off
            seen = abs(true - quantile(values[:, a], prob, 0.5)) / usual / np.exp(before[0])
            step = min(seen, 6.0) - prob @ np.minimum(off / usual, 6.0)
            steps = np.array([0.1 * step, 0.2 * (under - 0.05), 0.2 * (over - 0.05)])
            widths[device, name] = np.clip(before + steps, [0, -2, -2], 6)
    return answers, tested, covered


def alternatives_of(found):
    return [
        np.array([[one["prob"], *(one[name] for name in ATTRIBUTES)] for one in row])
        for row in found["alternatives"]
    ]


def assert_same_distribution(values, prob, others, weights):
    """Check that both distributions give each value the same probability."""
    at = np.sort(np.concatenate([values, others]))
    for place in np.concatenate([[-np.inf], at[1:][np.diff(at) > 1e-7]]):
        assert prob[values > place - 1e-8].sum() == pytest.approx(
            weights[others > place - 1e-8].sum(), abs=1e-9
        )


@examples(10)
@given(
    st.integers(0, 2**20), st.integers(30, 60), st.integers(1, 40), st.sampled_from([None, CHOSEN])
)
def test_each_row_is_imputed_by_what_its_device_knew_before(seed, before, after, chosen):
    random = np.random.default_rng(seed)
    past, rows = walk(random, before), walk(random, after, gaps=0.3, scale=4.0)
    how = {"attributes": ATTRIBUTES, "order": "at", "key": "device", "dependencies": chosen}
    found = sf.impute(rows, repository=past, **how)
    answers, tested, covered = expected(past, rows, chosen)
    for own, right in zip(alternatives_of(found), answers, strict=True):
        if isinstance(right, dict):  # by changes of one attribute and the other's level
            for a, name in enumerate(ATTRIBUTES):
                assert_same_distribution(own[:, a + 1], own[:, 0], *right[name])
            assert len(own) < sum(len(prob) for _, prob in right.values())
            continue
        by = np.lexsort(own.T), np.lexsort(right.T)
        assert np.allclose(own[by[0]], right[by[1]], rtol=1e-9, atol=1e-9)
    counted = sf.ops.counters(found)["sfumato_impute_1"]
    assert (counted["tested"], counted["covered"]) == (tested, covered)
    assert counted["rows"] == counted["complete"] + counted["imputed"] == len(rows)


def in_range(found, true, hidden):
    """Return whether the 90% range of each hidden x has its true value."""
    laws = found["alternatives"][hidden]
    low, high = (np.array(sf.quantile("x", level, laws)) for level in (0.05, 0.95))
    return (low <= true[hidden]) & (true[hidden] <= high)


def hidden_and_held(seed, scale, rows=3000):
    """Return the share of hidden values in their 90% range after a drift, and the counters."""
    random = np.random.default_rng(seed)
    past, true = walk(random, 600), walk(random, rows, gaps=0.0, scale=scale, keys=["a"])
    hidden = random.random(rows) < 0.1
    given = true.assign(x=true["x"].mask(hidden))
    found = sf.impute(given, repository=past, attributes=ATTRIBUTES, order="at", key="device")
    hidden[0] = False  # without an earlier value
    return in_range(found, true["x"], hidden).mean(), sf.ops.counters(found)["sfumato_impute_1"]


@pytest.mark.parametrize("discovered", [False, True])
def test_ranges_hold_in_gaps_of_several_rows(discovered):
    held = []
    for seed in range(6):
        random = np.random.default_rng(seed)
        rows = walk(random, 1800, gaps=0.0, scale=0.1, keys=["a"])
        starts = np.flatnonzero(random.random(1780) < 0.03)
        gap = np.zeros(len(rows), bool)
        for start in starts:
            gap[start + 20 : start + 20 + random.integers(1, 15)] = True
        given = rows.assign(**{name: rows[name].mask(gap) for name in ATTRIBUTES})
        past, now = given[:1200], given[1200:]
        how = {"attributes": ATTRIBUTES, "order": "at"}
        chosen = sf.discover_dependencies(past, **how) if discovered else None
        found = sf.impute(now, repository=past, dependencies=chosen, **how)
        held.append(in_range(found, rows["x"][1200:], gap[1200:]))
    assert 0.85 < np.concatenate(held).mean() < 0.95


def test_changes_of_a_past_are_over_rows_of_the_same_key():
    key = np.random.default_rng(0).integers(0, 3, 900)
    back = rows_back(key, 2)
    rank = pd.Series(key).groupby(key).cumcount().to_numpy()
    assert (back <= np.maximum(rank, 1)[:, None]).all()
    assert 0.4 < (back > 1).any(axis=1).mean() < 0.6
    assert back.max() == 32  # of some 300 rows
    both = (back > 1).all(axis=1).sum() / (back > 1).any(axis=1).sum()
    assert 0.4 < both < 0.6
    assert (rows_back(np.zeros(15, int), 1) == 1).all()  # too few rows to skip any


@pytest.mark.parametrize("scale", [1.0, 5.0, 0.3])
def test_ranges_hold_what_they_say_although_the_stream_has_drifted(scale):
    share, counted = hidden_and_held(1, scale)
    assert 0.84 < share < 0.97
    assert counted["covered"] / counted["tested"] > 0.8
    if scale > 1.0:
        assert counted["widened"] > 0.9 * counted["imputed"]


def noisy(random, n, growth):
    """Return readings with noise, whose deviation grows by this factor from the middle on."""
    noise = growth ** np.linspace(-1.0, 1.0, n).clip(0.0)
    level = np.cumsum(random.normal(0, 0.1, n))
    x, y = level + random.normal(0, 0.3, n) * noise, -2 * level + random.normal(0, 0.3, n) * noise
    return pd.DataFrame({"x": x, "y": y, "at": range(n)})


@pytest.mark.parametrize(("growth", "rows"), [(1.0, 400), (6.0, 400), (6.0, 1200)])
def test_ranges_hold_what_they_say_while_the_noise_changes(growth, rows):
    held = []
    for seed in range(6):
        random = np.random.default_rng(seed)
        readings = noisy(random, 2 * rows, growth)
        hidden = random.random(rows) < 0.15
        now = readings[rows:].assign(x=readings["x"][rows:].mask(hidden))
        how = {"attributes": ATTRIBUTES, "order": "at"}
        found = sf.impute(now, repository=readings[:rows], **how)
        held.append(in_range(found, readings["x"][rows:], hidden))
    assert 0.86 < np.concatenate(held).mean() < 0.94


def test_without_correction_the_same_ranges_would_fail(monkeypatch):
    from sfumato.operators.imputation import stream_imputer

    def none(*given):
        return 0, 0, 0

    monkeypatch.setattr(stream_imputer, "correct_widths", none)
    assert hidden_and_held(1, 5.0)[0] < 0.6


def test_a_drift_is_warned_of():
    random = np.random.default_rng(3)
    past = walk(random, 200)
    rows = pd.concat([walk(random, 12, gaps=0.0, scale=50.0, keys=[i]) for i in range(120)])
    with pytest.warns(sf.errors.DriftWarning, match=r"of \d+ tested known values lie within"):
        sf.impute(rows, repository=past, attributes=ATTRIBUTES, order="at", key="device")


def test_rows_without_order_or_key_are_imputed_by_their_values_alone():
    random = np.random.default_rng(0)
    past, rows = walk(random, 80), walk(random, 8, gaps=0.0)
    rows["device"] = rows["device"].astype(object)
    rows.loc[3, "device"], rows.loc[3, "x"] = None, np.nan
    found = sf.impute(rows, repository=past, attributes=ATTRIBUTES, order="at", key="device")
    assert sf.ops.counters(found)["sfumato_impute_1"]["invalid"] == 1
    alone = found[found["device"].isna()]
    assert alone["imputed_by"].iloc[0].startswith("y -> x")


def test_a_dead_attribute_does_not_take_the_last_value_from_another():
    random = np.random.default_rng(5)
    past, true = walk(random, 600), walk(random, 1500, gaps=0.0, keys=["a"])
    hidden = random.random(1500) < 0.2
    rows = true.assign(x=true["x"].mask(hidden), y=np.nan)
    found = sf.impute(rows, repository=past, attributes=ATTRIBUTES, order="at", key="device")
    hidden[0], alike = False, []
    for law in alternatives_of(found[hidden]):
        off = law[:, 1:] - law[:, 0] @ law[:, 1:]
        cov = (law[:, :1] * off).T @ off
        alike.append(cov[0, 1] / np.sqrt(cov[0, 0] * cov[1, 1]))
    assert 0.84 < in_range(found, true["x"], hidden).mean() < 0.97
    assert np.median(np.abs(alike)) < 0.1  # the attributes are nearly independent
    assert np.abs(alike).max() < 0.5
    by = found["imputed_by"][np.flatnonzero(hidden)[1]]
    assert " -> x : " in by
    assert "; x -> y : " in by


@pytest.mark.parametrize("function", ["impute", "earlier_values"])
def test_the_result_has_the_rows_in_the_given_order(function):
    random = np.random.default_rng(0)
    past, rows = walk(random, 60), walk(random, 40, gaps=0.3)
    rows["at"] //= 8  # many rows at the same time
    rows["__place"] = 7  # also a name that is used inside
    shuffled = rows.sample(frac=1, random_state=1)
    how = {"attributes": ATTRIBUTES, "order": "at", "key": "device"}
    if function == "impute":
        how["repository"] = past
    found = getattr(sf, function)(shuffled, **how)
    given = [*rows.columns]
    pd.testing.assert_frame_equal(found[given], shuffled.reset_index(drop=True)[given])
    again = getattr(sf, function)(rows, **how)  # the order of the rows has no other effect
    back = again.iloc[shuffled.index].reset_index(drop=True)
    assert back.drop(columns=given).equals(found.drop(columns=given))


def test_existence_weighs_the_alternatives_and_a_device_may_have_a_past_of_its_own():
    random = np.random.default_rng(0)
    past, rows = walk(random, 300, keys=["a", "a", "b"]), walk(random, 40)
    rows["existence"] = 0.5
    how = {"attributes": ATTRIBUTES, "order": "at", "key": "device", "least_rows": 90}
    found = sf.impute(rows, repository=past, **how)
    assert all(math.isclose(own[:, 0].sum(), 0.5) for own in alternatives_of(found))
    shared = (rows[ATTRIBUTES].isna().any(axis=1) & (rows["device"] == "b")).sum()
    assert sf.ops.counters(found)["sfumato_impute_1"]["shared"] == shared > 0


@pytest.mark.filterwarnings("ignore:impute")
@pytest.mark.parametrize(
    "how", [{"order": "at"}, {"dependencies": "x -> y : 1 -> 1"}], ids=["order", "values"]
)
def test_a_row_that_does_not_exist_has_no_alternatives_and_the_reason(how):
    past = pa.table({"at": range(30), "x": [float(i % 3) for i in range(30)], "y": [1.0, 2.0] * 15})
    existence = [0.5, 0.0, 1.0 + 1e-7, 1.5, -0.5, math.inf, math.nan, None]
    rows = pa.table({"at": range(30, 38), "x": [1.0] * 8, "existence": existence})
    rows = rows.append_column("y", pa.array([None, 5.0] * 4, pa.float64()))
    attributes = ["x", "y"] if "order" in how else "y"
    found = sf.impute(rows, repository=past, attributes=attributes, **how)
    given = found["alternatives"].to_pylist()
    sums = [own and round(sum(one["prob"] for one in own), 9) for own in given]
    assert sums == [0.5, None, 1.0, *[None] * 5]
    reasons = {"unimputable: existence is not a number in (0, 1]"}
    assert {*found["imputed_by"].to_pylist()[3:]} == reasons
    assert sf.ops.counters(found)["sfumato_impute_1"]["unimputable"] == 6


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ({"dependencies": "x -> y : 1 -> 1"}, "like `age_y`; got `x` in `x -> y : 1 -> 1`"),
        ({"dependencies": "value_y -> y : 1 -> 1"}, "like `age_y`; got `value_y`"),
        ({"scaling": {"x": (0, 1)}}, "`scaling` and `order` cannot be combined"),
        ({"method": "plain"}, "`method` and `order` cannot be combined"),
        ({"order": 3}, "`order` must be the name of one column"),
        ({"order": "clock"}, "`order` must have the same unit .*; `clock` is .* in the repository"),
        ({"order": "device"}, "`order` must differ"),
        ({"order": "text"}, "`order` must be a timestamp or a number; `text` is"),
        ({"order": None, "forget_after": 5}, "`dependencies` must contain at least one"),
        ({"forget_after": -5}, "forget_after"),
        ({"gap_values": 0}, "`gap_values` must be an integer of at least 1; got 0"),
        ({"gap_values": 1}, "`gap_values` must be at least 2, because one value has no range"),
        ({"gap_values": 20_000}, "`gap_values` asks for up to 20000 alternatives per row"),
        ({"gap_values": 5, "joint": True}, "`gap_values` and joint=True cannot be combined"),
    ],
)
def test_arguments_that_cannot_be_used_are_refused(how, said):
    random = np.random.default_rng(0)
    past, rows = walk(random, 60).assign(clock=1.0), walk(random, 9)
    rows["clock"], rows["text"], past["text"] = pd.to_datetime(rows["at"], unit="s"), "a", "a"
    given = {"attributes": ATTRIBUTES, "order": "at", **how}
    with pytest.raises((TypeError, ValueError), match=said):
        sf.impute(rows, repository=past, key="device", **given)


def test_a_past_without_earlier_values_is_refused():
    random = np.random.default_rng(0)
    past = walk(random, 20, gaps=0.0).assign(device=range(20))
    with pytest.raises(ValueError, match="whose key has earlier values of all of them"):
        sf.impute(past, repository=past, attributes=ATTRIBUTES, order="at", key="device")


@pytest.mark.parametrize("argument", ["forget_after", "gap_values"])
def test_arguments_of_streams_need_an_order(argument):
    rows = walk(np.random.default_rng(0), 60)
    how = {"attributes": "x", "dependencies": "y -> x : 1 -> 1", argument: 5}
    with pytest.raises(ValueError, match=f"`{argument}` needs `order`"):
        sf.impute(rows, repository=rows, **how)


@given(st.data())
def test_equal_quantiles_are_those_of_the_definition(data):
    object_ = st.lists(st.tuples(st.integers(1, 9), st.integers(-3, 3), st.integers(0, 5)))
    objects, count = data.draw(st.lists(object_, max_size=4)), data.draw(st.integers(1, 6))
    many, flat = len(objects), [alternative for of in objects for alternative in of]
    weights = [weight / sum(w for w, *_ in of) for of in objects for weight, *_ in of]
    none, zeros = np.zeros(many, np.int64), np.zeros((many, 2))
    given_ = Imputed(
        np.cumsum([0, *map(len, objects)]), np.array(weights, float),
        np.array([x for _, *x in flat], float).reshape(-1, 2), none, none.astype(np.uint8),
        none, zeros, zeros > 0, zeros, none > 0,
    )  # fmt: skip
    found = equal_quantiles(given_, count)
    assert np.diff(found.offsets).tolist() == [count if of else 0 for of in objects]
    assert (found.prob == 1.0 / count).all()
    for i, of in enumerate(objects):
        prob = np.array([weight / sum(w for w, *_ in of) for weight, *_ in of])
        for t in range(2):
            values = np.array([alternative[1 + t] for alternative in of], float)
            wanted = [quantile(values, prob, (j + 0.5) / count) for j in range(count if of else 0)]
            own = found.values[found.offsets[i] : found.offsets[i + 1], t]
            assert sorted(own) == wanted
            assert t or own.tolist() == wanted, "the first attribute is in ascending order"


def test_the_values_of_a_gap_share_their_error():
    random = np.random.default_rng(3)
    past, rows = walk(random, 300), walk(random, 60)
    rows.loc[10:20, "x"] = rows.loc[30:36, "x"] = None
    how = {"repository": past, "attributes": ATTRIBUTES, "order": "at", "key": "device"}
    filled, plain = sf.impute(rows, gap_values=9, **how), sf.impute(rows, **how)
    since = {}
    for row in with_history(rows)[0]:
        since[row["at"]] = row["device"], row["at"] - np.round(2 ** row["age_x"] - 1, 6)
    gaps, known = {}, filled["x"].notna()
    assert filled["gap_x"][known].isna().all()
    for at, gap in filled.dropna(subset="gap_x")[["at", "gap_x"]].itertuples(index=False):
        gaps.setdefault(gap, set()).add(since[at])
    assert all(len(times) == 1 for times in gaps.values()), "one gap has one last value"
    assert len({*map(str, gaps.values())}) == len(gaps) > 3
    with pytest.raises(ValueError, match="gap_x"):
        sf.impute(rows.assign(gap_x=1), gap_values=9, **how)
    with pytest.raises(ValueError, match="`gap_values` and a column `existence`"):
        sf.impute(rows.assign(existence=0.5), gap_values=9, **how)

    gap = filled["gap_x"].value_counts().idxmax()
    own = (filled["gap_x"] == gap).fillna(False).to_numpy(bool)
    points = [[each["x"] for each in row] for row in filled["alternatives"][own]]
    for row, alternatives in zip(points, plain["alternatives"][own], strict=True):
        values, prob = (np.array([each[n] for each in alternatives]) for n in ("x", "prob"))
        assert row == [quantile(values, prob, (j + 0.5) / 9) for j in range(9)]
    window = {"window": sf.Range("10 ms"), "order": "at", "distribution": 99, "shared": "gap_x"}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        answer = sf.window_aggregate(filled[own], {"m": "avg(x)"}, **window)["m"][0]
    values = [outcome["value"] for outcome in answer["distribution"]]
    assert values == pytest.approx(sorted(np.mean(points, axis=0)))


def test_of_a_long_past_some_rows_are_drawn_whatever_their_order(monkeypatch):
    from sfumato.tables.imputation import repositories

    monkeypatch.setattr(repositories, "MAX_PAST_ROWS", 60)
    random = np.random.default_rng(0)
    past, rows = walk(random, 300), walk(random, 20)
    how = {"attributes": ATTRIBUTES, "order": "at", "key": "device"}
    found = sf.impute(rows, repository=past, **how)
    moved = sf.impute(rows, repository=past.sample(frac=1.0, random_state=1), **how)
    assert str(list(found["alternatives"])) == str(list(moved["alternatives"]))
    most = max(len(own) for own, row in zip(found["alternatives"], rows["x"], strict=True))
    assert 1 < most < 1024


def test_windows_warn_where_they_combine_the_values_of_a_gap():
    random = np.random.default_rng(3)
    past, rows = walk(random, 300), walk(random, 40)
    rows.loc[10:20, "x"] = None
    filled = sf.impute(rows, repository=past, attributes=ATTRIBUTES, order="at", key="device")
    window = {"window": sf.Range("20 us"), "order": "at", "key": "device"}
    with pytest.warns(UserWarning, match=r"avg in `aggregates\['m'\]` combines several values"):
        sf.window_aggregate(filled, {"m": "avg(x + 1)"}, **window)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        sf.window_aggregate(filled, {"m": "max(x)", "n": "sum(at)"}, **window)
        assumed = sf.assume_independent(filled)
        sf.window_aggregate(assumed, {"m": "avg(x)"}, **window)
