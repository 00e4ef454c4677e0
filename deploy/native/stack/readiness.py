"""What a service says of itself at `/readyz`."""

import http.client
import json
import urllib.error
import urllib.request


def unready(address: str) -> str:
    """Why the service at a base address does not work in every part, empty when it does."""
    try:
        with urllib.request.urlopen(f"{address}/readyz", timeout=5) as answer:
            said = answer.read().decode(errors="replace")
    except urllib.error.HTTPError as error:
        with error:
            return f"{error.code} {error.read().decode(errors='replace')[:500]}"
    except (OSError, http.client.HTTPException) as error:
        return str(error) or type(error).__name__
    # A service that can do a part of its work is ready for requests, and says what it cannot.
    return "" if json.loads(said)["status"] == "ok" else said[:500]
