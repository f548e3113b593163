"""Engines that run the steps of a turn. One file per engine."""
