"""A Spark standalone cluster on this machine: a master and workers as processes of their own.

    python -m benchmarks.cluster up FOLDER [--workers 2]     # prints the master's address
    python -m benchmarks.cluster submit FOLDER JOB.py [...]  # spark-submit to it
    python -m benchmarks.cluster check                # the first look, a kill, skew, a hot key
    python -m benchmarks.cluster scaling                     # 1 and 2 executors
    python -m benchmarks.cluster archive FILE.tar.gz         # this environment, to be shipped
    python -m benchmarks.cluster down FOLDER

Everything listens on loopback at ports that are free. FOLDER is what the machines of a cluster
share: checkpoints and answers go there; the workers' own files lie below `FOLDER/work`.
"""
