"""The command line: demo, run, explain, reproduce; sessions, pipeline files, the Java runtime.

`main` has the commands; the other files are named after what they do for one of them.
Nothing imports this package; users call `sfumato`.
"""
