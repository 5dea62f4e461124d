"""Hides matplotlib from the workers of flow tests: drawing costs a second of CPU a run and is tested elsewhere."""

raise ImportError("matplotlib is hidden from flow tests")
