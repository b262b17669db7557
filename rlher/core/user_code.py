"""Code that a config names: ``module:name``, or ``{module:Class: {argument: value}}`` in a list.

rlher's own choices, such as algorithms and priorities, have such paths as well, and also short names. rlher imports a
choice when it is used, so that a table of choices can be read without importing torch.

A key may name code if its declaration says so (``names_code`` in :class:`rlher.config.key.KeyRules`).
"""

import contextlib
import functools
import importlib
import inspect
import os
import sys
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from types import ModuleType
from typing import Any

from rlher.core.errors import UserError, describe_error, did_you_mean, first_line


def import_module(module: str, key: str = "env.modules") -> ModuleType:
    """Import a module that the user named. The module may be in the current folder.

    :param key: config key that names the module, for messages.
    :raises UserError: the module cannot be imported.
    """
    # The current folder is searched last, and only for a module that is not installed. Its path is absolute, because
    # the current folder of a worker process may be another one.
    if os.getcwd() not in sys.path and not _is_found(module.partition(".")[0]):
        sys.path.append(os.getcwd())
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:  # the module, or a module that it imports, is missing
        advice = "install it, or set PYTHONPATH to its folder"
        raise UserError(f"{key}={module!r} cannot be imported: {first_line(error)}; {advice}.") from error
    except (Exception, SystemExit) as error:  # SystemExit: a script without a main guard
        raise UserError(f"{key}={module!r} cannot be imported: {describe_error(error)}.") from error


def _is_found(name: str) -> bool:
    with contextlib.suppress(ValueError):  # a module without a spec, such as __main__, or an invalid name
        return find_spec(name) is not None
    return False


def import_object(key: str, name: str, base_class: type | None = None) -> Any:
    """Return what ``module:name`` names.

    :param key: config key or argument that has the name, for messages.
    :param base_class: required base class, or None if any function or class will do.
    :raises UserError: there is no such name, the module cannot be imported, or the object is of another kind.
    """
    module, _, attribute = name.rpartition(":")
    if not all(part.isidentifier() for part in (*module.split("."), attribute)):
        raise UserError(f"{key}={name} is not valid; use module:name of your own.")
    imported = import_module(module, key)
    if not hasattr(imported, attribute):
        public = [variable for variable in vars(imported) if not variable.startswith("_")]
        has = did_you_mean(attribute, public) or f"; it has {', '.join(public[:20])}"
        raise UserError(f"{key}: {module} has no {attribute}{has}.")
    value = getattr(imported, attribute)
    fits = callable(value) if base_class is None else isinstance(value, type) and issubclass(value, base_class)
    if not fits:  # a function in place of a class could be os.system
        what = "a function or class" if base_class is None else f"a subclass of {base_class.__name__}"
        raise UserError(f"{key}: {name} is not {what}; check the spelling.")
    return value


def resolve_object(key: str, name: Any, table: Mapping[str, Any], base_class: type | None = None) -> Any:
    """Return the entry of a table, or what ``module:name`` names. A function or class stands for itself.

    :param key: config key or argument that has the name, for messages.
    :param base_class: as in :func:`import_object`.
    :raises ValueError: the table has no such name.
    :raises UserError: as in :func:`import_object`.
    """
    if callable(name):
        return name
    if ":" in str(name):
        return import_object(key, name, base_class)
    if name not in table:
        raise ValueError(f"{key}={name!r} is unknown; use {', '.join(table)}.")
    return table[name]


def bind_arguments(key: str, function: Callable[..., Any], kwargs: Mapping[str, Any]) -> Callable[..., Any]:
    """Return a function with its keyword arguments bound, or an instance of a class made with them.

    :param function: a class, or a function that takes one more argument.
    :param key: config key that names the function, for messages.
    :raises UserError: the arguments do not fit.
    """
    try:
        if isinstance(function, type):
            return function(**kwargs)
        inspect.signature(function).bind(None, **kwargs)
    except Exception as error:
        name = getattr(function, "__name__", function)
        raise UserError(f"{key}: {name} cannot be used with its arguments {kwargs}: {first_line(error)}.") from error
    return functools.partial(function, **kwargs) if kwargs else function


def instantiate(key: str, entry: Any, base_class: type | None, *arguments: Any) -> Any:
    """Import and call the class named by ``logger``, or by an entry of ``env.wrappers`` or ``callbacks``.

    :param key: config key, for messages.
    :param base_class: required base class, or None if any function or class will do.
    :param arguments: positional arguments, before the entry's keyword arguments.
    :raises UserError: the class cannot be imported, is not a subclass of ``base_class``, or raises.
    """
    path, kwargs = parse_class(key, entry)
    function = import_object(key, path, base_class)
    try:
        return function(*arguments, **kwargs)
    except Exception as error:
        raise UserError(f"{key}: {path} cannot be built ({describe_error(error)}).") from error


def parse_class(key: str, entry: Any) -> tuple[str, dict[str, Any]]:
    """Return the ``module:Class`` and keyword arguments of an entry. RL Zoo's ``module.Class`` is accepted as well.

    :raises UserError: the entry has another form.
    """
    path, kwargs = next(iter(entry.items())) if isinstance(entry, dict) and len(entry) == 1 else (entry, None)
    module, _, name = str(path).rpartition(":" if ":" in str(path) else ".")
    is_path = isinstance(path, str) and all(part.isidentifier() for part in (*module.split("."), name))
    if not is_path or not isinstance(kwargs, dict | None):
        forms = "module:Class or {module:Class: {key: value}}"
        raise UserError(f"{key}={entry!r} does not name a class; write {forms}.")
    return f"{module}:{name}", kwargs or {}
