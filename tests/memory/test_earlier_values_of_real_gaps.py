"""A stream with real gaps joins better with its earlier values than without them."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

import sfumato as sf

MOTES, ON = (22, 23), ["temperature", "humidity"]
BY_EARLIER = [
    "earlier_temperature, age_temperature -> temperature : 0.005, 0.05 -> 0.05",
    "earlier_humidity, age_humidity -> humidity : 0.005, 0.05 -> 0.05",
]
BY_EACH_OTHER = ["temperature -> humidity : 0.05 -> 0.1", "humidity -> temperature : 0.05 -> 0.1"]


def lab(data_folder):
    """Return two Intel lab motes' past readings, later readings, and later readings with gaps."""
    table = pq.read_table(data_folder / "intel_lab_9motes.parquet").to_pandas()
    table = table[table.moteid.isin(MOTES)].dropna(subset=ON).sort_values("ts", kind="stable")
    table = table.drop_duplicates("ts")[["ts", "moteid", *ON]]
    past, live = table.iloc[2_000:6_000].copy(), table.iloc[6_000:6_300].reset_index(drop=True)
    lost, gaps = np.random.default_rng(5), live.copy()
    for frame in (past, gaps):
        for name in ON:
            frame.loc[lost.random(len(frame)) < 0.4, name] = np.nan
    return (pa.Table.from_pandas(frame, preserve_index=False) for frame in (past, live, gaps))


def pairs(rows, **options):
    sides = [rows.filter(pc.equal(rows["moteid"], mote)) for mote in MOTES]
    found = sf.similarity_join(
        *sides, on=ON, within=0.5, probability=0.2, window=sf.Rows(40), order="ts",
        alternatives=False, **options,
    )  # fmt: skip
    return {(row["left"]["ts"], row["right"]["ts"]) for row in found.to_pylist()}


def test_a_gappy_stream_joins_by_its_earlier_values(data_folder):
    past, live, gaps = (
        sf.earlier_values(rows, ON, order="ts", key="moteid") for rows in lab(data_folder)
    )
    true, how = pairs(live), {"repository": past, "attributes": ON, "max_alternatives": 16}

    def f_score(dependencies):
        found = pairs(gaps, impute={"dependencies": dependencies, **how})
        return 2 * len(found & true) / (len(found) + len(true))

    assert f_score([*BY_EARLIER, *BY_EACH_OTHER]) > f_score(BY_EACH_OTHER) + 0.05
