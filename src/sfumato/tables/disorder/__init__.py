"""The disorder controller over Arrow tables, the job of `reorder`, and the release order."""
