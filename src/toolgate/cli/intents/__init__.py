"""Commands for intents and packs."""
