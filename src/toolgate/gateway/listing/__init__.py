"""What clients see when they list, what decides it, and notifications of its changes."""

from toolgate.gateway.listing.changes import Change, ChangeNotifier
from toolgate.gateway.listing.policy import ListingPolicy
from toolgate.gateway.listing.prompts_and_resources import NOTHING, ContentService
from toolgate.gateway.listing.searching_clients import searching_clients
from toolgate.gateway.listing.service import ListingService, ToolView

__all__ = [
    "NOTHING",
    "Change",
    "ChangeNotifier",
    "ContentService",
    "ListingPolicy",
    "ListingService",
    "ToolView",
    "searching_clients",
]
