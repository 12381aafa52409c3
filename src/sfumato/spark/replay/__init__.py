"""A file played back as a stream.

Open: ReplaySource.
"""
