"""Shared fixtures: the folder of real data sets, one Spark session, and Hypothesis profiles."""

import os
from collections import Counter
from contextlib import chdir
from itertools import chain
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

import spark_classes

ROOT = Path(__file__).resolve().parents[1]

# Spark's workers must find the modules that tests share where this process does.
SHARED = os.pathsep.join([str(ROOT / "tests"), os.environ.get("PYTHONPATH", "")])
os.environ["PYTHONPATH"] = SHARED.rstrip(os.pathsep)

# A test's JVM lives for a minute, most of which is its start.
os.environ.setdefault(spark_classes.OPTIONS, spark_classes.quick_starts())

settings.register_profile(
    "sfumato",
    derandomize=True,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
# `make nightly` draws all cases, `make test` half of them, `make check` a fifth.
settings.register_profile("half", settings.get_profile("sfumato"), max_examples=50)
settings.register_profile("fifth", settings.get_profile("sfumato"), max_examples=20)
settings.load_profile("sfumato")


def pytest_addoption(parser):
    parser.addoption(
        "--warm",
        action="store_true",
        help="Compile ahead with sf.ops.warm_up(); what a test of a query still compiles fails it.",
    )
    parser.addoption("--times", type=Path, help="Write the seconds of every test to this file.")


def pytest_terminal_summary(terminalreporter):
    """Write the seconds of every test and its fixtures to the file of `--times`."""
    file = terminalreporter.config.getoption("--times")
    if file is None:
        return
    reports = chain.from_iterable(terminalreporter.stats.values())
    timed = [report for report in reports if hasattr(report, "duration")]
    timed.sort(key=lambda report: -report.duration)
    file.parent.mkdir(parents=True, exist_ok=True)
    lines = (f"{test.duration:8.2f} {test.when:8} {test.nodeid}\n" for test in timed)
    file.write_text("".join(lines))


def pytest_collection_modifyitems(items):
    """Mark tests that use the Spark session as Spark tests, and run long files first.

    Processes take tests file by file: a long file at the end would keep one process busy alone.
    Files with Spark or nightly tests come first, then files with the most tests.
    """
    for item in items:
        if "spark" in getattr(item, "fixturenames", ()):
            item.add_marker("spark")
    marks = ("spark", "nightly")
    long = {item.path for item in items if any(map(item.get_closest_marker, marks))}
    tests = Counter(item.path for item in items)
    items.sort(key=lambda item: (item.path not in long, -tests[item.path], item.path))


@pytest.fixture(scope="session")
def warm(request) -> bool:
    """Return whether all kernels were compiled ahead."""
    if request.config.getoption("--warm"):
        import sfumato as sf

        sf.ops.warm_up()
        return True
    return False


@pytest.fixture(autouse=True)
def nothing_is_compiled(request, warm):
    """Check that no query compiles anything after a warm-up; see `sfumato.warmup`.

    Tests that call kernels directly, and experiments, are exempt.
    """
    room = request.path.relative_to(ROOT / "tests").parts[0]
    if not warm or room in ("kernels", "experiments"):
        yield
        return
    from sfumato.kernels.compile import compile_counts

    before = compile_counts().compiled
    yield
    assert compile_counts().compiled[len(before) :] == (), "sf.ops.warm_up() must compile this too"


@pytest.fixture(scope="session")
def data_folder() -> Path:
    """Return the folder of real data sets (`SFUMATO_DATA` or `../shared/data`), or skip."""
    folder = Path(os.environ.get("SFUMATO_DATA", ROOT.parent / "shared" / "data"))
    if not folder.is_dir():
        pytest.skip(f"no real data sets: {folder} is not a folder (set SFUMATO_DATA to theirs)")
    return folder


@pytest.fixture(scope="session")
def spark_folder(tmp_path_factory) -> Path:
    """Return the folder in which Spark's JVM is started, to which Spark's paths are relative."""
    return tmp_path_factory.mktemp("spark")


@pytest.fixture(scope="session")
def spark(spark_folder):
    """Yield one real Spark session for all tests, configured as the command line does it."""
    from sfumato.cli.session import session

    with chdir(spark_folder):
        spark = session("sfumato tests", short=True)
    yield spark
    spark.stop()
