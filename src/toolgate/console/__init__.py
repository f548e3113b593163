"""The web console at `/console`, in the gateway's process and on its port.

A client of the same verbs and the same decision as every other door. Each page is a module with
`ROUTES`; what they share is in modules with an underscore. Loaded when somebody first asks for it.
"""

from toolgate.console.application import Console

__all__ = ["Console"]
