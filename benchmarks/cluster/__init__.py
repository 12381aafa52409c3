"""A Spark standalone cluster on this machine: a master and workers as separate processes.

    python -m benchmarks.cluster check                # the first look, a kill, skew, a hot key
    python -m benchmarks.cluster growth               # time and state by rows, keys, windows
    python -m benchmarks.cluster archive FILE.tar.gz  # this environment, to be shipped with a job

Everything listens on loopback at ports that are free. What the machines of a cluster share is a
folder: checkpoints and answers go there; the workers' own files are in its subfolder `work`.
"""
