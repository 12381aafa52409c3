"""A join that imputes uses a distance per attribute, like imputing first and then joining."""

import numpy as np
import pandas as pd
import pytest

import sfumato as sf

NAMES = ["h", "c"]


def history(rng):
    h = np.round(rng.uniform(0, 100, 300), 1)
    return pd.DataFrame({"h": h, "c": np.round(10 + 0.3 * h + rng.normal(0, 1, 300), 1)})


def side(rng, start):
    rows = history(rng).iloc[:40].reset_index(drop=True)
    rows[rng.random((40, 2)) < 0.3] = np.nan
    return rows.assign(at=2 * np.arange(40) + start)


def pairs(found):
    return {(row.left["at"], row.right["at"]): row.probability for row in found.itertuples()}


@pytest.mark.parametrize(
    "within", [{"h": 8.0, "c": 2.5}, {"c": 2.5, "h": 8.0}, {"h": 3.0, "c": 30.0}]
)
def test_distances_for_each_attribute_equal_imputing_first(within):
    rng = np.random.default_rng(1)
    known, left, right = history(rng), side(rng, 0), side(rng, 1)
    how = {
        "dependencies": ["h -> c : 0.05 -> 0.1", "c -> h : 0.05 -> 0.1"],
        "attributes": NAMES,
        "repository": known,
        "max_alternatives": 50,
    }
    asked = {"within": within, "probability": 0.2, "window": sf.Rows(9), "order": "at"}
    for on in (NAMES, NAMES[::-1]):
        both = sf.similarity_join(left, right, on=on, impute=how, **asked)
        first = [sf.impute(frame, **how)[["at", "alternatives"]] for frame in (left, right)]
        apart = pairs(sf.similarity_join(*first, on=on, **asked))
        assert len(apart) > 5
        assert pairs(both) == pytest.approx(apart, abs=1e-12)


def test_a_scaled_distance_is_that_of_attributes_in_their_extents():
    """A distance of 0.1 for attributes that the repository scales to [0, 1]."""
    known = pd.DataFrame({"h": [0.0, 100.0], "c": [10.0, 40.0]})
    row = pd.DataFrame({"at": [1], "h": [50.0], "c": [20.0]})
    how = {"repository": known, "dependencies": "h -> c : 0.5 -> 1", "attributes": NAMES}
    for h, c, near in (
        (59.0, 20.0, True),
        (50.0, 22.9, True),
        (50.0, 23.1, False),
        (58.0, 22.0, False),
    ):
        other = pd.DataFrame({"at": [2], "h": [h], "c": [c]})
        found = sf.similarity_join(
            row, other, on=NAMES, within={"h": 0.1 * 100, "c": 0.1 * 30}, probability=1.0,
            window=sf.Rows(3), order="at", impute=how,
        )  # fmt: skip
        assert len(found) == near


@pytest.mark.parametrize("imputed", [False, True])
def test_each_pair_of_three_streams_is_joined_as_alone(imputed):
    rng = np.random.default_rng(3)
    how = {"dependencies": "h -> c : 0.05 -> 0.1", "attributes": "c", "max_alternatives": 16}
    how["repository"] = history(rng)
    streams = {name: side(rng, i).drop(columns="at").assign(id=np.arange(40))
               for i, name in enumerate("xyz")}  # fmt: skip
    asked = {"on": "c", "within": 0.5, "probability": 0.3, "order": "id", "window": sf.Rows(15)}
    if not imputed:
        streams = {name: rows.fillna({"c": -1}) for name, rows in streams.items()}
    more = {"impute": how} if imputed else {}
    found = sf.join_streams(streams, name="all", **asked, **more)
    assert isinstance(found, pd.DataFrame)
    expected, pairs_of = [], ("xy", "xz", "yz")
    for one, other in pairs_of:
        of_two = sf.similarity_join(streams[one], streams[other], **asked, **more)
        assert len(of_two)
        names = {"left_stream": one, "right_stream": other}
        expected += [names | row for row in of_two.to_dict("records")]
    assert list(map(repr, found.to_dict("records"))) == list(map(repr, expected))
    joins = [name for name in sf.ops.counters(found) if name.count("_") == 4]
    assert joins == [f"sfumato_join_all_{one}_{other}" for one, other in pairs_of]
    with pytest.raises(ValueError, match="same columns"):
        sf.join_streams({**streams, "w": streams["x"].drop(columns="h")}, **asked)
    with pytest.raises(TypeError, match="at least two"):
        sf.join_streams({"x": streams["x"]}, **asked)
