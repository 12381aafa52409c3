"""How long to wait for late tuples: figures 7 and 8 of the paper on disorder control.

Modules named `plain_...`, or as the paper names them, are its own algorithms as it describes them.
Open: the list EXPERIMENTS of each module, which `experiments.catalogue` collects.
"""
