"""Creating optimizers without importing torch's compiler.

``torch.optim.Optimizer`` wraps four of its methods in ``torch._disable_dynamo``, whose first call imports
``torch._dynamo``, even in a program that compiles nothing. Measured: two seconds of every start (docs/update_step.md).

If this module is removed, results stay the same and every uncompiled run starts two seconds later; the test is
``test_a_run_imports_only_what_it_needs``. If a later torch renames the attribute, the same
happens: the wrapper ignores an attribute it does not know.
"""

import torch as th

DISABLED_FUNCTION = "__dynamo_disable"
"""Attribute in which ``torch._disable_dynamo`` caches the function that it returns for a wrapped one."""

METHODS = ("add_param_group", "load_state_dict", "state_dict", "zero_grad")


def skip_compiler_import() -> None:
    """Mark the wrapped methods of ``Optimizer`` as already disabled for the compiler.

    Process-wide, and safe as long as no compiled code calls these methods; rlher compiles losses only.
    """
    for name in METHODS:
        method = getattr(getattr(th.optim.Optimizer, name), "__wrapped__", None)
        if method is not None and not hasattr(method, DISABLED_FUNCTION):
            setattr(method, DISABLED_FUNCTION, method)
