"""What `toolgate init` does with the servers of other clients."""
