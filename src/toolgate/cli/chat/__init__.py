"""Commands for chat, conversations, prompts and documents."""
