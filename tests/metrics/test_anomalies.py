"""Messages about unusual metrics."""

from sfumato.metrics.anomalies import anomalies
from spark_reports import part


def found(target, **counts):
    return list(anomalies({part(name): of for name, of in counts.items()}, target))


def test_an_ordinary_query_and_few_rows_cause_no_message():
    assert found(0.01) == []
    assert found(0.01, sfumato_reorder_a={"rows": 5_000, "late": 55}) == []
    assert found(None, sfumato_join_a_left={"rows": 10, "invalid": 9}) == []


def test_unusual_shares_are_reported_with_their_operator():
    late, unaligned = found(
        0.01,
        sfumato_reorder_a={"rows": 5_000, "late": 200},
        sfumato_join_pairs={"rows": 5_000, "unaligned": 5_000, "overflow": 20},
    )
    assert late == "4.00% of the rows are late; the target is 1.00%"
    assert unaligned.startswith("join_pairs: 5,000 of 5,000 rows (100.0%) were joined without")


def test_a_stream_that_drifted_from_its_repository_is_reported():
    (told,) = found(None, sfumato_impute_a={"rows": 5_000, "tested": 300, "covered": 200})
    assert told.startswith("impute_a: only 200 of 300 tested known values lie within")
    assert found(None, sfumato_impute_a={"rows": 5_000, "tested": 300, "covered": 260}) == []
    assert found(None, sfumato_impute_a={"rows": 5_000, "tested": 100, "covered": 20}) == []
