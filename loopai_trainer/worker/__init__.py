"""The processes of a run: attach (the caller), entry and own (the worker), keeper (training's parent)."""
