"""Static frames: rows sorted by Spark and fed to operators in batches of bounded size.

`whole_frames` is the only module; `runtime` calls it for frames that are not streams. No state is
saved: each bucket is processed from its first row to its last.
"""
