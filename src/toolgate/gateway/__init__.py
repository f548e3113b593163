"""The gateway: every operation a client can ask for, in the order in which the stages run."""
