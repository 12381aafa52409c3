"""Servers that tests start themselves, and a Spark session with the connectors to them."""

import pytest

from servers.jars import NoRegistryError
from servers.kafka_broker import KafkaBroker


@pytest.fixture(scope="session")
def kafka(tmp_path_factory):
    """Return the address of a real broker; skip if its jars cannot be downloaded."""
    try:
        with KafkaBroker(tmp_path_factory.mktemp("kafka")) as broker:
            yield broker.address
    except NoRegistryError as error:
        pytest.skip(f"no Kafka: {error}")
