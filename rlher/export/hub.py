"""Upload of an exported agent to the Hugging Face Hub."""

import re
from pathlib import Path

from rlher.core.errors import UserError, describe_error, require_package


def require_pushable(push: str) -> None:
    """Raise UserError unless ``push`` can name a repository and huggingface_hub is installed."""
    if not re.fullmatch(r"[\w-][\w.-]*(/[\w-][\w.-]*)?", push):
        raise UserError(f"push={push} does not name a repository; write owner/name.")
    require_package("push=...", "huggingface_hub", "hub")


def push_folder(folder: Path, files: list[str], repository: str, message: str) -> str:
    """Create a model repository if it does not exist, commit files of a folder to it, and return its address.

    ``HF_ENDPOINT`` sets the server. The login comes from ``hf auth login`` or ``HF_TOKEN``.

    :raises UserError: the server cannot be reached or refuses.
    """
    from huggingface_hub import HfApi

    api = HfApi()
    try:
        address = str(api.create_repo(repository, exist_ok=True))
        api.upload_folder(repo_id=repository, folder_path=folder, allow_patterns=files, commit_message=message)
    except Exception as error:  # of many kinds: no network, no login, refused by the server
        raise UserError(
            f"cannot push to {repository} ({describe_error(error)}); the export is in {folder}. "
            "Log in with `hf auth login` or set HF_TOKEN, and run the command again when the server can be reached."
        ) from error
    return address
