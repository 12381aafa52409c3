"""3,000 connections that never send a whole request, to a process with at most 1,024 files."""

import resource
import selectors
import socket
import subprocess
import sys
import time
from pathlib import Path

import httpx
import pytest

MANY = 3_000
PATIENCE = 90.0  # seconds
HALF = b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n"


@pytest.fixture
def driver():
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    if before[1] != resource.RLIM_INFINITY and before[1] < MANY + 500:
        pytest.skip(f"a process may open {before[1]} files here; {MANY + 500} are needed")
    resource.setrlimit(resource.RLIMIT_NOFILE, (MANY + 500, before[1]))
    command = [sys.executable, str(Path(__file__).with_name("half_open.py"))]
    how = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, text=True, **how) as process:
        yield process
        process.kill()
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


def files(driver):
    """Return how many of 200 files the driver can open, and how many it has open."""
    driver.stdin.write("?\n")
    driver.stdin.flush()
    can_open, has = map(int, driver.stdout.readline().split())
    return can_open, has


def answers(get):
    """Return the status of a request, retried for PATIENCE seconds; None without an answer."""
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until:
        try:
            return get().status_code
        except httpx.HTTPError:
            time.sleep(0.2)
    return None


@pytest.mark.nightly
@pytest.mark.parametrize("to", ["page", "metrics"])
def test_half_open_connections_leave_the_driver_its_files_and_the_page_answers_again(driver, to):
    url, metrics = driver.stdout.readline().split()
    address, token = url.split("/?token=")
    port = int(address.rpartition(":")[2]) if to == "page" else int(metrics)
    before = files(driver)[1]
    found = []
    with selectors.DefaultSelector() as ready:
        for number in range(MANY):
            one = socket.socket()
            one.setblocking(False)
            one.connect_ex(("127.0.0.1", port))
            ready.register(one, selectors.EVENT_WRITE)
            found.append(one)
            if number % 50 == 0:
                _send(ready)
                assert files(driver)[0] == 200
        until = time.monotonic() + 5
        while time.monotonic() < until:
            _send(ready)
            can_open, has = files(driver)
            assert can_open == 200
            assert has < before + 150
    ask = {"authorization": f"Bearer {token}"}
    how = {"headers": ask, "timeout": 5.0, "trust_env": False}
    assert answers(lambda: httpx.get(f"{address}/state", **how)) == 200
    assert answers(lambda: httpx.get(f"http://127.0.0.1:{metrics}/metrics", **how)) == 200
    for one in found:
        one.close()
    until = time.monotonic() + PATIENCE
    while files(driver)[1] > before + 8 and time.monotonic() < until:
        time.sleep(0.2)
    assert files(driver)[1] <= before + 8
    driver.kill()
    assert driver.stderr.read() == ""


def _send(ready):
    """Send half a request on each connection that is established."""
    for key, _ in ready.select(0):
        ready.unregister(key.fileobj)
        try:
            key.fileobj.send(HALF)
        except OSError:
            continue
