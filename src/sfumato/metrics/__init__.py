"""What running queries did and how they stand: gathered from Spark's reports, for whoever shows it.

`progress` reads a report, `figures` keeps those of all queries of a session, `names` says what each
figure is called; `prometheus` and `lines` write them, `serve` makes them to be fetched.
"""
