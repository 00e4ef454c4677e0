"""The REST API seen from the commands: settings, one request at a time, errors as exit statuses."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, Final, TypeAlias
from urllib.parse import quote, urlsplit

import httpx
import typer

from firstfault_server import settings as configuration
from firstfault_server.cli import terminal

UrlOption = Annotated[str | None, typer.Option("--api-url", help="Address of the REST API.", show_default=False)]
Options: TypeAlias = Mapping[str, str]
"""Member of a request -> the option by which people know it."""
NO_OPTIONS: Final[Options] = {}
LIST_OPTIONS: Final[Options] = {"period": "--since"}
TIMEOUT_S = 15.0
EVERYTHING = 1 << 30
"""A limit for lists that are shown whole."""
TRY_TIMEOUT_S = 75.0
"""For an answer that waits for a receiver of pages: `alert_timeout_s` may be up to 60."""
ONLY_DEFAULT = "this is only the default: set FIRSTFAULT_API_URL or --api-url to where the service is"

_KEY: Final = re.compile(r"[!-~]*")
"""What a header takes without a change; blanks and line ends come from copying."""


class Client:
    """Requests to one API; every failure ends the command with its message and status."""

    def __init__(self, url: str, key: str, *, only_default: bool = False) -> None:
        """`only_default`: nobody has said where the API is."""
        self.url = url.rstrip("/")
        self.key = key
        self._origin = f"; {ONLY_DEFAULT}" if only_default else ""
        parts = urlsplit(self.url)
        if parts.scheme not in {"http", "https"} or not parts.hostname:
            terminal.fail(f"the API address {url!r} is not an http or https URL", terminal.EXIT_USAGE)
        if not _KEY.fullmatch(key):
            terminal.fail("the API key (api_key, FIRSTFAULT_API_KEY) has characters that no key has", terminal.EXIT_USAGE)
        local = parts.hostname in {"localhost", "127.0.0.1", "::1"}
        headers = {"authorization": f"Bearer {key}"} if key else {}
        # No connection outlives its request, so that nothing has to be closed when a command ends anywhere.
        limits = httpx.Limits(max_keepalive_connections=0)
        self._http = httpx.Client(base_url=self.url, headers=headers, trust_env=not local, limits=limits)

    def get(self, path: str, accept: Sequence[int] = (), options: Options = NO_OPTIONS, **parameters: Any) -> Any:
        """The JSON document at a path; parameters that are None are left out. `accept` names errors that are answers too."""
        given = {name: value for name, value in parameters.items() if value is not None}
        return self.request("GET", path, parameters=given, accept=accept, options=options)

    def post(self, path: str, body: Any = None, timeout_s: float = TIMEOUT_S, options: Options = NO_OPTIONS) -> Any:
        """Send a JSON body; returns the JSON answer."""
        return self.request("POST", path, body=body, timeout_s=timeout_s, options=options)

    def request(
        self,
        method: str,
        path: str,
        parameters: dict[str, Any] | None = None,
        body: Any = None,
        accept: Sequence[int] = (),
        timeout_s: float = TIMEOUT_S,
        options: Options = NO_OPTIONS,
    ) -> Any:
        """One request; None when the answer has no body. `options` are named in place of what they become."""
        try:
            timeout = httpx.Timeout(timeout_s, connect=TIMEOUT_S)
            response = self._http.request(method, path, params=parameters, json=body, timeout=timeout)
        except httpx.HTTPError as error:
            why = f"{str(error) or type(error).__name__}{self._origin}"
            terminal.fail(f"cannot reach the API at {self.url}: {why}", terminal.EXIT_UNREACHABLE)
        if response.is_success or response.status_code in accept:
            return response.json() if response.content else None
        terminal.fail(_reason(response, options), _status(response.status_code))

    def pages(self, path: str, limit: int, **parameters: Any) -> Iterator[Any]:
        """Up to `limit` items of a list, page by page. Its period is the option `--since` of every command."""
        cursor: str | None = None
        left = limit
        while left > 0:
            page = self.get(path, limit=min(left, 200), cursor=cursor, options=LIST_OPTIONS, **parameters)
            yield from page["items"]
            left -= len(page["items"])
            cursor = page["next_cursor"]
            if cursor is None:
                return


def _status(code: int) -> int:
    if code in {401, 403}:
        return terminal.EXIT_REFUSED
    return terminal.EXIT_UNREACHABLE if code >= 500 else terminal.EXIT_USAGE


def _reason(response: httpx.Response, options: Options) -> str:
    try:
        document = response.json()
        field, colon, rest = str(document["detail"]).partition(": ")
        detail = f"{options.get(field, field)}{colon}{rest}"
        more = "; ".join(f"{_named(str(item['in']), options)}: {item['reason']}" for item in document.get("errors", []))
        where = f" (character {document['position']})" if "position" in document else ""
    except (ValueError, KeyError, TypeError):
        return f"the API answered {response.status_code}"
    return f"{detail}{where}{': ' + more if more else ''} [{response.status_code}]"


def _named(place: str, options: Options) -> str:
    """A place in a request, such as `body.period`, or the option that it comes from."""
    return options.get(place.rpartition(".")[2], place)


def connect(url: str | None, output: str | None) -> tuple[Client, terminal.Form]:
    """A client and the form of output, from flags, variables and the configuration file."""
    try:
        loaded = configuration.load(api_url=url, output=output)
    except configuration.SettingsError as error:
        terminal.fail(str(error), terminal.EXIT_USAGE)
    unset = "api_url" not in loaded.model_fields_set
    return Client(loaded.api_url, loaded.api_key, only_default=unset), terminal.choose(loaded.output)


def segment(text: str) -> str:
    """An id as one segment of a path."""
    return quote(text, safe="")
