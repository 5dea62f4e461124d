"""Stand-in: merges mappings."""


class OmegaConf:
    @staticmethod
    def create(value):
        return value

    @staticmethod
    def set_struct(config, flag):
        assert flag is False

    @staticmethod
    def merge(*parts):
        merged = {}
        for part in parts:
            for key, value in part.items():
                both = isinstance(value, dict) and isinstance(merged.get(key), dict)
                merged[key] = OmegaConf.merge(merged[key], value) if both else value
        return merged
