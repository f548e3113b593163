"""Tools of a pack that are programs: `programs/NAME.py`, which the sandbox runs."""

import hashlib
import inspect
from pathlib import Path
from typing import Any

from toolgate.base.pack_files import PackFile
from toolgate.errors import ProgramError
from toolgate.gateway.programs.saved import SavedProgram, read_saved
from toolgate.types import Json
from toolgate.upstream import FunctionTool, ToolContext

__all__ = ["PROGRAM_META", "program_tool"]

PROGRAM_META = "toolgate/program"
"""Member of a tool's `_meta`: the hash of its program, and the version of its pack. With another
program it is another definition, which the quarantine and approvals see."""


def program_tool(path: Path, version: str) -> FunctionTool:
    """The tool of a file, named after it.

    Args:
        path: The file.
        version: That of its pack; empty: it has none.

    Raises:
        SyntaxError: The file is no Python.
        PackError: Its `main` cannot be described as a tool.
    """
    saved = read_saved(PackFile(path).text)
    program: Json = {"sha256": hashlib.sha256(saved.code.encode()).hexdigest()}
    if version:
        program["version"] = version
    return FunctionTool(_function(saved), name=path.stem, meta={PROGRAM_META: program})


def _function(saved: SavedProgram) -> Any:
    """A function with the signature of the program."""

    async def run(context: ToolContext, **inputs: Any) -> Json:
        try:
            return await context.run_program(saved.code, inputs)
        except ProgramError as error:  # for the model, and no fault of the pack
            return {"content": [{"type": "text", "text": str(error)}], "isError": True}

    context = inspect.Parameter("context", inspect.Parameter.KEYWORD_ONLY, annotation=ToolContext)
    parameters = [*saved.signature.parameters.values(), context]
    signature = saved.signature.replace(parameters=parameters)
    run.__doc__ = saved.description
    run.__annotations__ = {name: p.annotation for name, p in signature.parameters.items()}
    run.__annotations__["return"] = signature.return_annotation
    vars(run)["__signature__"] = signature
    return run
