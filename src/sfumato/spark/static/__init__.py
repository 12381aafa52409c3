"""Static frames: Spark sorts their rows, operators take them batch by batch and keep no state.

Open to `runtime`.
"""
