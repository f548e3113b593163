"""What a program's source refers to: the program with typed tools, and advice on its errors."""

from collections.abc import Mapping

from toolgate.errors import ProgramError
from toolgate.gateway.listing.program_offer import ProgramOffer
from toolgate.gateway.meta_tools import DEFINITIONS, ProgramArguments
from toolgate.gateway.parts import GatewayContext
from toolgate.gateway.programs.helpers import HELPER_FUNCTIONS
from toolgate.gateway.programs.names import (
    advice_on,
    function_names,
    module_name,
    named_functions,
    without_fence,
    words_of,
)
from toolgate.gateway.programs.saved import check_inputs, main_of
from toolgate.gateway.programs.type_stubs import host_function
from toolgate.models.sandboxes import HostFunction, HostModule, Program, ProgramLimits
from toolgate.types import Caller, Json


class ProgramPreparation:
    """Relates the sources of programs to the tools that their callers may use."""

    def __init__(self, context: GatewayContext, offer: ProgramOffer) -> None:
        self._catalog = context.catalog
        self._visible = context.visible
        self._offer = offer
        self._names: tuple[int, Mapping[str, str]] = (-1, {})

    @property
    def names(self) -> Mapping[str, str]:
        """The keys of all tools, by `module.function`."""
        snapshot = self._catalog.snapshot
        if self._names[0] != snapshot.version:
            names = function_names(tool.shown_key for tool in snapshot.tools)
            self._names = (snapshot.version, names)
        return self._names[1]

    def program(self, caller: Caller, request: ProgramArguments) -> Program:
        """The program, with the modules and functions that its source may refer to.

        Raises:
            ProgramError: Its function `main` does not have these inputs.
        """
        words = words_of(request.code)
        modules: dict[str, list[HostFunction]] = {}
        for name, key in self.names.items():
            module, _, function = name.partition(".")
            if module not in words:
                continue
            functions = modules.setdefault(module, [])
            entry = self._visible.tool_or_none(caller, key) if function in words else None
            if entry is not None:
                functions.append(host_function(name, entry.definition, entry.digest))
        rules = self._offer.rules
        code = without_fence(request.code)
        main = main_of(code)
        if main is not None:
            check_inputs(main, request.inputs)
        return Program(
            code=f"{code}\nreturn await main(**inputs)" if main is not None else code,
            inputs=request.inputs,
            modules=tuple(HostModule(name=n, functions=tuple(f)) for n, f in modules.items()),
            functions=HELPER_FUNCTIONS,
            # Without tools nothing can be left half done, so type errors may surface at run time.
            is_checked=bool(modules),
            limits=ProgramLimits(
                run_s=rules.run_s, memory_mb=rules.memory_mb, steps=4 * rules.max_calls + 100
            ),
        )

    def advised(self, caller: Caller, code: str, error: ProgramError) -> ProgramError:
        """The error of a program, with what to do about a name that it does not have."""
        servers = self._visible.servers(caller, self._catalog.snapshot)
        modules = [module_name(server) for server in servers]
        problem = f"{error.failed} {error.allowed}"
        names = self.names.items()
        advice = advice_on(
            problem,
            code,
            modules,
            DEFINITIONS,
            lambda: (name for name, key in names if self._visible.tool_or_none(caller, key)),
        )
        if not advice or error.is_waiting:
            return error
        failed = error.failed if error.failed.endswith(".") else f"{error.failed}."
        hint = f"{advice} {error.hint}".rstrip()
        advised = ProgramError(failed, detail=error.detail, allowed=error.allowed, hint=hint)
        advised.stage = error.stage
        return advised

    def tools_named(self, caller: Caller, program: Program) -> Json:
        """The `tools/call` result that lists the tools which a program names."""
        lines: list[str] = []
        named = named_functions(program.code)
        for module in program.modules:
            for function in module.functions:
                if named is not None and not named.may_call(module.name, function.name):
                    continue
                key = self.names[f"{module.name}.{function.name}"]
                entry = self._visible.tool_or_none(caller, key)
                if entry is None:
                    continue
                writes = "may destroy" if entry.destructive else "writes"
                kind = "reads" if entry.read_only else writes
                lines.append(f"{module.name}.{function.name} ({kind})")
        text = "\n".join(lines) or "The program names no tool."
        return {"content": [{"type": "text", "text": text}], "structuredContent": {"tools": lines}}
