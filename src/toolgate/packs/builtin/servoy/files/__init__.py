"""The files of a workspace: notation, reading and writing, references, undo."""
