"""What all servers offer: a frozen, versioned snapshot."""
