"""Link-layer fields that local applications, such as routing daemons, use."""

from __future__ import annotations

import asyncio

import pytest

import packets
import pyndn
from packets import Wire, command, elements, interest, nni, register_parameters, tlv
from router import Router

FLAGS, MASK = 0x6C, 0x70
INCOMING_FACE_ID, NEXT_HOP_FACE_ID, CACHE_POLICY, CACHE_POLICY_TYPE = 0x032C, 0x0330, 0x0334, 0x0335
LOCAL_FIELDS_ON = tlv(packets.CONTROL_PARAMETERS, tlv(FLAGS, b"\x01"), tlv(MASK, b"\x01"))


def lp_fields(raw: list[tuple[int, bytes]], kind: int) -> list[dict[int, bytes]]:
    """The link-layer fields of each received packet of one kind. A packet without a link header is {FRAGMENT: ...}."""
    found = []
    for outer, value in raw:
        fields = dict(elements(value)) if outer == packets.LP_PACKET else {packets.FRAGMENT: tlv(outer, value)}
        inner = elements(fields.get(packets.FRAGMENT, b""))
        if packets.NACK not in fields and inner and inner[0][0] == kind:
            found.append(fields)
    return found


@pytest.fixture
def application(router: Router):
    with Wire(router.unix) as wire:
        assert wire.status(command("faces/update", LOCAL_FIELDS_ON)) == 200
        yield wire


async def test_incoming_face_id_tells_where_an_interest_came_from(router: Router, application: Wire):
    assert application.status(command("rib/register", register_parameters("/daemon"))) == 200
    with Wire(router.unix) as first, Wire(router.unix) as second:
        first.send(interest("/daemon/1"))
        second.send(interest("/daemon/2"))
        first.send(interest("/daemon/3"))
        received = await asyncio.to_thread(application.receive, 0.5)
    faces = [int.from_bytes(fields[INCOMING_FACE_ID], "big") for fields in lp_fields(received, packets.INTEREST)]
    assert len(faces) == 3
    assert len(set(faces)) == 2
    assert all(face >= 256 for face in faces)


async def test_no_incoming_face_id_unless_asked_for(router: Router):
    with Wire(router.unix) as application, Wire(router.unix) as client:
        assert application.status(command("rib/register", register_parameters("/app"))) == 200
        client.send(interest("/app/1"))
        [fields] = lp_fields(await asyncio.to_thread(application.receive, 0.5), packets.INTEREST)
        assert INCOMING_FACE_ID not in fields


async def test_next_hop_face_id_overrides_routes(router: Router, application: Wire):
    with Wire(router.unix) as routed, Wire(router.unix) as chosen:
        assert routed.status(command("rib/register", register_parameters("/choice"))) == 200
        assert chosen.status(command("rib/register", register_parameters("/elsewhere"))) == 200
        # An Interest from `chosen` shows its face id.
        assert application.status(command("rib/register", register_parameters("/who"))) == 200
        chosen.send(interest("/who/am/i"))
        [fields] = lp_fields(await asyncio.to_thread(application.receive, 0.5), packets.INTEREST)
        face = int.from_bytes(fields[INCOMING_FACE_ID], "big")

        application.send(tlv(
            packets.LP_PACKET, tlv(NEXT_HOP_FACE_ID, nni(face)), tlv(packets.FRAGMENT, interest("/choice/1"))))
        assert len(lp_fields(await asyncio.to_thread(chosen.receive, 0.5), packets.INTEREST)) == 1
        assert lp_fields(await asyncio.to_thread(routed.receive, 0.3), packets.INTEREST) == []


async def test_no_cache_policy_keeps_data_out_of_the_store(router: Router, application: Wire):
    assert application.status(command("rib/register", register_parameters("/nocache"))) == 200
    policy = tlv(CACHE_POLICY, tlv(CACHE_POLICY_TYPE, b"\x01"))
    with Wire(router.unix) as client:
        for _ in range(2):
            client.send(interest("/nocache/1"))
            received = await asyncio.to_thread(application.receive, 0.3)
            assert len(lp_fields(received, packets.INTEREST)) == 1, "asked each time"
            application.send(tlv(
                packets.LP_PACKET, policy, tlv(packets.FRAGMENT, packets.data("/nocache/1", b"x"))))
            assert len(lp_fields(await asyncio.to_thread(client.receive, 0.3), packets.DATA)) == 1


async def test_a_stream_is_never_fragmented(router: Router):
    """python-ndn and ndnd reject fragments, so streams carry even the largest packets whole."""
    content = bytes(8500)
    async with pyndn.current(router.unix) as server:
        server.attach_handler("/whole", lambda _n, _p, reply, _c: reply(packets.data("/whole", content)))
        assert await server.register("/whole")
        with Wire(router.tcp) as client:
            client.send(interest("/whole"))
            received = await asyncio.to_thread(client.receive, 0.5)
            [fields] = lp_fields(received, packets.DATA)
            assert packets.FRAG_COUNT not in fields
