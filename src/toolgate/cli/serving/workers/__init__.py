"""Several gateways on one port of this machine: a supervisor, its workers, their messages."""
