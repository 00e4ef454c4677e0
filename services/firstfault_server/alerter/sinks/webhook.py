"""Webhook by the Standard Webhooks specification: signed, timed, and guarded against private networks."""

import datetime
import email.utils
import math

import httpx
from standardwebhooks import Webhook

from firstfault_server import ports
from firstfault_server.alerter.messages import webhook_id
from firstfault_server.alerter.sinks import Outcome
from firstfault_server.alerter.sinks.addresses import RefusedAddress, Resolver, check_url, checked_addresses, resolve

MAX_RETRY_AFTER_S = 86_400.0


class WebhookSink:
    """Posts messages to URLs."""

    def __init__(self, timeout_s: float = 15.0, resolver: Resolver = resolve, user_agent: str = "firstfault") -> None:
        self._timeout_s = timeout_s
        self._resolver = resolver
        # No redirects, no proxies: what was checked is what is connected to. No kept connections: addresses are checked each time.
        self._http = httpx.AsyncClient(
            timeout=timeout_s, follow_redirects=False, trust_env=False, limits=httpx.Limits(max_keepalive_connections=0),
            headers={"user-agent": user_agent, "content-type": "application/json", "accept": "*/*"},
        )  # fmt: skip

    async def send(self, destination: ports.Destination, message: ports.Message, now_ns: int) -> Outcome:
        """Try once within the time-out; the answer's body is not read."""
        import asyncio

        try:
            async with asyncio.timeout(self._timeout_s):
                return await self._send(destination, message, now_ns)
        except RefusedAddress as error:
            return Outcome(error=str(error))
        except TimeoutError:
            return Outcome(error=f"no answer within {self._timeout_s:g} s")
        except (httpx.HTTPError, httpx.InvalidURL, OSError, UnicodeError) as error:
            return Outcome(error=f"{type(error).__name__}: {error}")

    async def _send(self, destination: ports.Destination, message: ports.Message, now_ns: int) -> Outcome:
        parts = check_url(destination.url)
        host = parts.hostname or ""
        port = parts.port or (443 if parts.scheme == "https" else 80)
        addresses = await checked_addresses(host, port, destination.allow_private, self._resolver)
        headers = {**signature(destination.secret, message, now_ns), "host": parts.netloc}
        for place, address in enumerate(addresses, start=1):
            target = httpx.URL(destination.url).copy_with(host=address, port=port)
            request = self._http.build_request(
                "POST", target, content=message.body, headers=headers, extensions={"sni_hostname": host, **_timeouts(self._timeout_s)}
            )
            try:
                response = await self._http.send(request, stream=True)
            except (httpx.ConnectError, httpx.ConnectTimeout):
                if place == len(addresses):
                    raise
                continue
            try:
                return outcome(response.status_code, response.headers.get("retry-after"), now_ns)
            finally:
                await response.aclose()
        raise OSError(f"no address of {host} answers")

    async def close(self) -> None:
        """Close the client."""
        await self._http.aclose()


def _timeouts(timeout_s: float) -> dict[str, dict[str, float]]:
    return {"timeout": {"connect": min(timeout_s, 5.0), "read": timeout_s, "write": timeout_s, "pool": timeout_s}}


def signature(secret: str, message: ports.Message, now_ns: int) -> dict[str, str]:
    """The three headers of the specification."""
    seconds = now_ns // 1_000_000_000
    moment = datetime.datetime.fromtimestamp(seconds, datetime.timezone.utc)
    signed = Webhook(secret).sign(msg_id=webhook_id(message), timestamp=moment, data=message.body.decode("utf-8"))
    return {"webhook-id": webhook_id(message), "webhook-timestamp": str(seconds), "webhook-signature": signed}


def outcome(status: int, retry_after: str | None, now_ns: int) -> Outcome:
    """What an answer means: 2xx delivered, 410 never again, anything else (redirects too) a failure to be tried again."""
    if 200 <= status < 300:
        return Outcome(delivered=True, status=status)
    return Outcome(
        status=status, error=f"the receiver answered {status}", retry_after_s=retry_after_s(retry_after, now_ns), gone=status == 410
    )


def retry_after_s(header: str | None, now_ns: int) -> float | None:
    """Seconds of a Retry-After header (a number or a date), at most a day; None when it says nothing usable."""
    if not header:
        return None
    try:
        seconds = float(header)
    except ValueError:
        try:
            moment = email.utils.parsedate_to_datetime(header)
        except ValueError:
            return None
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=datetime.timezone.utc)
        seconds = moment.timestamp() - now_ns / 1e9
    return min(max(seconds, 0.0), MAX_RETRY_AFTER_S) if math.isfinite(seconds) else None
