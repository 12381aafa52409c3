"""Spark settings that streaming state in Python wants, for whoever makes the session."""

STATE = "spark.sql.streaming.stateStore"
MANAGERS = "org.apache.spark.sql.execution.streaming.checkpointing"


def settings(cores: int | None = None, *, local_disk: bool = False) -> dict[str, str]:
    """Settings for queries with state, as ``SparkSession.builder.config`` takes them.

    cores : of the whole cluster; sets one shuffle partition a core: every partition costs some
        30 ms a micro-batch. None: left as it is. A query that goes on from a checkpoint has as many
        partitions as its first start, whatever is set: Spark keeps them; answers are the same.
        From 16 cores on, set ``spark.sfumato.buckets`` (32) to twice their number: keys are hashed
        into so many buckets, the units of work, for as long as the checkpoint lives
    local_disk : checkpoints lie on a local disk: commit them by renaming files, which saves time.
        Not for object stores

    What they do: state in RocksDB, which the operators need, written as a log of changes; no
    count of all state rows in every micro-batch; times in UTC; Python workers reached over a Unix
    socket. The last one only counts before the session starts; the others can also be set on a
    running session with ``spark.conf.set``. The library's functions never change a setting.

    >>> sf.ops.settings(cores=4)["spark.sql.shuffle.partitions"]
    '4'
    """
    chosen = {
        f"{STATE}.providerClass": (
            "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
        ),
        f"{STATE}.rocksdb.changelogCheckpointing.enabled": "true",
        f"{STATE}.rocksdb.trackTotalNumberOfRows": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.python.unix.domain.socket.enabled": "true",
    }
    if cores is not None:
        if not isinstance(cores, int) or isinstance(cores, bool) or cores < 1:
            raise ValueError(f"`cores` must be a whole number of at least 1; got {cores!r}")
        chosen["spark.sql.shuffle.partitions"] = str(cores)
    if local_disk:
        manager = f"{MANAGERS}.FileSystemBasedCheckpointFileManager"
        chosen["spark.sql.streaming.checkpointFileManagerClass"] = manager
    return chosen
