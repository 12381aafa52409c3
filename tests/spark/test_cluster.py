"""A standalone cluster of a master and two workers, each in a separate process."""

import pytest

from benchmarks.cluster.checks import checked
from benchmarks.cluster.standalone import Cluster
from benchmarks.data.streams import readings_of_three
from spark_classes import quick_starts

FILES, ROWS = 6, 200


@pytest.mark.nightly
@pytest.mark.spark
@pytest.mark.timeout(300)
def test_a_cluster_gives_the_answers_of_one_machine_also_when_a_worker_dies(tmp_path):
    with Cluster(tmp_path, java=quick_starts()) as cluster:
        found = checked(cluster, readings_of_three(FILES * ROWS, 3), FILES)
        executors = cluster.executors()
    assert not any(process.alive() for process in cluster.processes.values())
    for part, outcome in found.items():
        assert (outcome["lost"], outcome["doubled"]) == (0, 0), part
        assert outcome["answers"] > 0, part
    assert found["stream"]["killed in micro-batch"] is not None
    assert len(executors) >= 3, "the worker that was killed had an executor, and so has its heir"
    assert '"l": 1, ' in found["first_look"]["pairs"][0]


def test_what_is_ended_is_only_what_was_started(tmp_path):
    from benchmarks.cluster.standalone import Running, born

    here = born(1)
    assert Running("other", 1, here).alive()
    assert not Running("earlier process of that number", 1, "0" + here).alive()
    assert not Running("none", 2**30, "1").alive()
