"""The files of a workspace: their notation, reading and writing, references, undo."""
