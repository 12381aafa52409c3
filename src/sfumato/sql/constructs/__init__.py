"""Our constructs beside Spark SQL, one a file: what each means and which function it calls.

Open to `sql.plan`.
"""
