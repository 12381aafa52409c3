"""The jobs for other engines: reference answers, and the comparison with them."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sfumato as sf
from benchmarks.engines import __main__ as engines
from benchmarks.engines import data


def test_the_reference_of_sliding_means_agrees_with_a_window_in_memory():
    rows = data.readings(3_000)
    stamps = pa.array(np.asarray(rows["ts"]) * 1_000).cast(pa.timestamp("us", "UTC"))
    ordered = rows.set_column(0, "ts", stamps).sort_by("ts")
    window = sf.Range("10 minutes", slide="1 minute")
    asked = {"s": "sum(v)", "n": "count(*)"}
    found = sf.window_aggregate(ordered, asked, window=window, order="ts", key="k").to_pandas()
    found["end"] = [int(each["end"].timestamp() * 1_000) for each in found.pop("window")]
    wanted = data.sliding_means(rows).to_pandas()
    both = wanted.merge(found, on=["k", "end"], how="outer")
    assert len(both) == len(wanted) == len(found)
    assert (both["n_x"] == both["n_y"]).all()
    np.testing.assert_allclose(both["s_x"], both["s_y"])


def test_the_reference_of_the_join_agrees_with_all_pairs_of_a_window():
    rows = data.numbers(600)
    x, side = np.asarray(rows["x"]), np.asarray(rows["side"])
    near = np.abs(x[:, None] - x) <= data.REACH
    wanted = {(a, b) for a, b in np.argwhere(near) if side[a] < side[b]}
    found = data.near_pairs(rows)
    assert {*zip(found["a"].to_pylist(), found["b"].to_pylist(), strict=True)} == wanted


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda found: found, "equal"),
        (lambda found: found[found["end"] > found["end"].min()], "1,000 left out"),
        (lambda found: found.assign(n=found["n"] + (found["k"] == 7)), "13 differ"),
    ],
)
def test_answers_are_compared_with_the_reference(tmp_path, change, said):
    found = change(data.sliding_means(data.readings(engines.SMALL)).to_pandas())
    pq.write_table(pa.Table.from_pandas(found, preserve_index=False), tmp_path / "a.parquet")
    assert engines.compared("static", tmp_path / "a.parquet") == said
