"""Tools for the workspace as a whole: choosing the solution to work on, and undo."""

from typing import Annotated

from pydantic import Field

from toolgate import Context, tool
from toolgate.packs.builtin.servoy._answers import Text, answer, refusals_as_answers, require_text
from toolgate.packs.builtin.servoy._call_context import ServoyCall, servoy_call

READS = {"readOnlyHint": True, "openWorldHint": False}
CHOOSES = {"readOnlyHint": False, "destructiveHint": False, "idempotentHint": True}
TAKES_BACK = {"readOnlyHint": False, "destructiveHint": True, "openWorldHint": False}


@tool(name="getContext", annotations=READS)
@refusals_as_answers
def get_context(context: Context) -> object:
    """Show which solution or module new objects are created in, and which can be chosen."""
    return _context_answer(servoy_call(context), "")


@tool(name="setContext", annotations=CHOOSES, required=("context",))
@refusals_as_answers
def set_context(call: Context, context: Text = "") -> object:
    """Choose the solution that the tools change: the active one, or one of its modules.

    Args:
        context: "active" for the active solution, or the name of one of its modules.
    """
    require_text("Error: 'context' parameter is required", context)
    current = servoy_call(call)
    target = current.choose_context(context.strip())
    return _context_answer(current, f"Context set to {current.label_of(target.name)}.")


def _context_answer(call: ServoyCall, first: str) -> object:
    workspace = call.workspace
    lines = [
        f"Current context: {call.context_of(call.target.name)} ({call.label_of(call.target.name)})",
        f"Active solution: {workspace.active.name}",
        f"Available: {', '.join(call.contexts)}",
        f"Database servers: {', '.join(call.databases.names) or 'none'}",
        f"Workspace: {workspace.folder}",
    ]
    if workspace.missing_modules:
        lines.append(f"Modules that are not there: {', '.join(workspace.missing_modules)}")
    lines += [module.problem for module in workspace.modules if module.problem]
    return answer(
        "\n".join([first, *lines] if first else lines),
        structured={
            "context": call.context_of(call.target.name),
            "solution": workspace.active.name,
            "available": call.contexts,
            "servers": call.databases.names,
            "workspace": str(workspace.folder),
        },
    )


@tool(name="undo", annotations=TAKES_BACK)
@refusals_as_answers
def undo(context: Context, count: Annotated[int, Field(ge=0, le=20)] = 1) -> object:
    """Take back the latest changes of relations and value lists in this workspace.

    The last 20 changes are remembered, whoever made them through these tools. A file that was
    changed in another way since is left as it is.

    Args:
        count: How many to take back; 0 lists what can be taken back.
    """
    with servoy_call(context).exclusive() as call:
        journal = call.workspace.journal
        if count == 0:
            records = list(reversed(journal.records()))
            lines = [
                f"{number}. {record.summary} ({record.at})"
                for number, record in enumerate(records, 1)
            ]
            return answer("\n".join(lines) or "There is nothing to undo.")
        undone = journal.undo(count)
    if not undone:
        return answer("There is nothing to undo.", is_error=True)
    lines = [f"Undone: {record.summary}" for record in undone]
    return answer(
        "\n".join(lines),
        structured={
            "undone": [
                {
                    "summary": record.summary,
                    "at": record.at,
                    "files": [
                        call.workspace.display_path(change.path) for change in record.changes
                    ],
                }
                for record in undone
            ]
        },
    )
