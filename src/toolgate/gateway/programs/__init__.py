"""Programs of models: their tools as typed functions, their runs, and those that wait."""

from toolgate.gateway.programs.service import ProgramService

__all__ = ["ProgramService"]
