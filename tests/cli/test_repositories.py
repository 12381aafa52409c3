"""The repository of IMPUTE in a pipeline file: a database table through JDBC, or Parquet."""

import pytest

from pipeline_runs import put, ran

FILE = """
[sources.readings]
format = "json"
path = "in"
schema = "id int, humidity double, temperature double"

[sources.history]
static = true
{history}

[queries.complete]
sql = \"\"\"
SELECT id, imputed_by, EXPECTED(temperature) AS temperature
FROM readings IMPUTE (temperature) FROM history BY 'humidity -> temperature : 0.05 -> 0.1'
\"\"\"

[sinks.out]
query = "complete"
"""
DERBY = """
format = "jdbc"
options = {{ url = "jdbc:derby:{place}", dbtable = "history", user = "app", \
password = "${{PASSWORD}}", driver = "org.apache.derby.iapi.jdbc.AutoloadedDriver" }}
"""
PARQUET = """
format = "parquet"
path = "{place}"
"""
KNOWN = [(40.0 + i, 10.0 + i) for i in range(20)]


@pytest.mark.nightly
@pytest.mark.spark
def test_history_in_a_database_or_in_parquet_completes_rows(spark, tmp_path, monkeypatch):
    monkeypatch.setenv("PASSWORD", "not-to-be-seen")
    rows = [{"id": 1, "humidity": 45.0, "temperature": None}]
    put(tmp_path / "in", "a.json", [*rows, {"id": 2, "humidity": 50.0, "temperature": 3.5}])
    history = spark.createDataFrame(KNOWN, "humidity double, temperature double")
    base = tmp_path / "database"
    how = {"driver": "org.apache.derby.iapi.jdbc.AutoloadedDriver", "user": "app"}
    history.write.jdbc(f"jdbc:derby:{base};create=true", "history", "append", how)
    history.write.parquet(str(tmp_path / "history"))
    said = []
    for kind, place in ((DERBY, base), (PARQUET, tmp_path / "history")):
        code, text = ran(spark, tmp_path, FILE.format(history=kind.format(place=place)))
        assert code == 0, text
        assert "not-to-be-seen" not in text
        said.append(text)
    answers = [[part.strip() for part in line.split("│")] for line in said[0].splitlines()]
    found = {part[1]: part[-2] for part in answers if len(part) > 4}
    assert float(found["1"]) == pytest.approx(15.0, abs=0.01)
    assert float(found["2"]) == 3.5
