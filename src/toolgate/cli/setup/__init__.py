"""Commands that set up and maintain an installation."""
