"""Wait until a stream has read all available input."""


def process_all_available(query):
    """Call Spark's method of this name twice: it may return after a look at the sources that
    started before the newest files were there."""
    for _ in range(2):
        query.processAllAvailable()
