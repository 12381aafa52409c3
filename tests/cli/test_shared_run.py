"""Several TOP queries of a pipeline file: one streaming query ranks for all of their sinks."""

import os
import re
from datetime import UTC, datetime, timedelta

import pytest

import sfumato as sf
from pipeline_runs import put, ran, written
from seeds import nightly_except
from sfumato.cli.pipeline.model import PipelineError, Sink
from sfumato.cli.pipeline.parse import parse_pipeline
from sfumato.cli.plan import build_plan, shortest_trigger

START = datetime(2026, 1, 1, 9, tzinfo=UTC)
SCHEMA = "id long, at timestamp, speed double, existence double"
SOURCE = f"""
checkpoint = "state"

[sources.readings]
format = "json"
path = "in"
schema = "{SCHEMA}"
options = {{ maxFilesPerTrigger = 1 }}
"""
PIPELINE = (
    SOURCE
    + """
[queries.fast]
sql = "SELECT * FROM readings WHERE speed > 5"

[queries.best]
sql = "SELECT TOP 1 id, time, probability FROM fast [RANGE 20 s WATTR at] RANK BY speed FREQUENCY 4 s"

[queries.often]
sql = "select top 3 id, time, probability, answered from fast [range 20 s wattr at] rank by speed frequency 2 s"

[queries.first]
sql = "SELECT id, probability FROM often WHERE id % 2 = 0"

[queries.slow]
sql = "SELECT TOP 1 id, time FROM readings [RANGE 20 s WATTR at] RANK BY speed ASC FREQUENCY 4 s"

[sinks.best]
query = "best"
format = "parquet"
path = "best"

[sinks.first]
query = "first"
rows = 3
"""  # noqa: E501
)


def rows(ids):
    return [
        {"id": i, "at": (START + timedelta(seconds=i)).isoformat(), "speed": float(i * 7 % 31),
         "existence": 0.5}
        for i in ids
    ]  # fmt: skip


def test_of_several_triggers_the_shortest_wins():
    sinks = [Sink(name=each, query="q", trigger=each) for each in ("1 minute", "2 seconds")]
    assert shortest_trigger(sinks) == "2 seconds"
    assert shortest_trigger([*sinks, Sink(name="c", query="q")]) is None


@pytest.mark.spark
def test_one_run_answers_the_sinks_of_all_queries_and_goes_on_after_a_restart(spark, tmp_path):
    whole = parse_pipeline(PIPELINE, tmp_path / "p.toml")
    put(tmp_path / "in", "a.json", rows(range(30)))
    os.utime(tmp_path / "in" / "a.json", (1, 1))
    for part in ("a", "b"):
        if part == "b":
            put(tmp_path / "in", "b.json", rows(range(30, 45)))
            os.utime(tmp_path / "in" / "b.json", (2, 2))
            put(tmp_path / "in", "c.json", rows(range(45, 60)))  # a separate micro-batch
        code, said = ran(spark, tmp_path, PIPELINE, width=200)
        assert code == 0
        assert "best, often together" in said  # and not `slow`, which no sink asks for
        assert "first: the newest 3 rows" in said
    shown = [line.split("│")[1].strip() for line in said.splitlines() if line.startswith("│")]
    assert shown == ["44", "48", "44"]  # the last answers: at 56 s 53, 44, 48, at 58 s 53, 44, 57
    together = next(line.split() for line in said.splitlines() if line.startswith("best, often"))
    assert together[4] == str(len([i for i in range(30, 60) if i * 7 % 31 > 5]))  # rows in, once
    came = written(tmp_path / "best").to_pylist()
    static = spark.read.schema(SCHEMA).json(str(tmp_path / "in")).where("speed > 5")
    queries = [sf.Top(1, every="4 s"), sf.Top(3, every="2 s")]
    answers = sf.top_k(static, queries, by="speed", window=sf.Range("20 s"), order="at").where(
        "query = 'top_1' AND answered IS NOT NULL"
    )
    expected = answers.selectExpr("row.id", "time", "probability").collect()
    assert sorted((r["id"], r["time"].replace(tzinfo=None), r["probability"]) for r in came) == (
        sorted((r["id"], r["time"], r["probability"]) for r in expected)
    )
    assert len(came) > 10
    plan = build_plan(spark, whole)
    plans = plan.explanations
    assert plans["best"].endswith("answered together with often")
    assert "one run" not in plans["slow"]
    assert "answered" in plan.frames["often"].columns
    drop_views(spark, whole)


@pytest.mark.spark
def test_with_flush_the_last_answers_of_all_queries_come_too(spark, tmp_path):
    text = f"flush = true\n{PIPELINE}".replace("rows = 3", 'format = "parquet"\npath = "first"')
    whole = parse_pipeline(text, tmp_path / "p.toml")
    for number in range(3):
        put(tmp_path / "in", f"{number}.json", rows(range(20 * number, 20 * number + 20)))
        os.utime(tmp_path / "in" / f"{number}.json", (number + 1, number + 1))
    assert ran(spark, tmp_path, text)[0] == 0
    static = spark.read.schema(SCHEMA).json(str(tmp_path / "in")).where("speed > 5")
    queries = [sf.Top(1, every="4 s"), sf.Top(3, every="2 s")]
    answers = sf.top_k(static, queries, by="speed", window=sf.Range("20 s"), order="at")
    for name, chosen in [
        ("best", "query = 'top_1'"),
        ("first", "query = 'top_3' AND row.id % 2 = 0"),
    ]:
        wanted = answers.where(chosen).selectExpr("row.id", "probability").collect()
        came = written(tmp_path / name)
        found = zip(came["id"].to_pylist(), came["probability"].to_pylist(), strict=True)
        assert sorted(found) == sorted((row.id, row.probability) for row in wanted)
        assert answers.where(f"{chosen} AND answered IS NULL").count() > 0
    drop_views(spark, whole)


def drop_views(spark, pipeline):
    for name in [s.name for s in pipeline.sources] + [q.name for q in pipeline.queries]:
        spark.catalog.dropTempView(name)


LATE = (
    SOURCE
    + """
[queries.ordered]
sql = "SELECT id, at, late FROM readings [WATTR at SLACK 3 ARRIVAL id]"

[sinks.on_time]
query = "ordered"
format = "parquet"
path = "on_time"
late = "PLACE"
"""
)
BEHIND = "[sinks.behind]\nquery = 'ordered'\nformat = 'parquet'\npath = 'behind'\n"


def disordered(ids):
    """Return rows of which every seventh has an event time twenty seconds earlier."""
    found = rows(ids)
    for row in found:
        ago = 20 if row["id"] % 7 == 0 else 0
        row["at"] = (START + timedelta(seconds=row["id"] - ago)).isoformat()
    return found


@pytest.mark.spark
@pytest.mark.parametrize(
    "place_and_flush",
    nightly_except(
        [("behind", False), ("./behind", False), ("./behind", True)], ("./behind", True)
    ),
)
def test_late_rows_go_to_a_separate_place_from_one_run(spark, tmp_path, place_and_flush):
    place, flush = place_and_flush
    text = LATE.replace("PLACE", place) + (BEHIND if place == "behind" else "")
    text = f"flush = {str(flush).lower()}\n{text}"
    for part, ids in enumerate((range(40), range(40, 80))):
        put(tmp_path / "in", f"{part}.json", disordered(ids))
        os.utime(tmp_path / "in" / f"{part}.json", (part + 1, part + 1))
        if part == 1 or not flush:
            code, said = ran(spark, tmp_path, text, width=200)
            assert code == 0
            assert "ordered with its late rows" in said
    source, whole = spark.read.schema(SCHEMA).json(str(tmp_path / "in")), 80 if flush else 70
    wanted = sf.reorder(source, event_time="at", arrival="id", slack=3).collect()
    for folder, late in (("on_time", False), ("behind", True)):
        came = written(tmp_path / folder)
        ids = [row.id for row in wanted if row.late is late and row.id < whole]
        assert ids
        assert sorted(i for i in came["id"].to_pylist() if i < whole) == sorted(ids)
        assert set(came["late"].to_pylist()) == {late}
    drop_views(spark, parse_pipeline(text, tmp_path / "p.toml"))


@pytest.mark.spark
def test_late_rows_are_those_that_a_controller_marks(spark, tmp_path):
    text = LATE.replace("PLACE", "./behind").replace("id, at, late", "id, at")
    put(tmp_path / "in", "a.json", rows(range(3)))
    why = r"`sinks.on_time.late` needs a boolean column `late` in ordered"
    with pytest.raises(PipelineError, match=why):
        build_plan(spark, parse_pipeline(text, tmp_path / "p.toml"))
    drop_views(spark, parse_pipeline(text, tmp_path / "p.toml"))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            LATE.replace("PLACE", "behnd") + BEHIND,
            "is not a different sink in this file; did you mean",
        ),
        (
            LATE.replace("PLACE", "on_time"),
            "is not a different sink in this file; for a folder, write",
        ),
        (
            LATE.replace("PLACE", "behind") + BEHIND.replace("'ordered'", "'readings'"),
            "must name a sink with the same query, 'ordered'; this sink has the query 'readings'",
        ),
        (
            LATE.replace("PLACE", "behind") + BEHIND + "late = './late'",
            "`sinks.behind.late` is not allowed, because this sink receives the late rows",
        ),
        (
            LATE.replace("PLACE", "./late") + BEHIND.replace("behind]", "on_time_late]"),
            "names a folder, whose sink would be called on_time_late, but a sink with t",
        ),
    ],
)
def test_a_wrong_place_for_late_rows_is_named(tmp_path, text, said):
    with pytest.raises(PipelineError) as error:
        parse_pipeline(text, tmp_path / "p.toml")
    assert said in str(error.value)
    assert re.match(r"`sinks.(on_time|behind).late`", str(error.value))


CHANGES = {
    "the first goes": (["a", "b", "c"], ["b", "c"]),
    "another comes first": (["a", "b"], ["z", "a", "b"]),
    "one becomes two": (["a"], ["a", "b"]),
    "two become one": (["a", "b"], ["b"]),
    "one of equal k comes": (["a"], ["d", "a"]),
    "one is called otherwise": (["a", "b"], ["e", "b"]),
    "all others come": (["a", "b"], ["c"]),
}
ASKED = {"a": (3, 2), "b": (2, 3), "c": (4, 5), "d": (3, 4), "e": (3, 2), "z": (5, 1)}


def pipeline_of(names):
    text = 'checkpoint = "state"\n[sources.S]\nformat = "json"\npath = "in"\n'
    text += 'schema = "t timestamp, x double"\n'
    for name in names:
        k, every = ASKED[name]
        text += f'[queries.{name}]\nsql = "SELECT TOP {k} x, time, rank FROM S '
        text += f'[RANGE 20 minutes WATTR t] RANK BY x FREQUENCY {every} minutes"\n'
        text += f'[sinks.{name}]\nquery = "{name}"\nformat = "parquet"\npath = "out/{name}"\n'
    return text


def values(first, last):
    return [(START + timedelta(seconds=s), float(s * 7919 % 101)) for s in range(first, last, 10)]


@pytest.mark.spark
@pytest.mark.parametrize("change", nightly_except(CHANGES, "one becomes two"))
def test_queries_of_a_ranking_come_and_go(spark, tmp_path, change):
    """Every answer is right, none is repeated or late, and queries that stay miss none."""
    before, after = CHANGES[change]
    bounds = [0, 1500, 3000, 4500]
    seen = {}
    for part, names in enumerate([before, after, before]):
        given = values(*bounds[part : part + 2])
        content = [{"t": at.isoformat(), "x": x} for at, x in given]
        put(tmp_path / "in", f"{part}.json", content)
        os.utime(tmp_path / "in" / f"{part}.json", (part + 1, part + 1))
        text = pipeline_of(names)
        code, said = ran(spark, tmp_path, text, width=200)
        assert code == 0, said
        drop_views(spark, parse_pipeline(text, tmp_path / "p.toml"))
        for name in names:
            seen.setdefault(name, []).append((bounds[part], bounds[part + 1] - 10))
    rows_of = values(0, bounds[-1])
    for name, runs in seen.items():
        (k, every), folder = ASKED[name], tmp_path / "out" / name
        table = written(folder)
        answers = {}
        for row in table.to_pylist():
            at = row["time"].replace(tzinfo=UTC)
            assert row["rank"] not in answers.setdefault(at, {}), "an answer came twice"
            answers[at][row["rank"]] = row["x"]
        for at, ranked in answers.items():
            held = [x for t, x in rows_of if at - timedelta(minutes=20) <= t < at]
            best = sorted(held, reverse=True)[:k]
            assert [ranked[i + 1] for i in range(len(ranked))] == best
        bound = timedelta(minutes=every)
        for first, last in _stretches(runs):
            begin, end = (START + timedelta(seconds=s) for s in (first, last))
            times = sorted(at for at in answers if begin <= at <= end)
            gaps = zip([begin, *times], [*times, end], strict=True)
            assert all(b - a <= bound for a, b in gaps), "an answer is missing"


def _stretches(runs):
    """Merge the times of consecutive runs into the intervals in which a query is present."""
    found = [list(runs[0])]
    for first, last in runs[1:]:
        if first - found[-1][1] <= 10:
            found[-1][1] = last
        else:
            found.append([first, last])
    return found


@pytest.mark.spark
def test_a_sink_that_has_written_answers_of_another_ranking_is_refused(spark, tmp_path):
    put(tmp_path / "in", "0.json", [{"t": at.isoformat(), "x": x} for at, x in values(0, 600)])
    text = pipeline_of(["a", "b"])
    assert ran(spark, tmp_path, text)[0] == 0
    drop_views(spark, parse_pipeline(text, tmp_path / "p.toml"))
    with pytest.raises(PipelineError, match=r"sinks\.a.*the ranking has since changed.*a new name"):
        ran(spark, tmp_path, text.replace("RANK BY x", "RANK BY -x"))
    drop_views(spark, parse_pipeline(text, tmp_path / "p.toml"))
