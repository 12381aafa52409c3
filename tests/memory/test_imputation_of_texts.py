"""Strings in imputation: as determinants, near if they are equal, and as imputed attributes."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sfumato as sf
from sfumato.operators.imputation.imputer import Imputer
from tests import calibrated_reference as reference
from tests.seeds import examples

KINDS = ["ash", "elm", "oak"]
RULES = ["kind, height -> weight : 0, 0.05 -> 0.1", "height -> weight : 0.05 -> 0.5"]
OF_KIND = ["height, weight -> kind : 0.05, 0.05 -> 0", "height -> kind : 0.1 -> 0"]


def trees(random, n, kinds=KINDS) -> pd.DataFrame:
    """Return trees whose weight depends on their height and kind."""
    kind, height = random.choice(kinds, n), random.integers(0, 40, n) / 8
    factor = pd.Series(kind).map({"ash": 1.0, "elm": 2.0, "oak": 3.0}).fillna(4.0).to_numpy()
    return pd.DataFrame({"kind": kind, "height": height, "weight": height * factor})


def scaling_of(table) -> dict:
    low, high = table.min(), table.max()
    return {name: (low[name], high[name] - low[name]) for name in ("height", "weight")}


@examples(20)
@given(st.integers(0, 2**20), st.integers(20, 80), st.integers(1, 12))
def test_donors_have_the_same_text(seed, past, many):
    random = np.random.default_rng(seed)
    repository, rows = trees(random, past), trees(random, many, [*KINDS, "fir"])
    rows["weight"] = np.nan
    rows["kind"] = rows["kind"].mask(random.random(many) < 0.2, None)
    how = {"attributes": "weight", "method": "plain", "fallback": "reject"}
    found = sf.impute(rows, repository=repository, dependencies=RULES[0], **how)
    scaling = scaling_of(repository[["height", "weight"]])
    for place in range(many):
        own = repository[repository["kind"] == rows["kind"][place]]
        expected = None
        if len(own):
            plain = sf.impute(
                rows.iloc[[place]], repository=own, scaling=scaling,
                dependencies="height -> weight : 0.05 -> 0.1", **how,
            )  # fmt: skip
            expected = plain["alternatives"].iloc[0]
        assert str(found["alternatives"][place]) == str(expected)


@examples(10)
@given(st.integers(0, 2**20), st.integers(25, 200))
def test_an_imputed_text_has_the_shares_of_its_donors(seed, past):
    random = np.random.default_rng(seed)
    repository, rows = trees(random, past), trees(random, 8).assign(kind=None)
    rows["weight"] += random.choice([0.0, 0.5, np.nan], 8)
    found = sf.impute(rows, repository=repository, dependencies=OF_KIND, attributes="kind")
    names = ["kind", "height", "weight"]
    known = sorted(repository["kind"].unique())
    coded = repository[names].assign(kind=repository["kind"].map(known.index).astype(float))
    matrix = coded.to_numpy()
    matrix = matrix[np.lexsort(matrix.T[::-1])]
    imputer = Imputer(matrix, OF_KIND, ["kind"], names=names, categories=["kind"])
    learned, scaling = reference.learned(imputer, 0), imputer.scaling
    shift, span = (np.array([scaling[name][i] for name in names]) for i in (0, 1))
    order = np.lexsort(matrix.T[np.argsort(names)[::-1]])
    values = matrix[order]
    for place in range(8):
        centre = (rows[["height", "weight"]].to_numpy(float)[place] - shift[1:]) / span[1:]
        raw = reference.raw_law(
            values, (values - shift) / span, np.array([np.nan, *centre]), 0, names, learned
        ) or np.unique(values[:, 0], return_counts=True)  # without donors, from all rows
        expected = dict(zip(raw[0].tolist(), (raw[1] / raw[1].sum()).tolist(), strict=True))
        own = {known.index(one["kind"]): one["prob"] for one in found["alternatives"][place]}
        assert own.keys() == expected.keys()
        assert np.allclose([own[code] for code in expected], [*expected.values()])


def test_a_text_stays_as_it_is_and_a_new_one_too():
    random = np.random.default_rng(0)
    repository, rows = trees(random, 300), trees(random, 6, ["oak", "fir", "larch"])
    rows.loc[:3, "weight"] = np.nan
    found = sf.impute(
        rows, repository=repository, dependencies=[*RULES, *OF_KIND], attributes=["weight", "kind"]
    )
    for kind, alternatives in zip(rows["kind"], found["alternatives"], strict=True):
        assert {one["kind"] for one in alternatives} == {kind}
    by = found["imputed_by"][:4]
    old = rows["kind"][:4] == "oak"
    assert all(("kind" in text) == known for text, known in zip(by, old, strict=True))


def test_a_text_of_few_rows_is_a_missing_determinant():
    random = np.random.default_rng(0)
    repository = pd.concat([trees(random, 200), trees(random, 19, ["fir"])])
    rows = trees(random, 4, ["fir"]).assign(weight=np.nan)
    found = sf.impute(rows, repository=repository, dependencies=RULES, attributes="weight")
    assert not found["imputed_by"].str.contains("kind").any()
    repository = pd.concat([repository, trees(random, 1, ["fir"])])
    found = sf.impute(rows, repository=repository, dependencies=RULES, attributes="weight")
    assert found["imputed_by"].str.contains("kind").any()


def test_texts_by_key():
    random = np.random.default_rng(0)
    repository, rows = trees(random, 400), trees(random, 5).assign(kind=None)
    for table in (repository, rows):
        table["wood"] = random.choice(["north", "south"], len(table))
    how = {"dependencies": OF_KIND, "attributes": "kind"}
    found = sf.impute(rows, repository=repository, key="wood", least_rows=100, **how)
    scaling = scaling_of(repository[["height", "weight"]])
    for place in range(5):
        own = repository[repository["wood"] == rows["wood"][place]]
        expected = sf.impute(rows.iloc[[place]], repository=own, scaling=scaling, **how)
        assert str(found["alternatives"][place]) == str(expected["alternatives"].iloc[0])


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ({"method": "plain"}, "`kind`, which is text and needs method="),
        ({"joint": True}, "and joint=False"),
        ({"least_donors": 6}, r"has 3 different strings .* with 6 donors at most 2 can be imputed"),
        ({"max_alternatives": 5}, "more than the 5 alternatives allowed per row"),
        ({"scaling": {"kind": (0, 1)}}, "`scaling` names `kind`, which is text"),
    ],
)
def test_texts_that_cannot_be_imputed_are_refused(how, said):
    rows = trees(np.random.default_rng(0), 60)
    with pytest.raises(ValueError, match=said):
        sf.impute(rows, repository=rows, dependencies=OF_KIND, attributes="kind", **how)


def test_a_text_here_and_a_number_there_are_refused():
    rows = trees(np.random.default_rng(0), 60)
    for here, past in ((rows, rows.assign(kind=1.0)), (rows.assign(kind=1.0), rows)):
        with pytest.raises(
            TypeError, match=r"column `kind` must have the same type in `repository`"
        ):
            sf.impute(here, repository=past, dependencies=RULES, attributes="weight")


def test_an_order_and_a_join_take_numbers_only():
    rows = trees(np.random.default_rng(0), 60).assign(at=range(60))
    with pytest.raises(TypeError, match="must name numeric columns; `kind`"):
        sf.impute(rows, repository=rows, attributes="kind", order="at")
    with pytest.raises(TypeError, match="must name numeric columns; `kind`"):
        sf.similarity_join(
            rows, rows, on="weight", within=1, probability=0.5, window=sf.Rows(3), order="at",
            impute={"repository": rows, "dependencies": RULES, "attributes": "weight"},
        )  # fmt: skip
