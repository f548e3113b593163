"""What can be configured: one frozen dataclass per table of `toolgate.toml`.

The reference in `docs/configuration.md` is made from the sentences below the fields. A range in
a sentence is repeated by `between`, which is what `load` checks.
"""
