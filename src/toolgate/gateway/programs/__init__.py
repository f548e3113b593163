"""Programs of models: tools as typed functions, runs, and waiting programs."""

from toolgate.gateway.programs.service import ProgramService

__all__ = ["ProgramService"]
