"""`toolgate pack`: packs teach intents, rules and tools in plain files."""

from importlib import import_module
from pathlib import Path
from typing import Annotated

import anyio
import typer

from toolgate import builtin
from toolgate.cli._context import shared
from toolgate.cli._door import load_settings
from toolgate.cli._exit import FINE
from toolgate.cli._output import note, print_text
from toolgate.errors import OptionError
from toolgate.packs import Packs, PackState, is_on_by_default
from toolgate.settings import CONFIG_NAME, config_dir, find_config, switch_pack

__all__ = ["app"]

app = typer.Typer(
    help="Make, check, list and switch packs: intents, rules and tools in files.",
    no_args_is_help=True,
)

for _path in sorted(Path(str(builtin.__file__)).parent.glob("*/commands.py")):
    # A pack of ours with commands of its own has them in this file, as `app`.
    _module = import_module(f"toolgate.builtin.{_path.parent.name}.commands")
    app.add_typer(_module.app, name=_path.parent.name)

Name = Annotated[str, typer.Argument(metavar="NAME", help="Name of the pack.")]


@app.command()
def enable(name: Name) -> int:
    """Use a pack; a running gateway takes it within seconds."""
    return anyio.run(_switch, name, True)


@app.command()
def disable(name: Name) -> int:
    """Use a pack no longer; its files stay as they are."""
    return anyio.run(_switch, name, False)


async def _switch(name: str, on: bool) -> int:
    state = await _found(name)
    path = find_config(shared().config) or config_dir() / CONFIG_NAME
    by_default = is_on_by_default(state.name, state.origin)
    done = "Enabled" if on else "Disabled"
    if switch_pack(path, state.name, on=on, by_default=by_default):
        print_text(f"{done} {state.name}: [packs] in {path}.")
    else:
        note(f"{state.name} is {'enabled' if on else 'disabled'} already.")
    for problem in state.problems:
        note(problem)
    return FINE


async def _found(name: str) -> PackState:
    """The pack of this name, in use or not.

    Raises:
        OptionError: There is none.
    """
    packs = Packs(load_settings().packs, cwd=Path.cwd())
    await packs.look()
    states = [state for state in packs.current.states if state.folder.is_dir()]
    state = next((each for each in states if each.name == name), None)
    if state is None:
        raise OptionError(
            f"There is no pack {name!r}.",
            allowed=f"Found: {', '.join(each.name for each in states) or 'none'}.",
            hint="Add its folder to packs.paths, or make one with: toolgate pack new NAME",
        )
    return state
