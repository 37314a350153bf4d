"""The passes: each a frozen dataclass whose fields are its options, `run(program) -> program`, pure. The order is pipeline.py's."""
