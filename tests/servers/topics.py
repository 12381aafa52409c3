"""Topics of a broker, written and read to the end without Spark."""

from collections.abc import Iterable

from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

PATIENCE = 60.0  # seconds for a response


def written(
    address: str, topic: str, messages: Iterable[tuple[int, str | bytes]], partitions: int
) -> None:
    """Create a topic and write (partition, value) to it, with the value's length as a header.

    Each is written once and in this order, even if the broker is so busy that some are sent again.
    """
    admin = AdminClient({"bootstrap.servers": address})
    for made in admin.create_topics([NewTopic(topic, partitions, 1)]).values():
        made.result(PATIENCE)
    producer = Producer(
        {
            "bootstrap.servers": address,
            "queue.buffering.max.messages": 1_000_000,
            "enable.idempotence": True,
        }
    )
    for partition, value in messages:
        headers = [("length", str(len(value)).encode())]
        raw = value if isinstance(value, bytes) else value.encode()
        producer.produce(topic, raw, partition=partition, headers=headers)
        producer.poll(0)
    assert producer.flush(PATIENCE) == 0


def ends(address: str, topic: str) -> int:
    """Return the number of messages that were ever in a topic."""
    consumer = Consumer({"bootstrap.servers": address, "group.id": "tests"})
    try:
        return sum(
            consumer.get_watermark_offsets(place, PATIENCE)[1] for place in _places(consumer, topic)
        )
    finally:
        consumer.close()


def read(address: str, topic: str) -> list[tuple[str | None, str]]:
    """Return all (key, value) in a topic."""
    consumer = Consumer({"bootstrap.servers": address, "group.id": "tests"})
    try:
        places = _places(consumer, topic)
        left = sum(consumer.get_watermark_offsets(place, PATIENCE)[1] for place in places)
        consumer.assign(places)
        found: list[tuple[str | None, str]] = []
        while len(found) < left:
            message = consumer.poll(PATIENCE)
            assert message is not None, f"{topic} gave {len(found)} of {left} messages"
            assert message.error() is None, message.error()
            key = message.key()
            found.append((None if key is None else key.decode(), message.value().decode()))
        return found
    finally:
        consumer.close()


def _places(consumer: Consumer, topic: str) -> list[TopicPartition]:
    known = consumer.list_topics(topic, PATIENCE).topics[topic].partitions
    return [TopicPartition(topic, number, OFFSET_BEGINNING) for number in known]
