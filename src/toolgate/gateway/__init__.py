"""The gateway: all operations that clients can request, each with its stages in order."""
