"""Charts of timetables and rank probabilities: what they show, and how they are saved."""

import pytest

import sfumato as sf
from chart_data import data_of
from sfumato.charts import rank_chart, save, timetable_chart
from sfumato.cli.check import draw_timetables
from sfumato.language.steps import Step, table_step

SIX = [(3, 2), (2, 2), (4, 3), (3, 5), (5, 5), (2, 7)]  # queries Q1 ... Q6 of D, in minutes
MINUTE = 60_000_000
SPEEDS = ([80, 65, 45, 30, 50, 25], [0.3, 0.4, 0.5, 1, 0.8, 0.2], [-1, 2, 2, -1, 5, 5])  # Table 1


def test_every_answer_of_the_timetable_is_drawn_in_its_unit_and_no_other():
    table = sf.engine_free.timetable([(k, f * MINUTE) for k, f in SIX])
    chart = timetable_chart(table, unit="minute", size=MINUTE)
    dots, lines = data_of(chart)
    # Q1, Q2 and Q3 at 2, 6, 10 and 14 minutes, all six at 4, 8 and 12 (D, section 7).
    times = {}
    for dot in dots:
        times.setdefault(dot["query"][:2], []).append(dot["time"])
    assert times["q1"] == times["q3"] == [2, 4, 6, 8, 10, 12, 14]
    assert times["q4"] == times["q5"] == times["q6"] == [4, 8, 12]
    assert {dot["run"] for dot in dots if dot["time"] % 4 == 2} == {4}
    totals = {line["plan"]: line["cost"] for line in lines}  # the last line of each plan
    assert totals["DP, lowest cost"] == 4 * 4 + 3 * 5
    assert totals["NS, each query alone"] == 7 * 3 + 7 * 2 + 4 * 4 + 2 * 3 + 2 * 5 + 2 * 2
    said = chart.to_dict()
    assert "2.25 (sum of k) per minute, 1/2.54 of the cost" in said["title"]["subtitle"][0]
    titles = [part["encoding"]["x"]["title"] for part in said["vconcat"]]
    assert titles == ["time (minutes)"] * 2


def test_the_rank_probabilities_are_drawn_with_the_most_probable_tuple_first():
    chart = rank_chart(*SPEEDS, k=3, labels=["R1", "R2", "R3", "R4", "R5", "R6"])
    cells, sums, *_ = data_of(chart)
    assert [row["tuple"] for row in sums] == ["R5", "R4", "R3", "R2", "R1", "R6"]
    assert [row["sum"] for row in sums] == pytest.approx([0.8, 0.784, 0.5, 0.4, 0.3, 0.146])
    first = {cell["tuple"]: cell["chance"] for cell in cells if cell["rank"] == 1}
    assert first["R1"] == pytest.approx(0.3)
    assert first["R2"] == pytest.approx(0.7 * 0.4)
    crowd = rank_chart(list(range(40)), [0.1] * 40, k=2, labels=["a"] * 40)
    assert len({cell["tuple"] for cell in data_of(crowd)[0]}) == 25  # equal names are made distinct
    assert "15 more" in crowd.to_dict()["title"]["subtitle"][0]


@pytest.mark.nightly
def test_a_picture_is_a_page_on_its_own_or_an_image(tmp_path):
    chart = rank_chart(*SPEEDS, k=2)
    page = save(chart, tmp_path / "ranks.html").read_text()
    assert "<html" in page.lower()
    assert 'src="http' not in page  # the page loads nothing
    assert save(chart, tmp_path / "ranks.png").read_bytes()[:4] == b"\x89PNG"
    assert "<svg" in save(chart, tmp_path / "ranks.svg").read_text()
    with pytest.raises(ValueError, match="`path` must end in"):
        save(chart, tmp_path / "ranks.gif")


def test_wrong_names_and_labels_are_refused():
    with pytest.raises(ValueError, match=r"`names` must have one name per query \(6\)"):
        timetable_chart(sf.engine_free.timetable(SIX), ["one"])
    with pytest.raises(ValueError, match=r"`labels` must have one label per tuple \(6\)"):
        rank_chart(*SPEEDS, k=2, labels=["one"])


@pytest.mark.nightly
def test_the_queries_of_one_ranking_are_drawn_once(tmp_path):
    def ranked(name, by="speed"):
        queries = (("top_3", 3, 2 * MINUTE), ("top_4", 4, 3 * MINUTE))
        facts = {"timetable": (queries, "dp"), "ranked by": by}
        return Step(name, inputs={"": table_step("s", True)}, facts=facts)

    steps = {
        "a": Step("x", inputs={"{d0}": ranked("top_3")}),
        "b": ranked("top_4"),
        "c": ranked("top_3", "z"),
        "d": table_step("s", True),
    }
    files = draw_timetables(steps, tmp_path / "pictures")
    assert [file.name for file in files] == ["a.html", "a.png", "c.html", "c.png"]
    assert all(file.stat().st_size > 1000 for file in files)
