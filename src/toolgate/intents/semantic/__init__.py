"""The classifier that learns intents from example prompts."""
