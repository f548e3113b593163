"""Clients that search tools themselves; `searching_clients.toml` lists them with sources."""

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Literal

from pydantic import TypeAdapter

from toolgate.types import Caller


@dataclass(frozen=True, kw_only=True)
class SearchingClient:
    """A client program that searches the tools of its servers."""

    title: str
    """Its name for people."""

    names: tuple[str, ...]
    """Its names in `clientInfo`."""

    since: str = ""
    """First version that certainly searches; empty: any."""

    shows: Literal["names", "nothing"]
    """What its model sees of the tools before it searches."""

    load_at_start: str = ""
    """Member of a tool's `_meta` with which the model sees the tool without a search."""

    source: str
    """Where this is documented."""


@cache
def searching_clients() -> tuple[SearchingClient, ...]:
    """All known clients that search tools themselves."""
    text = (files("toolgate.gateway.listing") / "searching_clients.toml").read_text(
        encoding="utf-8"
    )
    rows = tomllib.loads(text)["client"]
    return TypeAdapter(tuple[SearchingClient, ...]).validate_python(rows)


def searching_client(caller: Caller | None) -> SearchingClient | None:
    """The client program of a caller, if it is known to search tools itself.

    Only what is listed depends on it, since clients may name themselves as they like.
    """
    client = None if caller is None else _by_name().get(caller.client)
    if client is None or caller is None:
        return None
    return client if _numbers(caller.client_version) >= _numbers(client.since) else None


@cache
def _by_name() -> Mapping[str, SearchingClient]:
    return {name: client for client in searching_clients() for name in client.names}


def _numbers(version: str) -> tuple[int, ...]:
    """The numbers that a version begins with; empty if it begins with none."""
    match = re.match(r"\d{1,9}(\.\d{1,9}){0,3}", version)
    return tuple(map(int, match[0].split("."))) if match else ()
