"""Applies the content of packs: intents, rules, live variables, protected files."""

from collections.abc import Callable
from dataclasses import dataclass

from toolgate.app.factories.intents import IntentParts
from toolgate.databases.connections import SchemaHistory
from toolgate.gateway.execution import Protection, Protections
from toolgate.intents.rules import PackRules
from toolgate.packs import LiveVariables, PackSet, intent_set_of, with_live_names


@dataclass(frozen=True)
class _Connected:
    """The properties of the connected databases that packs depend on."""

    tables: tuple[str, ...] = ()
    """Names of tables and their types."""

    is_any: bool = False
    """Whether any database is connected."""


class PackUpdates:
    """Keeps intents, rules and protections up to date with packs and databases."""

    def __init__(
        self,
        packs: Callable[[], PackSet],
        *,
        schemas: SchemaHistory,
        intents: IntentParts,
        live_variables: LiveVariables,
        protections: Protections,
    ) -> None:
        """Create the updater without applying anything.

        Args:
            packs: Returns the active packs.
            schemas: The databases whose tables packs can refer to.
            intents: Receives the intents and rules.
            live_variables: Receives the variables that packs compute.
            protections: Receives the files that packs protect.
        """
        self._packs = packs
        self._schemas = schemas
        self._intents = intents
        self._live_variables = live_variables
        self._protections = protections
        self._connected = _Connected()

    async def start(self) -> None:
        """Apply the packs for the databases known so far."""
        self._connected = await self._read_connected()
        self.apply()

    async def refresh_tables(self) -> bool:
        """Apply the packs again if the databases have changed. Returns whether they have."""
        connected = await self._read_connected()
        if connected == self._connected:
            return False
        self._connected = connected
        self.apply()
        return True

    def apply(self) -> None:
        """Activate the current packs.

        Intents and rules of tools that are missing because no database is connected are left
        out: they would only mislead.
        """
        tables = {"tables": self._connected.tables}
        packs = [with_live_names(pack, tables) for pack in self._packs().packs]
        has_connections = self._connected.is_any
        ready = [pack for pack in packs if has_connections or "connections" not in pack.needs]
        not_ready = [pack for pack in packs if pack not in ready]
        rules = [
            PackRules(
                pack=pack.name,
                rules=pack.rules,
                variables=pack.variables,
                out_of_context=pack.out_of_context,
            )
            for pack in ready
        ]
        recognizer = self._intents.recognizer
        intent_set = intent_set_of(ready, not_ready)
        if intent_set != recognizer.intent_set:
            recognizer.replace_intents(intent_set, soon=any(entry.rules for entry in rules))
        self._intents.rulebook.replace_rules(rules, self._live_variables.sources(packs))
        self._protections.take(
            Protection(pack=pack.name, suffixes=pack.protected, hint=pack.protection)
            for pack in packs
        )

    async def _read_connected(self) -> _Connected:
        names = await self._schemas.names()
        return _Connected(names, is_any=bool(self._schemas.connections))
