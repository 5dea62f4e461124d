"""Stand-in: merges mappings."""

from contextlib import contextmanager


@contextmanager
def open_dict(config):
    yield config


class OmegaConf:
    @staticmethod
    def create(value):
        return value

    @staticmethod
    def merge(*parts):
        merged = {}
        for part in parts:
            for key, value in part.items():
                both = isinstance(value, dict) and isinstance(merged.get(key), dict)
                merged[key] = OmegaConf.merge(merged[key], value) if both else value
        return merged
