"""Many top-k queries over one uncertain window: figures 7 to 17 and table 9 of that paper.

Modules named `plain_...`, or as the paper names them, are its own algorithms as it describes them.
Open: the list EXPERIMENTS of each module, which `experiments.catalogue` collects.
"""
