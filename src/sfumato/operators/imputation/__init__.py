"""Missing attributes as distributions, and the dependencies that say how.

Open: Dependency, Imputer, EarlierValues, discover_dependencies.
"""
