"""A process with few files that serves a page and metrics and prints how many it can still open."""

import os
import resource
import sys
from contextlib import ExitStack

from sfumato.live.server import Server
from sfumato.metrics.exporters import served
from sfumato.metrics.session_metrics import SessionMetrics


def opened() -> int:
    """Return how many of 200 files can be opened."""
    with ExitStack() as stack:
        for count in range(200):
            try:
                stack.enter_context(open(os.devnull))
            except OSError:
                return count
    return 200


resource.setrlimit(resource.RLIMIT_NOFILE, (1024, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
with served(SessionMetrics(), port=0) as port:
    server = Server(SessionMetrics(), {})
    print(server.url, port, flush=True)
    for _ in sys.stdin:
        print(opened(), len(os.listdir("/proc/self/fd")), flush=True)
