"""The definitions in a listing that a model may be shown."""

from collections.abc import Mapping
from typing import Final, TypeAlias

from toolgate.types import EntryKind, Json
from toolgate.upstream import Listing

EntryId: TypeAlias = tuple[EntryKind, str]
"""Kind and name of a definition; a URI or URI template replaces a missing name."""

INSTRUCTIONS: Final[EntryId] = ("instructions", "instructions")
"""Id of the instructions of a server, of which there is one text."""


def listed_definitions(listing: Listing) -> Mapping[EntryId, Json]:
    """Return every definition of a listing as the server sent it, tools first."""
    lists: tuple[tuple[EntryKind, str, tuple[Json, ...]], ...] = (
        ("tool", "name", listing.tools),
        ("prompt", "name", listing.prompts),
        ("resource", "uri", listing.resources),
        ("template", "uriTemplate", listing.templates),
    )
    definitions: dict[EntryId, Json] = {
        (kind, str(definition.get(member) or "")): definition
        for kind, member, entries in lists
        for definition in entries
    }
    if listing.instructions.strip():
        definitions[INSTRUCTIONS] = {"instructions": listing.instructions}
    return definitions
