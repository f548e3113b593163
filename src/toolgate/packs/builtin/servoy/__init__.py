"""The pack `servoy`: solution workspaces on disk, without the IDE."""
