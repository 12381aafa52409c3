"""The command line: run, watch, explain, check; sessions, pipeline files, the Java runtime.

`main` defines the command and its subcommands; each other file is named after its task. No other
package imports this one: users call `sfumato`.
"""
