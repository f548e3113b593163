"""Live variables for rules, from the `variables.py` of packs.

A pack's `variables.py` has one function, sync or async:

```python
from toolgate import Context


def variables(context: Context) -> dict[str, str]:
    return {"ACTIVE_SOLUTION": open_solution(context.settings)}
```
"""

import inspect
import logging
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final, cast

import anyio
from anyio import to_thread

from toolgate.packs.base import Pack
from toolgate.packs.modules import PackModules
from toolgate.types import Caller
from toolgate.upstream import ToolContext, ToolServices

log = logging.getLogger(__name__)

_FILE: Final = "variables.py"


class LiveVariables:
    """The live variables of all packs; unchanged packs are not loaded again."""

    def __init__(self, services: Callable[[Pack], ToolServices]) -> None:
        """Create live variables.

        Args:
            services: Returns what the code of a pack may use.
        """
        self._services = services
        self._sources: dict[str, _PackVariables] = {}

    def sources(self, packs: Iterable[Pack]) -> "Mapping[str, _PackVariables]":
        """Return the sources of live variables, by pack, for packs that have some."""
        before, self._sources = self._sources, {}
        for pack in packs:
            if not (pack.folder / _FILE).is_file():
                continue
            source = before.get(pack.name)
            if source is None or source.version != (pack.folder, pack.fingerprint):
                source = _PackVariables(pack, self._services)
            self._sources[pack.name] = source
        for name, old in before.items():
            if self._sources.get(name) is not old:
                old.forget()
        return dict(self._sources)

    def forget(self) -> None:
        """Unload the code."""
        self.sources(())


class _PackVariables:
    """The live variables of one version of a pack; its code runs on first use."""

    def __init__(self, pack: Pack, services: Callable[[Pack], ToolServices]) -> None:
        self.version: tuple[Path, str] = (pack.folder, pack.fingerprint)
        self._pack = pack
        self._services = services
        self._modules = PackModules(pack.name, pack.folder)
        self._function: Callable[..., Any] | None = None
        self._is_broken = False
        self._loading = anyio.Lock()

    async def __call__(self, caller: Caller, names: Collection[str]) -> Mapping[str, str]:
        """Return the current values; none if the code cannot be used, which is logged once."""
        del names  # one call returns all variables
        function = await self._loaded()
        if function is None:
            return {}
        context = ToolContext(
            caller=caller, peer=None, sink=None, services=self._services(self._pack)
        )
        call = partial(function, context) if inspect.signature(function).parameters else function
        values: object = (
            call()
            if inspect.iscoroutinefunction(function)
            else await to_thread.run_sync(call, abandon_on_cancel=True)
        )
        if inspect.isawaitable(values):
            values = await values
        mapping = cast("dict[object, object]", values) if isinstance(values, dict) else {}
        return {str(name): str(value) for name, value in mapping.items() if value is not None}

    def forget(self) -> None:
        """Unload the modules."""
        self._modules.forget()

    async def _loaded(self) -> Callable[..., Any] | None:
        async with self._loading:
            if self._function is None and not self._is_broken:
                path = self._pack.folder / _FILE
                try:
                    module = await to_thread.run_sync(self._modules.load, path)
                    self._function = module.variables
                except (Exception, SystemExit) as error:  # noqa: BLE001 - code of others
                    self._is_broken = True
                    reason = f"{type(error).__name__}: {error}"
                    log.warning("variables of a pack left out: %s: %s", path, reason)
        return self._function
