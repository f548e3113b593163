"""Tools for the workspace as a whole: which solution is worked on, and taking changes back."""

from typing import Annotated

from pydantic import Field

from toolgate import Context, tool
from toolgate.packs.builtin.servoy._answers import Text, answer, answering, needed
from toolgate.packs.builtin.servoy._call_context import Desk, desk_of

READS = {"readOnlyHint": True, "openWorldHint": False}
CHOOSES = {"readOnlyHint": False, "destructiveHint": False, "idempotentHint": True}
TAKES_BACK = {"readOnlyHint": False, "destructiveHint": True, "openWorldHint": False}


@tool(name="getContext", annotations=READS)
@answering
def get_context(context: Context) -> object:
    """Show which solution or module new objects are created in, and which can be chosen."""
    return _told(desk_of(context), "")


@tool(name="setContext", annotations=CHOOSES, required=("context",))
@answering
def set_context(call: Context, context: Text = "") -> object:
    """Choose the solution that the tools change: the active one, or one of its modules.

    Args:
        context: "active" for the active solution, or the name of one of its modules.
    """
    needed("Error: 'context' parameter is required", context)
    desk = desk_of(call)
    target = desk.choose(context.strip())
    return _told(desk, f"Context set to {desk.label_of(target.name)}.")


def _told(desk: Desk, first: str) -> object:
    workspace = desk.workspace
    lines = [
        f"Current context: {desk.context_of(desk.target.name)} ({desk.label_of(desk.target.name)})",
        f"Active solution: {workspace.active.name}",
        f"Available: {', '.join(desk.contexts)}",
        f"Database servers: {', '.join(desk.databases.names) or 'none'}",
        f"Workspace: {workspace.folder}",
    ]
    if workspace.missing_modules:
        lines.append(f"Modules that are not there: {', '.join(workspace.missing_modules)}")
    lines += [each.problem for each in workspace.modules if each.problem]
    return answer(
        "\n".join([first, *lines] if first else lines),
        structured={
            "context": desk.context_of(desk.target.name),
            "solution": workspace.active.name,
            "available": desk.contexts,
            "servers": desk.databases.names,
            "workspace": str(workspace.folder),
        },
    )


@tool(name="undo", annotations=TAKES_BACK)
@answering
def undo(context: Context, count: Annotated[int, Field(ge=0, le=20)] = 1) -> object:
    """Take back the latest changes of relations and value lists in this workspace.

    The last 20 changes are remembered, whoever made them through these tools. A file that was
    changed in another way since is left as it is.

    Args:
        count: How many to take back; 0 lists what can be taken back.
    """
    with desk_of(context).alone() as desk:
        journal = desk.workspace.journal
        if count == 0:
            records = list(reversed(journal.records()))
            lines = [
                f"{number}. {each.summary} ({each.at})" for number, each in enumerate(records, 1)
            ]
            return answer("\n".join(lines) or "There is nothing to undo.")
        undone = journal.undo(count)
    if not undone:
        return answer("There is nothing to undo.", is_error=True)
    lines = [f"Undone: {each.summary}" for each in undone]
    return answer(
        "\n".join(lines),
        structured={
            "undone": [
                {
                    "summary": each.summary,
                    "at": each.at,
                    "files": [desk.workspace.shown(change.path) for change in each.changes],
                }
                for each in undone
            ]
        },
    )
