"""Whether a load balancer should send requests to this process."""

from toolgate.app.app import App
from toolgate.types import DEFAULT_PROJECT


def unready_reason(app: App) -> str:
    """Why requests should go to another replica; empty if this one is ready.

    Names no server, since anyone may ask.
    """
    if app.gateway.servers.has_unlisted():
        return "Tools of servers that are starting are not known yet."
    is_failing = app.recorder.status().failing_since is not None
    if is_failing and app.permissions.is_closed(DEFAULT_PROJECT):
        return "Calls are refused because the audit log cannot be written."
    return ""
