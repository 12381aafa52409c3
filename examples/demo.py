"""Late flights put in order of their timetable, and frost at two airports: real streams on Spark.

    make demo                        sets everything up first
    python -m examples.demo          from the root of the repository; needs sfumato[demo]
    python -m examples.demo --watch  also shows a live page in the browser; needs sfumato[watch]

The demo runs both streams to their end and prints the results: how many rows came too late and how
long the others waited, compared with fixed watermarks, and the pairs of similar hours.
"""

import time
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import typer
from pyspark.sql import DataFrame, SparkSession
from rich.console import Console
from rich.table import Table

import sfumato as sf
from examples.demo_data import AIRPORTS, HOURS, DemoData, NoDataError, write_data
from examples.demo_kernels import compile_kernels
from experiments.disorder.waiting import Waiting, fixed_watermark, least_slack, waiting
from sfumato.cli.configure import NoJavaError
from sfumato.cli.main import Cores, Verbose, failed
from sfumato.cli.output import Log
from sfumato.cli.pipeline.environment import RedactingConsole
from sfumato.cli.pipeline.model import PipelineError, Sink
from sfumato.cli.run import RunView, follow, serve_run
from sfumato.cli.session import command_session
from sfumato.cli.sink_query import SinkQuery, start_sink
from sfumato.live.view import About

DROP_RATIO = 0.01
BY_TIMETABLE = """
SELECT carrier, flight, origin, scheduled, departed, late
FROM flights [WATTR scheduled ARRIVAL departed DRATIO 1% ESTIMATOR CONFORMAL]
"""
GUESS = 60 * 60_000_000  # an hour, in microseconds: a plausible guess

# Assumed standard deviations of the readings' errors. The specification of the stations (ASOS)
# allows a root mean square error of 0.9 °F for thermometers. Barometers are accurate to 0.02 inches
# of mercury, which is 0.68 hPa.
TEMP_ERROR, PRESSURE_ERROR = 0.9, 0.7
SAMPLES = 16
FREEZING = 32.0  # °F
WITHIN, PROBABILITY = 3.0, 0.8
WINDOW = sf.Rows(24, confidence=0.95)
FLIGHTS_PER_BATCH, HOURS_PER_BATCH = 40_000, 4_500
WATCHED = 4  # number of parts of a micro-batch when it is watched
SHOWN = 5


def main(
    rows: Annotated[
        int | None, typer.Option(min=1000, help="Number of flights to replay; default: the year.")
    ] = None,
    watch: Annotated[
        bool, typer.Option("--watch", help="Show both in the browser; Ctrl-C ends the demo.")
    ] = False,
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port; 0 for any free port.")] = 0,
    cores: Cores = None,
    verbose: Verbose = False,
) -> None:
    """Put late flights in order, and find similar frost at two airports, on Spark."""
    console = RedactingConsole()
    with TemporaryDirectory(prefix="sfumato-demo-") as folder:
        prepared = prepare(Path(folder), rows)
        try:
            with (
                command_session(console, cores, verbose, short=True) as spark,
                serve_run(console, port if watch else None) as view,
            ):
                code = run_demo(spark, console, Path(folder), prepared, view if watch else None)
        except (NoDataError, NoJavaError, PipelineError) as error:
            raise failed(error) from None
    raise typer.Exit(code)


def prepare(folder: Path, rows: int | None) -> Future[DemoData]:
    """Write the data and compile the kernels in the background, while Spark starts."""

    def work() -> DemoData:
        data = write_data(folder, rows)
        compile_kernels()
        return data

    pool = ThreadPoolExecutor(1)
    future = pool.submit(work)
    pool.shutdown(wait=False)
    return future


def run_demo(
    spark: SparkSession,
    console: RedactingConsole,
    folder: Path,
    prepared: Future[DemoData],
    view: RunView | None = None,
) -> int:
    """Run both streams on Spark at the same time, print the results, and return the exit code.

    view : receives the metrics of both, for the page
    """
    began = time.monotonic()
    with console.status("Writing the year's flights and weather; compiling kernels the first time"):
        data = prepared.result()
    _introduce(console, data)
    running = start_streams(spark, data, folder, 1 if view is None else WATCHED)
    if view is not None:
        view.about[running[0].name] = About(BY_TIMETABLE.strip(), target=DROP_RATIO)
        for query in running:
            query.metrics = view.metrics
    for query in running:  # start both, so that they run at the same time
        query.start()
    code = follow(running, Log(console, is_live=console.is_terminal))
    is_over = not any(query.interrupted for query in running)
    if is_over and code == 0:
        flights, weather = running
        tell_flights(console, data, spark.read.parquet(str(folder / flights.name)), flights)
        tell_weather(console, spark, data, spark.read.parquet(str(folder / weather.name)), weather)
        console.print(f"\nBoth streams and these answers: {time.monotonic() - began:.0f} s.")
    if view is not None and is_over:
        console.print("The page stays until Ctrl-C.")
        with suppress(KeyboardInterrupt):
            while True:
                time.sleep(1)
    return code


def start_streams(
    spark: SparkSession, data: DemoData, folder: Path, parts: int = 1
) -> list[SinkQuery]:
    """Return the two queries, flights and weather; their answers are written to Parquet files.

    parts : number of parts into which a micro-batch is cut, for the watch page
    """
    spark.dataSource.register(sf.ops.ReplaySource)
    flights = replay(spark, data.flights, "departed", FLIGHTS_PER_BATCH // parts)
    flights.createOrReplaceTempView("flights")
    ordered = sf.sql(spark, BY_TIMETABLE)
    assert not isinstance(ordered, list)
    hours = replay(spark, data.weather, "time_hour", HOURS_PER_BATCH // parts)
    frames = {"flights": ordered, "similar frost": similar_frost(hours)}
    starter = partial(start_sink, folder=str(folder / "checkpoint"), once=True)
    return [
        SinkQuery(_sink(name, folder), name, [frame], starter) for name, frame in frames.items()
    ]


def _sink(name: str, folder: Path) -> Sink:
    return Sink(name=name, query=name, format="parquet", path=str(folder / name))


def replay(spark: SparkSession, file: Path, order: str, rows: int) -> DataFrame:
    """Return a file as a stream, in order of arrival."""
    reader = spark.readStream.format("replay").option("order", order)
    return reader.option("rows_per_batch", rows).load(str(file))


def readings(hours: DataFrame) -> DataFrame:
    """Return hours with their readings as alternatives; NULL where a reading is missing."""
    names = ["temp", "pressure"]
    uncertain = sf.samples(names, [TEMP_ERROR, PRESSURE_ERROR], SAMPLES, attributes=names)
    return hours.withColumn("alternatives", uncertain).drop(*names)


def similar_frost(hours: DataFrame) -> DataFrame:
    """Return freezing hours at one airport similar to a recent freezing hour at the other."""
    ordered = sf.reorder(hours, event_time="time_hour", arrival="time_hour", slack=0)
    frost = sf.where(sf.split_invalid(readings(ordered))[0], f"temp <= {FREEZING}")
    left, right = (frost.where(f"origin = '{airport}'") for airport in AIRPORTS)
    return sf.similarity_join(
        left,
        right,
        on=["temp", "pressure"],
        within=WITHIN,
        probability=PROBABILITY,
        window=WINDOW,
        order="time_hour",
    )


def _introduce(console: Console, data: DemoData) -> None:
    console.print(
        f"[bold]1. Flights by timetable.[/bold] {len(data.departed):,} departures from New York "
        f"in 2013 arrive in the order of their actual departure, together with {data.cancelled:,} "
        "cancelled flights. They are put back into the order of the timetable. At most "
        f"{DROP_RATIO:.0%} of them may arrive too late for this order:"
    )
    console.print(BY_TIMETABLE, style="cyan", highlight=False)
    console.print(
        f"[bold]2. Similar frost.[/bold] {data.readings:,} hourly readings of {AIRPORTS[0]} and "
        f"{AIRPORTS[1]}. Thermometers have an error (standard deviation {TEMP_ERROR} °F is "
        f"assumed), and so do barometers ({PRESSURE_ERROR} hPa). Each reading is replaced by "
        f"{SAMPLES} equally likely values, so an hour near {FREEZING:.0f} °F is freezing with some "
        f"probability. Which freezing hours were alike, within {WITHIN:.0f} °F and hPa, with at "
        f"least {PROBABILITY:.0%} probability, among the newest {WINDOW.rows} freezing hours of "
        "each airport?\n"
    )


def tell_flights(console: Console, data: DemoData, answers: DataFrame, query: SinkQuery) -> None:
    """Print the drop ratio and the waiting time, compared with fixed watermarks."""
    punctuation = sf.engine_free.Punctuator(DROP_RATIO, estimator="conformal").extend(
        data.scheduled, data.departed
    )
    ours = waiting(data.scheduled, data.departed, punctuation)
    slack = least_slack(data.scheduled, ours.late)
    table = Table(title="1. Flights by timetable", title_justify="left", header_style="dim")
    table.add_column("punctuation")
    for column in ("too late", "mean wait", "99% wait less than"):
        table.add_column(column, justify="right")
    for name, result in (
        ("sfumato, drop ratio 1%", ours),
        (f"fixed watermark {minutes(slack)}, chosen afterwards", _fixed(data, slack)),
        (f"fixed watermark {minutes(GUESS)}, a guess", _fixed(data, GUESS)),
    ):
        table.add_row(name, f"{result.drop_ratio:.2%}", minutes(result.mean), minutes(result.p99))
    console.print()
    console.print(table)
    late = answers.where("late and departed is not null").count()
    agree = "yes" if late == ours.late else f"[red]no, {ours.late:,} here[/red]"
    counted = query.progress
    console.print(
        f"{counted.rows_out - late - data.cancelled:,} of {counted.rows_in:,} rows were emitted "
        f"in order, {late:,} marked late, {data.cancelled:,} marked as having no departure, and "
        f"{counted.held or 0:,} still wait for later flights, which are not in the data. No row is "
        "lost. A wait is the time, on the flights' clock, from a departure to the departure that "
        "releases it. Waits are computed in memory by the controller that ran on Spark; is the "
        f"number of late rows the same? {agree}. A fixed watermark stays the given time behind the "
        "newest scheduled time. The first fixed watermark is the shortest with at most the same "
        "number of late rows; this time is known only afterwards."
    )


def _fixed(data: DemoData, slack: int) -> Waiting:
    return waiting(data.scheduled, data.departed, fixed_watermark(data.scheduled, slack))


def tell_weather(
    console: Console, spark: SparkSession, data: DemoData, answers: DataFrame, query: SinkQuery
) -> None:
    """Print the best pairs, their number, and the guarantees."""
    best = (
        answers.selectExpr(
            "left.time_hour as a",
            "right.time_hour as b",
            "aggregate(alternatives, 0D, (s, x) -> s + x.prob * x.left_temp) / probability as ta",
            "aggregate(alternatives, 0D, (s, x) -> s + x.prob * x.right_temp) / probability as tb",
            "probability",
        )
        .orderBy("probability", "a", "b", ascending=[False, True, True])
        .limit(SHOWN)
        .collect()
    )
    table = Table(title="2. Similar frost", title_justify="left", header_style="dim")
    for airport in AIRPORTS:
        table.add_column(f"{airport}, hour (UTC)")
        table.add_column("°F", justify="right")
    table.add_column("probability", justify="right")
    for pair in best:
        hours = f"{pair.a:%d %b %H:%M}", f"{pair.b:%d %b %H:%M}"
        one, other = f"{pair.ta:.1f}", f"{pair.tb:.1f}"
        table.add_row(hours[0], one, hours[1], other, f"{pair.probability:.3f}")
    console.print()
    console.print(table)
    rejected = sf.split_invalid(readings(spark.read.parquet(str(data.weather))))[1].count()
    console.print(
        f"{answers.count():,} pairs; these are the most probable. The probability, exact for the "
        "alternatives, is that both hours froze, that they were alike, and that the earlier one "
        f"was still among the newest {WINDOW.rows} that froze. The hours kept for an airport "
        f"include {WINDOW.rows} that really froze with at least {WINDOW.confidence:.0%} "
        f"confidence, although it is not known which. {rejected:,} hours have no reading and "
        f"were set aside, not guessed{_absent(data)}."
    )


def _absent(data: DemoData) -> str:
    if not data.whole_year:
        return ""
    absent = len(AIRPORTS) * HOURS - data.readings
    return f"; {absent:,} hours of the year have no record at all"


def minutes(microseconds: float) -> str:
    return f"{microseconds / 60e6:,.0f} min"


if __name__ == "__main__":
    typer.run(main)
