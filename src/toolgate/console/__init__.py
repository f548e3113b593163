"""The web console at `/console`, in the gateway's process and on its port.

It uses the same operations and access checks as all other entry points. Each page is a module in
`pages` with `ROUTES`; shared code is in the other modules. Loaded on the first request.
"""

from toolgate.console.application import Console

__all__ = ["Console"]
