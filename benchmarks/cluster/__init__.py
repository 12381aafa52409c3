"""A Spark standalone cluster on this machine: a master and workers as separate processes.

    python -m benchmarks.cluster check                # the first look, a kill, skew, a hot key
    python -m benchmarks.cluster growth               # time and state by rows, keys, windows
    python -m benchmarks.cluster archive FILE.tar.gz  # this environment, to be shipped with a job

All processes listen on loopback, on free ports. The machines share a folder for checkpoints and
answers; the workers' own files are in its subfolder `work`.
"""
