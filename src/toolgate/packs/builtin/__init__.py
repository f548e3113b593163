"""The packs that ship: folders like those that anyone can write."""
