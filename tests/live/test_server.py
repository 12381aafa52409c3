"""The page's server: what it serves, to whom, and how it stops."""

import json
import socket
import time
from functools import partial

import httpx
import pytest

from sfumato.live.server import Server
from sfumato.live.view import MAX_SHOWN, About, view
from sfumato.metrics.session_metrics import SessionMetrics
from spark_reports import reorder, report

PATIENCE = 60.0  # seconds; enough on a busy machine
get, stream = partial(httpx.get, timeout=PATIENCE), partial(httpx.stream, timeout=PATIENCE)
Client = partial(httpx.Client, timeout=PATIENCE)


@pytest.fixture
def metrics():
    found = SessionMetrics()
    found.take("q", [report(0, 10, sfumato_reorder_1=reorder(10, 1, 2))])
    return found


@pytest.fixture
def server(metrics):
    found = Server(metrics, {})
    yield found
    found.stop()


def test_nothing_is_given_without_the_token(server):
    address, token = server.url.split("/?token=")
    for path in ("/", "/page.js", "/charts.js", "/events", "/state", "/metrics", "/none"):
        assert get(address + path).status_code == 403
        assert get(address + path, headers={"authorization": "Bearer x"}).status_code == 403
        wrong = get(address + path, params={"token": token[:-1]})
        assert wrong.status_code == 403
        assert b"sfumato_rows" not in wrong.content
    for path in ("/page.js", "/state"):  # a token in the address opens only the page
        assert get(address + path, params={"token": token}).status_code == 403


def test_with_the_token_all_is_given_and_nothing_comes_from_elsewhere(server):
    address, token = server.url.split("/?token=")
    opened = get(server.url)
    assert opened.status_code == 303
    assert opened.headers["location"] == "/"
    cookie = opened.headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=strict" in cookie
    assert token not in cookie
    assert cookie.startswith(f"sfumato-{server.port}=")
    with Client(base_url=address, headers={"authorization": f"Bearer {token}"}) as client:
        for path in ("/", "/page.js", "/page.css", "/charts.js"):
            answer = client.get(path)
            assert answer.status_code == 200
            assert "default-src 'none'" in answer.headers["content-security-policy"]
            if path != "/charts.js":
                assert "//" not in answer.text.replace("https://vega.github.io/schema", "").replace(
                    "// ", ""
                )
        assert client.get("/../app.py").status_code == 404
        assert client.get("/app.py").status_code == 404
        assert client.get("/state").json()["queries"][0]["rows_in"] == 10
        assert 'sfumato_rows_in_total{query="q"} 10.0' in client.get("/metrics").text
        with client.stream("GET", "/events") as events:
            first = next(events.iter_lines())
        assert json.loads(first.removeprefix("data: "))["queries"][0]["late"] == 1


def test_a_cookie_which_other_ports_see_gives_no_data_and_no_token(server):
    address, token = server.url.split("/?token=")
    with Client(base_url=address) as browser:
        first = browser.get(f"/?token={token}", follow_redirects=True)
        assert f'<meta name="token" content="{token}">' in first.text
        assert list(browser.cookies) == [f"sfumato-{server.port}"]
        stolen = browser.cookies[f"sfumato-{server.port}"]
    cookies = {f"sfumato-{server.port}": stolen}
    for path in ("/state", "/events", "/metrics"):
        with stream("GET", address + path, headers={"cookie": _cookie(cookies)}) as answer:
            assert answer.status_code == 403
    for path in ("/", "/page.js", "/page.css"):
        answer = get(address + path, headers={"cookie": _cookie(cookies)})
        assert answer.status_code == 200
        assert token not in answer.text
    assert get(address, headers={"cookie": f"sfumato-{server.port}={token}"}).is_error
    assert get(address, headers={"cookie": f"sfumato={stolen}"}).is_error


def _cookie(values):
    return "; ".join(f"{name}={value}" for name, value in values.items())


def test_every_opening_gets_the_token_once(server):
    address, token = server.url.split("/?token=")
    for _ in range(2):
        with Client(base_url=address) as browser:
            assert token in browser.get(f"/?token={token}", follow_redirects=True).text
            assert token not in browser.get("/").text


def test_another_host_name_is_refused_whatever_it_has(server):
    address, token = server.url.split("/?token=")
    headers = {"host": "evil.example", "authorization": f"Bearer {token}"}
    assert get(f"{address}/state", headers=headers).status_code == 400


def test_it_listens_on_loopback_only_and_ends_with_open_pages(metrics):
    server = Server(metrics, {})
    assert server._socket.getsockname()[0] == "127.0.0.1"
    address, token = server.url.split("/?token=")
    headers = {"authorization": f"Bearer {token}"}
    with stream("GET", f"{address}/events", headers=headers) as events:
        next(events.iter_lines())
        server.stop()
        assert not server._thread.is_alive()
    with socket.socket() as probe:
        assert probe.connect_ex(("127.0.0.1", server.port)) != 0


def test_a_port_that_is_taken_is_told(server, metrics):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(OSError, match="in use"):
            Server(metrics, {}, taken.getsockname()[1])


# ---- contents of the page ----------------------------------------------------------------------


def test_a_long_run_is_shown_in_few_points_that_lose_no_row():
    metrics = SessionMetrics()
    for batch in range(900):
        metrics.take("q", [report(batch, 10)])
    (query,) = view(metrics, {})["queries"]
    assert len(query["points"]) <= MAX_SHOWN
    assert query["rows_in"] == 9000
    assert all(point["in"] >= 0 for point in query["points"])


def test_a_clock_that_is_set_forward_is_no_silence(metrics, monkeypatch):
    later = time.time() + 3_600
    monkeypatch.setattr("sfumato.live.view.time.time", lambda: later)
    (shown,) = view(metrics, {})["queries"]
    assert shown["said"] == []


def test_silence_and_failures_are_said_in_words(metrics):
    (query,) = metrics.queries()
    query.reported_monotonic -= 240
    (shown,) = view(metrics, {"q": About(target=0.05)})["queries"]
    assert shown["said"][0]["text"] == "no micro-batch for 4 minutes: no source has delivered rows"
    assert shown["target"] == 0.05
    metrics.ended("q", "disk full")
    (shown,) = view(metrics, {})["queries"]
    assert [one["text"] for one in shown["said"]] == ["failed: disk full"]
