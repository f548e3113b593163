"""How a command reaches a gateway: a running one, or one of its own."""
