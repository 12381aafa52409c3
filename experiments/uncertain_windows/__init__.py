"""Count windows over tuples that may not exist, and joins over them: figures 4 to 15.

Modules named `plain_...`, or as the paper names them, are its own algorithms as it describes them.
Open: the list EXPERIMENTS of each module, which `experiments.catalogue` collects.
"""
