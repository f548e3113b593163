"""Commands for chats, prompts and documents."""
