"""Whether torch can use a device."""

import io

import torch as th

from rlher.core.errors import UserError, first_line


def validate_device(device: str) -> None:
    """Raise UserError unless torch can store numbers on a device, save them, load them there and read them."""
    if device == "auto":
        return
    content = io.BytesIO()
    try:
        th.save(th.ones(1, device=device), content)
        content.seek(0)
        th.load(content, map_location=device, weights_only=True).tolist()
    except (RuntimeError, AssertionError) as error:
        reason = first_line(error).partition(". ")[0]
        raise UserError(f"device={device} cannot be used here ({reason}); use device=auto or device=cpu.") from error
