"""`make setup-torch`: makes the torch environment and prints its folder."""

import sys

from tests.faults import torch_env

if __name__ == "__main__":
    try:
        print(torch_env.ensure())
    except torch_env.TorchUnavailable as error:
        sys.exit(f"setup-torch: {error}")
