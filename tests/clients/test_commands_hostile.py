"""Commands that the router must refuse and count: replayed, forged, or from other hosts."""

import time
from pathlib import Path

import pytest

from ndnts import Ndnts
from packets import Wire, command, older_command, register_parameters, with_new_nonce
from router import Router


REFUSED = r"^byname_command_refusals_total"


def routes(router: Router) -> str:
    return router.cli("route", "list").stdout


@pytest.mark.parametrize("form", [command, older_command])
def test_good_command_is_accepted(router: Router, form):
    with Wire(router.unix) as wire:
        assert wire.status(form("rib/register", register_parameters("/good"))) == 200
        assert "/good" in routes(router)


@pytest.mark.parametrize("form", [command, older_command])
def test_replayed_command_is_refused_and_counted(router: Router, form):
    with Wire(router.unix) as wire:
        register = form("rib/register", register_parameters("/replayed"))
        assert wire.status(register) == 200
        assert wire.status(form("rib/unregister", register_parameters("/replayed"))) == 200
        before = router.metric(REFUSED)
        assert wire.status(with_new_nonce(register)) in (None, 403)
        assert "/replayed" not in routes(router)
        assert router.metric(REFUSED) == before + 1


@pytest.mark.parametrize("forge", ["signature", "parameters", "unsigned"])
def test_forged_command_is_refused(router: Router, forge: str):
    with Wire(router.unix) as wire:
        assert wire.status(command("rib/register", register_parameters("/forged"), forge=forge)) in (None, 400, 403)
        assert "/forged" not in routes(router)


def test_forged_signatures_are_counted(router: Router):
    with Wire(router.unix) as wire:
        before = router.metric(REFUSED)
        for form in (command, older_command):
            assert wire.status(form("rib/register", register_parameters("/forged"), forge="signature")) in (None, 403)
        assert "/forged" not in routes(router)
        assert router.metric(REFUSED) == before + 2


@pytest.mark.parametrize("form", [command, older_command])
def test_command_of_yesterday_is_refused(router: Router, form):
    yesterday = int((time.time() - 86_400) * 1000)
    with Wire(router.unix) as wire:
        assert wire.status(form("rib/register", register_parameters("/old"), time_ms=yesterday)) in (None, 403)
        assert "/old" not in routes(router)


def test_clients_may_share_the_digest_signer_and_a_millisecond(router: Router):
    """Clients that sign by digest share a key: the timestamp of one must not lock another out."""
    now = int(time.time() * 1000)
    with Wire(router.unix) as first, Wire(router.unix) as second:
        assert first.status(command("rib/register", register_parameters("/first"), time_ms=now + 50)) == 200
        assert second.status(command("rib/register", register_parameters("/second"), time_ms=now)) == 200
        assert second.status(command("rib/register", register_parameters("/third"), time_ms=now)) == 200


def test_names_of_management_cannot_be_registered(router: Router):
    with Wire(router.unix) as wire:
        for name in ("/localhost/nfd", "/localhost/nfd/faces", "/localhop/nfd", "/localhop/nfd/rib/register"):
            for verb in ("rib/register", "fib/add-nexthop"):
                assert wire.status(command(verb, register_parameters(name))) == 403, name
        assert wire.status(command("rib/register", register_parameters("/localhost/other"))) == 200


def test_localhost_is_out_of_reach_over_udp(router: Router):
    with Wire(router.udp) as wire:
        assert wire.status(command("rib/register", register_parameters("/remote"))) is None
        assert "/remote" not in routes(router)


async def test_localhop_registration_needs_a_trust_anchor(router: Router, ndnts: Ndnts):
    await ndnts.call("make_key", key="stranger", identity="/stranger")
    for key in (None, "stranger"):
        server = await ndnts.connect(router.udp, signer=key)
        assert not await server.produce(f"/udp/{key}", "x", wait_ms=700)
    assert "/udp/" not in routes(router)


@pytest.mark.parametrize("algorithm", ["ecdsa", "rsa", "ed25519"])
async def test_localhop_registration_by_a_trust_anchor(directory: Path, ndnts: Ndnts, algorithm: str):
    made = await ndnts.call("make_key", key="operator", identity="/operator", algorithm=algorithm)
    (directory / "operator.ndncert").write_text(made["certificate"])
    with Router(directory, anchors='"operator.ndncert"') as router:
        server = await ndnts.connect(router.udp, signer="operator")
        assert not server.local
        assert await server.produce("/operator/anchored", "x")
        client = await ndnts.connect(router.unix, register=False)
        assert (await client.fetch("/operator/anchored/1"))["content"] == "x 1"
        # The key registers only names under its identity, and no management names.
        for prefix in ("/udp/anchored", "/", "/localhop/nfd/rib"):
            assert not await server.produce(prefix, "x", wait_ms=700), prefix


@pytest.mark.parametrize("algorithm", ["ecdsa", "rsa", "ed25519", "hmac"])
async def test_rights_by_key(directory: Path, ndnts: Ndnts, algorithm: str):
    """If the configuration names one key for a module, no other signer may send it commands."""
    secret = "5ec2e7" * 8
    made = await ndnts.call("make_key", key="operator", identity="/operator", algorithm=algorithm, secret=secret)
    if algorithm == "hmac":
        (directory / "secret").write_bytes(bytes.fromhex(secret))
        who = f'hmac_key = "{made["name"].replace("/8=", "/")}"\nhmac_secret_file = "secret"'
    else:
        (directory / "operator.ndncert").write_text(made["certificate"])
        who = 'certificate = "operator.ndncert"'
    rights = f'[[authorization]]\n{who}\nmodules = ["rib"]\n'
    with Router(directory, extra_config=rights) as router:
        client = await ndnts.connect(router.unix, register=False)
        refused = await client.invoke("rib/register", {"name": "/anyone"})
        assert refused["code"] == 403, refused
        accepted = await client.invoke("rib/register", {"name": "/operator"}, signer="operator")
        assert accepted["code"] == 200, accepted
        beyond = await client.invoke("cs/config", {"capacity": 1}, signer="operator")
        assert beyond["code"] == 403, beyond
        names = {entry["name"] for entry in await client.dataset("rib/list")}
        assert "/8=operator" in names and "/8=anyone" not in names
