"""Pages of chat models: threads, documents, prompts, quality of answers."""
