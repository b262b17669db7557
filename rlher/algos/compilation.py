"""``torch.compile`` for the losses, with a fallback to uncompiled code. Uncompiled runs do not import the compiler."""

import platform
import shutil
from collections.abc import Callable
from typing import Any

import torch as th

from rlher.core.console import warn
from rlher.core.errors import describe_error


def compile_with_fallback(function: Callable) -> Callable:
    """Return ``function``, to be compiled on its first call; if a compiled call fails, warn and use ``function``.

    :param function: function without in-place changes, so that it can be called again after a failure.
    """
    used: Callable | None = None

    def call(*args: Any) -> Any:
        nonlocal used
        try:
            used = used or _compile(function)
            return used(*args)
        except Exception as error:  # of compiler, linker or torch; `function` raises its own error below
            if used is function:
                raise
            reason = describe_error(error)
        # This call is outside of `except`, so that the failed call's tensors are freed first.
        result = function(*args)
        used = function
        warn(f"losses are not compiled ({reason}).")
        return result

    return call


def _compile(function: Callable) -> Callable:
    from torch._inductor import config as inductor

    # Torch calls openssl when it precompiles headers. Without openssl it could not compile at all.
    inductor.cpp_cache_precompile_headers &= shutil.which("openssl") is not None
    # Torch knows x86's vector instructions without test programs: TQC then compiles in 45 s of CPU time, not 53 to 69.
    if inductor.cpp.vec_isa_ok is None and platform.machine() in ("x86_64", "AMD64"):
        inductor.cpp.vec_isa_ok = True
    config = th._dynamo.config
    if hasattr(config, "trace_autograd_ops"):  # newer torch: loss and gradients in one graph
        config.trace_autograd_ops = True
    return th.compile(function, dynamic=False)


def skip_compiler_import() -> None:
    """Keep optimizers from importing torch's compiler, in a process that compiles nothing.

    ``torch.optim.Optimizer`` wraps four methods in ``torch._disable_dynamo``. The first call imports ``torch._dynamo``,
    in each process that builds a model: a run of 60 steps takes 14 s in place of 9. This function marks the methods as
    already wrapped, so torch calls them directly. This is safe as long as no compiled code calls them, and rlher
    compiles losses only. If a later torch renames the attribute, runs start later, and results stay the same.
    """
    for name in ("add_param_group", "load_state_dict", "state_dict", "zero_grad"):
        method = getattr(getattr(th.optim.Optimizer, name), "__wrapped__", None)
        if method is not None and not hasattr(method, "__dynamo_disable"):
            setattr(method, "__dynamo_disable", method)
