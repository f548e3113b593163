"""The packs that ship with Toolgate, in the same format as packs that others write."""
