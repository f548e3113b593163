"""Who may do what, and with which credentials."""
