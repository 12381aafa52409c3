"""The downloads of the tests of servers. Run as a program, this fetches all of them in advance:

PYTHONPATH=tests python -m servers.fetched    # `make fetched`, in parallel with computations
"""

import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from servers.jars import NoRegistryError, jars
from servers.other_pyspark import other_pyspark
from sfumato.cli.pipeline.permissions import CONNECTORS

PYSPARK_OF_DELTA = "4.2.1"  # the version for which the connector is released
KAFKA = "org.apache.kafka:kafka_2.13:4.2.0"
KAFKA_CONNECTOR = "org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0"
AVRO = "org.apache.spark:spark-avro_2.13:4.1.1"


def all_jars() -> None:
    for one in (KAFKA, KAFKA_CONNECTOR, AVRO, CONNECTORS["delta"]):
        jars(one)


def fetch_all() -> bool:
    """Return whether everything is available; tests skip themselves if their part is missing."""

    def fetched(part: Callable[[], object]) -> bool:
        try:
            part()
        except NoRegistryError as error:
            print(error, file=sys.stderr)
            return False
        return True

    parts = (all_jars, lambda: other_pyspark(PYSPARK_OF_DELTA))
    with ThreadPoolExecutor() as pool:
        return all(pool.map(fetched, parts))


if __name__ == "__main__":
    fetch_all()
