"""The command line: run, watch, explain, check; sessions, pipeline files, the Java runtime.

`main` is the command, `commands` has its parts; other files are named after what they do for one.
Nothing imports this package; users call `sfumato`.
"""
