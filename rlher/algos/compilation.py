"""``torch.compile`` for the losses, and what to do where it cannot be had."""

import sys
from collections.abc import Callable
from typing import Any

import torch as th
from torch.utils._pytree import tree_map_only

WORTHWHILE = 30_000
"""Updates from which on ``auto`` compiles: 20 to 30 seconds of compiling, at about a millisecond saved an update."""

MARK = "__dynamo_disable"


def decide(wanted: str, updates: int) -> tuple[bool, str]:
    """Decide whether a run compiles its losses.

    :param wanted: ``on``, ``off``, or ``auto`` for where it pays.
    :param updates: how many the run makes.
    :return: the decision and a sentence that says it.
    """
    if wanted == "off":
        return False, "losses not compiled"
    if wanted == "auto" and updates < WORTHWHILE:
        return (
            False,
            f"losses not compiled: {updates:,} updates would not pay it back; engine.compile=on does it anyway",
        )
    compiler = find_compiler()
    if compiler is None:
        return False, "losses not compiled: no C++ compiler found"
    return True, f"losses compiled with {compiler} (kept for the next run)"


def compiled(function: Callable, graph: bool = False) -> Callable:
    """Return the function compiled when it is first called, or as it is once that fails, which one line says.

    :param function: changes nothing in place, so that it can be called again after a failure.
    :param graph: replay it as a CUDA graph: all its kernels at the price of launching one.
    """
    use: Callable | None = None

    def call(*args: Any) -> Any:
        nonlocal use
        if use is function:
            return function(*args)
        try:
            use = use or _compile(function, graph)
            return use(*args)
        except Exception as error:  # whatever compiler, linker or torch found wrong: eager says what the function has
            reason = _reason(error)
        outcome = function(*args)  # out here, where the failed call's tensors are gone
        use = function
        print(f"rlher: not compiled, {reason}", file=sys.stderr)
        return outcome

    return call


def _compile(function: Callable, graph: bool) -> Callable:
    config = th._dynamo.config
    if hasattr(config, "trace_autograd_ops"):  # newer torch: one graph, the gradients in it
        config.trace_autograd_ops = True
    if not graph:
        return th.compile(function, dynamic=False)
    replay = th.compile(function, dynamic=False, mode="reduce-overhead")
    # A replay writes to the memory that the one before returned.
    return lambda *args: tree_map_only(th.Tensor, th.clone, replay(*args))


def leave_compiler_alone() -> None:
    """Let optimisers be made and saved without importing torch's compiler, two of the eight seconds a start takes.

    These methods are marked as not to be compiled, and ask the compiler to see to it at their first call, in a program
    that compiles nothing, too. Nothing here calls them from compiled code.
    """
    for name in ("add_param_group", "load_state_dict", "state_dict", "zero_grad"):
        method = getattr(getattr(th.optim.Optimizer, name), "__wrapped__", None)
        if method is not None and not hasattr(method, MARK):
            setattr(method, MARK, method)  # as torch._compile keeps what the compiler returned


def _reason(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0] if lines else ''}"


def find_compiler() -> str | None:
    """Return the C++ compiler that ``torch.compile`` would call, None where there is none."""
    try:
        from torch._inductor.cpp_builder import get_cpp_compiler

        return get_cpp_compiler()
    except Exception:  # InvalidCxxCompiler, or a torch that keeps it elsewhere
        return None
