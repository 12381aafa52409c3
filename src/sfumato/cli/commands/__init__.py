"""The commands of `sfumato`, which `sfumato.cli.main` registers: arguments, and what they start.

`shared` has the options and the session that several take. What a command does is in the files and
folders beside this one, imported when it runs. Nothing but `main` imports this folder.
"""
