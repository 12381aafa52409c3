"""Settings of a Spark session for streaming state in Python."""

STATE_STORE = "spark.sql.streaming.stateStore"
MANAGERS = "org.apache.spark.sql.execution.streaming.checkpointing"


def settings(cores: int | None = None, *, local_disk: bool = False) -> dict[str, str]:
    """Return settings for queries with state, as ``SparkSession.builder.config`` accepts them.

    Parameters
    ----------
    cores
        Number of cores in the whole cluster, which becomes the number of shuffle partitions; each
        partition costs about 30 ms per micro-batch. By default, this number is not set. With 16 or
        more cores, also set ``spark.sfumato.buckets`` (default 32) to twice the number of cores.
    local_disk
        Whether checkpoints are on a local disk: they are then committed by renaming files, which is
        faster. Do not set `local_disk` for object stores.

    Returns
    -------
    Settings by name: state in RocksDB, which the operators require, written as a changelog; no
    count of all state rows in every micro-batch; times in UTC; a Unix socket to Python workers; and
    operators with large arguments, such as the repository of `impute`, on streams. The last two
    (``spark.python...`` and ``spark.broadcast...``) must be set before the session starts; the
    others can also be set on a running session with ``spark.conf.set``. Only `run_to_end` changes
    a setting, while it runs.

    Raises
    ------
    ValueError
        If `cores` is not an integer of at least 1.

    Notes
    -----
    Cost: none; nothing is started.

    Examples
    --------
    >>> sf.ops.settings(cores=4)["spark.sql.shuffle.partitions"]
    '4'
    """
    chosen = {
        f"{STATE_STORE}.providerClass": (
            "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
        ),
        f"{STATE_STORE}.rocksdb.changelogCheckpointing.enabled": "true",
        f"{STATE_STORE}.rocksdb.trackTotalNumberOfRows": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.python.unix.domain.socket.enabled": "true",
        "spark.broadcast.UDFCompressionThreshold": "256m",
    }
    if cores is not None:
        if not isinstance(cores, int) or isinstance(cores, bool) or cores < 1:
            raise ValueError(f"`cores` must be an integer of at least 1; got {cores!r}")
        chosen["spark.sql.shuffle.partitions"] = str(cores)
    if local_disk:
        manager = f"{MANAGERS}.FileSystemBasedCheckpointFileManager"
        chosen["spark.sql.streaming.checkpointFileManagerClass"] = manager
    return chosen
