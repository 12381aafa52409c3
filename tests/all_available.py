"""Wait until a stream has read what is there."""


def process_all_available(query):
    """As Spark's own method, which may return because of a look at the sources that began before
    the newest files were there: the second time it is one that began later."""
    for _ in range(2):
        query.processAllAvailable()
