"""What could not be used, and why: requests that do not parse, records that a stage, the writer or a store did not take."""

import base64
import re

from fastapi import APIRouter
from starlette.responses import Response

from firstfault_server.api import schemas
from firstfault_server.api.access import Reader
from firstfault_server.api.lists import WithPeriod, json_response, listing
from firstfault_server.api.services import WithServices
from firstfault_server.core import model
from firstfault_server.core.documents import Document, rfc3339

router = APIRouter(prefix="/v1/deadletters", tags=["events"])


_OF_NODE = re.compile(r"stage node failed: \w+")


def letter_document(letter: model.DeadLetter) -> Document:
    """One dead letter without its bytes."""
    # A node is of several tenants: what its stage says of a failure may name runs of others.
    of_node = None if letter.signal else _OF_NODE.match(letter.reason)
    return {
        "id": letter.id,
        "received": rfc3339(letter.received_ns),
        "signal": letter.signal,
        "reason": f"{of_node.group()} (the log of the service says more)" if of_node else letter.reason,
        "size": len(letter.data),
    }


@router.get("", response_model=schemas.DeadLetterPage)
def list_dead_letters(services: WithServices, caller: Reader, parameters: WithPeriod) -> Response:
    """What could not be used, received last first."""
    wanted = listing("deadletters", parameters, caller, services, {})
    return wanted.respond(services.context.dead_letters(wanted.query), letter_document)


@router.get("/{letter_id}", response_model=schemas.DeadLetterWithData)
def show_dead_letter(services: WithServices, caller: Reader, letter_id: str) -> Response:
    """One of them with its bytes, base64."""
    letter = services.context.dead_letter(caller.tenant, letter_id)
    return json_response(letter_document(letter) | {"data": base64.b64encode(letter.data).decode("ascii")})
