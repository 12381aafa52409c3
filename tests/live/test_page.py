"""The page in a real browser: metrics equal the reports, the token is needed, no network access."""

import json
import shutil

import pytest

from sfumato.live.server import Server
from sfumato.live.view import About, ResultRows
from sfumato.metrics.session_metrics import SessionMetrics
from spark_reports import reorder, report

NAMES = ("chromium", "chromium-browser", "google-chrome")
CHROMIUM = next(filter(None, map(shutil.which, NAMES)), "")
ROWS = [[("JFK", None), ("0.970", 0.97)], [("EWR", None), ("0.250", 0.25)]]


@pytest.fixture(scope="module")
def browser():
    """Yield the system's Chromium, headless; skip if there is none."""
    sync = pytest.importorskip("playwright.sync_api")
    if not CHROMIUM:
        pytest.skip("no Chromium here: apt-get install chromium")
    with sync.sync_playwright() as play:
        found = play.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield found
        found.close()


@pytest.fixture
def metrics():
    found = SessionMetrics()
    for batch in range(6):
        shown = {
            "lag": 2_500_000, "punctuation": 1_700_000_000_000_000, "slowest": "b",
            "waited": 7_500_000, "waits": "0,0,0,98,0,0,0,0,0,0,0,2", "keys": 9,
            "new_keys": 9 if batch == 0 else 0,
        }  # fmt: skip
        near = {"rows": 9, "opposite": 40, "compared": 10, "window_size": 14, "window_rows": 12}
        runs = [[1_700_000_060_000_000 + 30_000_000 * i, ["a", "b"][: 1 + i % 2]] for i in range(4)]
        ranked = {"rows": 9, "due": runs[0][0], "timetable": json.dumps(runs)}
        observed = reorder(1000, 20, 5, **shown)
        found.take(
            "flights",
            [
                report(
                    batch,
                    1000,
                    sfumato_rows_out={"rows": 975},
                    sfumato_reorder_intake=observed,
                    sfumato_join_near=near,
                    sfumato_top_k_best=ranked,
                    sfumato_top_k_best_answers={"a": 7, "b": 3},
                )
            ],
        )
    return found


@pytest.fixture
def server(metrics):
    about = {"flights": About("SELECT * FROM <flights>", "reorder by t", 0.01, answers)}
    found = Server(metrics, about)
    yield found
    found.stop()


def answers():
    return ResultRows(["airport", "probability"], ROWS)


def opened(browser, url, **how):
    context = browser.new_context(**how)
    page = context.new_page()
    page.requested, page.troubles = [], []
    page.on("request", lambda request: page.requested.append(request.url))
    page.on("console", lambda line: page.troubles.append(line.text))
    page.on("pageerror", lambda error: page.troubles.append(str(error)))
    page.goto(url)
    page.wait_for_selector("body[data-ready] svg.marks", timeout=20_000)
    return page


def tile(page, query, name):
    return page.inner_text(f"[data-query='{query}'] [data-tile='{name}']")


def column(page, name):
    """Return the cells below a heading of the operator table."""
    rows = page.locator(".operators tr")
    place = rows.first.locator("th").all_inner_texts().index(name)
    return [row.locator("td").all_inner_texts()[place] for row in rows.all()[1:]]


@pytest.mark.nightly
def test_the_metrics_on_the_page_are_those_of_the_query_and_follow_it(browser, server, metrics):
    page = opened(browser, server.url)
    assert tile(page, "flights", "rows in") == "6,000"
    assert tile(page, "flights", "rows out") == "5,850"
    assert tile(page, "flights", "late") == "2.00%"
    assert tile(page, "flights", "held") == "30"
    assert tile(page, "flights", "punctuation behind") == "2.50 s"
    assert tile(page, "flights", "state") == "100 B"
    assert "target 1.00%" in page.inner_text(".tiles")
    assert tile(page, "flights", "rows wait") == "5.7 ms"
    assert tile(page, "flights", "oldest held") == "7.50 s"
    tiles = page.inner_text(".tiles")
    assert "99%: 1.45 s" in tiles
    assert "at 2023-11-14 22:13:20" in tiles  # the punctuation is long past
    assert column(page, "punctuation") == ["2023-11-14 22:13:20", "", ""]
    assert column(page, "keys") == ["9", "", ""]
    assert column(page, "wait, median") == ["5.7 ms", "", ""]
    assert column(page, "oldest held") == ["7.50 s", "", ""]
    assert column(page, "window holds") == ["", "14", ""]
    assert column(page, "rows required") == ["", "12", ""]
    assert column(page, "pruned") == ["", "75.0%", ""]
    rankings = page.locator(".rankings tr").all_inner_texts()
    assert [row.split("\t") for row in rankings[1:]] == [
        ["top_k_best: a", "42", "2023-11-14 22:14:20", "22:14:50, 22:15:20"],
        ["top_k_best: b", "18", "2023-11-14 22:14:50", "22:15:50"],
    ]
    assert page.text_content("details.sql pre") == "SELECT * FROM <flights>"
    widths = page.eval_on_selector_all(".answers .bar i", "bars => bars.map(b => b.style.width)")
    assert widths == ["97%", "25%"]
    assert page.locator("figure:not([hidden])").count() == 5
    metrics.take("flights", [report(6, 500, sfumato_rows_out={"rows": 0})])
    metrics.take("weather", [report(0, 7)])
    metrics.ended("weather", "no disk")
    page.wait_for_selector("[data-query='weather']", timeout=10_000)
    assert tile(page, "flights", "rows in") == "6,500"
    assert "failed: no disk" in page.inner_text("[data-query='weather'] .said")
    assert not page.troubles


@pytest.mark.nightly
def test_no_request_leaves_the_machine_and_the_token_leaves_the_address(browser, server):
    page = opened(browser, server.url)
    hosts = {url.split("/")[2] for url in page.requested if not url.startswith("data:")}
    assert hosts == {f"127.0.0.1:{server.port}"}
    assert page.url == f"http://127.0.0.1:{server.port}/"


@pytest.mark.nightly
@pytest.mark.parametrize(("scheme", "width"), [("light", 1280), ("dark", 1280), ("light", 390)])
def test_the_page_fits_light_dark_and_narrow(browser, server, scheme, width):
    how = {"color_scheme": scheme, "viewport": {"width": width, "height": 800}}
    page = opened(browser, server.url, **how)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    paper = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (sum(map(int, paper[4:-1].split(","))) < 384) == (scheme == "dark")
    assert not page.troubles


@pytest.mark.nightly
def test_a_page_whose_server_has_gone_says_so(browser, server):
    page = opened(browser, server.url)
    server.stop()
    page.wait_for_function("document.getElementById('state').textContent.includes('ended')")
