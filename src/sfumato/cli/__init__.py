"""The command line: its commands, sessions, pipeline files, and the Java runtime.

`main` defines the command `sfumato` and its subcommands. No other package imports this package.
"""
