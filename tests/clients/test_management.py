"""The NFD management protocol with the clients of NDNts and python-ndn."""

import asyncio
import time

import pytest
from ndn.app_support import nfd_mgmt
from ndn.encoding import Name
from ndn.security import DigestSha256Signer

import pyndn
from ndnts import Ndnts, NdntsClient
from router import Router, free_ports

LOCAL, NON_LOCAL = 1, 0
PERSISTENT, PERMANENT = 1, 2
SERVE = 2
CONGESTION_MARKING = 4
MULTICAST = "/8=localhost/8=nfd/8=strategy/8=multicast"
BEST_ROUTE = "/8=localhost/8=nfd/8=strategy/8=best-route"


@pytest.fixture
async def manager(router: Router, ndnts: Ndnts) -> NdntsClient:
    return await ndnts.connect(router.unix, register=False)


async def routes_of(manager: NdntsClient, name: str) -> list[dict]:
    return [route for entry in await manager.dataset("rib/list") if entry["name"] == name for route in entry["route"]]


async def strategies(manager: NdntsClient) -> dict[str, str]:
    return {entry["name"]: entry["strategy"] for entry in await manager.dataset("strategy-choice/list")}


async def test_general_status(router: Router, manager: NdntsClient):
    [status] = await manager.dataset("status/general")
    assert "byname" in status["nfdVersion"]
    now_ms = time.time() * 1000
    assert abs(status["currentTimestamp"] - now_ms) < 5_000
    assert status["startTimestamp"] <= status["currentTimestamp"]
    before = status["nInInterests"]
    async with pyndn.current(router.unix) as server, pyndn.current(router.unix) as client:
        await pyndn.serve(server, "/counted", "x")
        for i in range(10):
            await pyndn.fetch(client, f"/counted/{i}")
    [status] = await manager.dataset("status/general")
    assert status["nInInterests"] >= before + 10
    assert status["nSatisfiedInterests"] >= 10
    assert status["nInData"] >= 10
    assert status["nFibEntries"] >= 1


async def test_channels(router: Router, manager: NdntsClient):
    channels = {channel["localUri"] for channel in await manager.dataset("faces/channels")}
    assert f"unix://{router.socket_path}" in channels
    assert any(uri.startswith("udp4://") and uri.endswith(f":{router.port}") for uri in channels), channels
    assert any(uri.startswith("tcp4://") and uri.endswith(f":{router.port}") for uri in channels), channels
    assert any(uri.startswith("ws://") and uri.endswith(f":{router.ws_port}") for uri in channels), channels


async def test_face_list_shows_each_client(router: Router, ndnts: Ndnts, manager: NdntsClient):
    for transport in ("udp", "tcp", "ws"):
        client = await ndnts.connect(router.uplink(transport), register=False)
        await client.fetch("/nothing", lifetime=100)
    faces = {face["uri"].split("://")[0]: face for face in await manager.dataset("faces/list")}
    assert faces["udp4"]["faceScope"] == NON_LOCAL
    assert faces["tcp4"]["faceScope"] == LOCAL
    assert faces["fd"]["faceScope"] == LOCAL
    wire = faces["udp4"]
    assert wire["uri"].startswith("udp4://127.0.0.1:")
    assert wire["localUri"] == f"udp4://127.0.0.1:{router.port}"
    assert wire["nInInterests"] >= 1
    assert wire["nInBytes"] > 0
    ids = [face["faceId"] for face in await manager.dataset("faces/list")]
    assert len(ids) == len(set(ids))
    assert all(face == 1 or face >= 254 for face in ids)


async def test_face_create_query_update_destroy(router: Router, manager: NdntsClient):
    [port] = free_ports(1)
    uri = f"udp4://127.0.0.1:{port}"
    created = await manager.invoke("faces/create", {"uri": uri, "facePersistency": PERMANENT, "mtu": 1400})
    assert created["code"] == 200, created
    body = created["body"]
    assert body["uri"] == uri
    assert body["facePersistency"] == PERMANENT
    assert body["faceId"] >= 256
    assert {"localUri", "flags"} <= body.keys()

    again = await manager.invoke("faces/create", {"uri": uri})
    assert again["code"] == 409, again
    assert again["body"]["faceId"] == body["faceId"]
    assert {"uri", "localUri", "flags", "facePersistency"} <= again["body"].keys()

    [face] = await manager.dataset("faces/list", filter={"uri": uri})
    assert face["faceId"] == body["faceId"]
    assert face["mtu"] == 1400

    updated = await manager.invoke("faces/update", {
        "faceId": body["faceId"], "facePersistency": PERSISTENT, "flags": CONGESTION_MARKING, "mask": CONGESTION_MARKING,
    })
    assert updated["code"] == 200, updated
    assert updated["body"]["facePersistency"] == PERSISTENT
    assert "flags" in updated["body"]

    destroyed = await manager.invoke("faces/destroy", {"faceId": body["faceId"]})
    assert destroyed["code"] == 200, destroyed
    assert await manager.dataset("faces/list", filter={"uri": uri}) == []
    recreated = await manager.invoke("faces/create", {"uri": uri})
    assert recreated["code"] == 200
    assert recreated["body"]["faceId"] > body["faceId"], "face ids are never used again"


@pytest.mark.parametrize("uri", ["tcp4://127.0.0.1:{port}", "udp4://127.0.0.1:{port}"])
async def test_created_face_carries_traffic(router: Router, ndnts: Ndnts, manager: NdntsClient, directory, uri: str):
    with Router(directory, name="far") as far:
        async with pyndn.current(far.unix) as server, pyndn.current(router.unix) as client:
            await pyndn.serve(server, "/far", "away")
            created = await manager.invoke("faces/create", {"uri": uri.format(port=far.port)})
            assert created["code"] == 200, created
            face = created["body"]["faceId"]
            added = await manager.invoke("rib/register", {"name": "/far", "faceId": face})
            assert added["code"] == 200, added
            assert (await pyndn.fetch(client, "/far/1"))[1] == b"away 1"
            await manager.invoke("faces/destroy", {"faceId": face})
            assert await routes_of(manager, "/8=far") == []


async def test_bad_faces_are_refused(manager: NdntsClient):
    for params in ({"uri": "nonsense://x"}, {"uri": "udp4://not-an-address:1"}):
        response = await manager.invoke("faces/create", params)
        assert response["code"] >= 400, (params, response)
    assert (await manager.invoke("faces/update", {"faceId": 9_999_999}))["code"] == 404


async def test_routes_register_list_unregister(router: Router, ndnts: Ndnts, manager: NdntsClient):
    registered = await manager.invoke("rib/register", {
        "name": "/route/a", "origin": 255, "cost": 7, "flags": 3, "expirationPeriod": 60_000,
    })
    assert registered["code"] == 200, registered
    body = registered["body"]
    assert body["name"] == "/8=route/8=a"
    assert (body["origin"], body["cost"], body["flags"]) == (255, 7, 3)
    assert body["faceId"] >= 256

    [route] = await routes_of(manager, "/8=route/8=a")
    assert (route["faceId"], route["origin"], route["cost"], route["flags"]) == (body["faceId"], 255, 7, 3)
    assert 0 < route["expirationPeriod"] <= 60_000

    updated = await manager.invoke("rib/register", {"name": "/route/a", "origin": 255, "cost": 9})
    assert updated["code"] == 200
    [route] = await routes_of(manager, "/8=route/8=a")
    assert route["cost"] == 9, "the listing shows the change at once"

    removed = await manager.invoke("rib/unregister", {"name": "/route/a", "origin": 255})
    assert removed["code"] == 200, removed
    assert await routes_of(manager, "/8=route/8=a") == []


async def test_route_defaults(manager: NdntsClient):
    registered = await manager.invoke("rib/register", {"name": "/route/defaults"})
    body = registered["body"]
    assert (body["origin"], body["cost"], body["flags"]) == (0, 0, 1)
    assert "expirationPeriod" not in body or body["expirationPeriod"] is None


async def test_route_expires(manager: NdntsClient):
    await manager.invoke("rib/register", {"name": "/route/brief", "expirationPeriod": 300})
    assert len(await routes_of(manager, "/8=route/8=brief")) == 1
    await asyncio.sleep(0.6)
    assert await routes_of(manager, "/8=route/8=brief") == []


async def test_route_of_the_largest_expiration_never_expires(manager: NdntsClient):
    """NLSR sends the largest possible number of milliseconds."""
    response = await manager.invoke("rib/register", {"name": "/route/forever", "expirationPeriod": 2**53 - 1})
    assert response["code"] == 200, response
    await asyncio.sleep(0.2)
    assert len(await routes_of(manager, "/8=route/8=forever")) == 1


async def test_ndnts_registers_as_a_client_application(router: Router, ndnts: Ndnts, manager: NdntsClient):
    server = await ndnts.connect(router.unix)
    assert await server.produce("/client/app", "x")
    [route] = await routes_of(manager, "/8=client/8=app")
    assert (route["origin"], route["flags"]) == (65, 2)
    await server.call("stop", prefix="/client/app")
    assert await routes_of(manager, "/8=client/8=app") == []


async def test_prefix_announcement(router: Router, ndnts: Ndnts, manager: NdntsClient):
    await ndnts.call("make_key", key="announcer", identity="/announcer")
    response = await manager.call("announce", name="/announced", key="announcer", expiration=600_000)
    assert response["code"] == 200, response
    [route] = await routes_of(manager, "/8=announced")
    assert route["origin"] == 129


async def test_producer_registers_by_announcement(router: Router, ndnts: Ndnts, manager: NdntsClient):
    await ndnts.call("make_key", key="announcer", identity="/announcer")
    server = await ndnts.connect(router.unix, announcements=True)
    assert await server.produce("/announced/app", "x", announce="announcer")
    assert (await manager.fetch("/announced/app/1"))["content"] == "x 1"
    assert [route["origin"] for route in await routes_of(manager, "/8=announced/8=app")] == [129]


async def test_strategies(manager: NdntsClient):
    assert (await strategies(manager))["/"].startswith("/8=localhost/8=nfd/8=strategy/")
    chosen = await manager.invoke("strategy-choice/set", {"name": "/multi", "strategy": MULTICAST})
    assert chosen["code"] == 200, chosen
    assert chosen["body"]["name"] == "/8=multi"
    assert chosen["body"]["strategy"].startswith(MULTICAST + "/54="), "answered with its version"
    assert (await strategies(manager))["/8=multi"] == chosen["body"]["strategy"]

    unknown = await manager.invoke("strategy-choice/set", {"name": "/multi", "strategy": "/localhost/nfd/strategy/none"})
    assert unknown["code"] == 404, unknown
    assert (await strategies(manager))["/8=multi"].startswith(MULTICAST)

    unset = await manager.invoke("strategy-choice/unset", {"name": "/multi"})
    assert unset["code"] == 200, unset
    assert "/8=multi" not in await strategies(manager)
    root = await manager.invoke("strategy-choice/unset", {"name": "/"})
    assert root["code"] >= 400, "the root's strategy cannot be unset"


async def test_strategies_of_nfds_configuration_are_there(manager: NdntsClient):
    chosen = await strategies(manager)
    assert chosen["/8=ndn/8=broadcast"] == MULTICAST + "/54=%05"
    assert chosen["/8=localhost"] == MULTICAST + "/54=%05"
    assert chosen["/8=localhost/8=nfd"] == BEST_ROUTE + "/54=%05"
    assert chosen["/"] == BEST_ROUTE + "/54=%05"


async def test_strategies_are_named_and_refused_as_nfd_does(manager: NdntsClient):
    root = "/8=localhost/8=nfd/8=strategy"

    async def choose(strategy: str) -> tuple[int, str]:
        answer = await manager.invoke("strategy-choice/set", {"name": "/chosen", "strategy": f"{root}/{strategy}"})
        return answer["code"], answer["body"]["strategy"] if answer["code"] == 200 else answer["text"]

    tuned = "8=asf/54=%05/8=probing-interval~30000/8=max-timeouts~5/8=measurements-lifetime~120000/8=no-such~1"
    for asked, full in [
        ("8=access", "8=access/54=%01"),
        ("8=random", "8=random/54=%01"),
        ("8=self-learning", "8=self-learning/54=%01"),
        ("8=adaptive", "8=asf/54=%05"),
        (tuned, tuned),
    ]:
        assert await choose(asked) == (200, f"{root}/{full}")
        assert (await strategies(manager))["/8=chosen"] == f"{root}/{full}"
    why = "Error instantiating strategy: "
    for asked, refusal in [
        ("8=best-route/54=%01", (409, why + "best-route does not support version 1; its version is 5")),
        ("8=best-route/54=%06", (404, "Strategy not registered")),
        ("8=asf/54=%05/8=probing-interval~5", (409, why + "Probing interval must be >= 1000 milliseconds")),
        ("8=asf/54=%05/8=max-timeouts~x", (409, why + "max-timeouts value is malformed")),
        ("8=random/54=%01/8=x~1", (409, why + "random does not accept parameters")),
    ]:
        assert await choose(asked) == refusal
    assert (await strategies(manager))["/8=chosen"] == f"{root}/{tuned}", "a refusal changes nothing"
    assert (await manager.invoke("strategy-choice/unset", {"name": "/chosen"}))["code"] == 200


async def test_multicast_strategy_asks_every_producer(router: Router, ndnts: Ndnts, manager: NdntsClient):
    await manager.invoke("strategy-choice/set", {"name": "/all", "strategy": MULTICAST})
    first, second = await ndnts.connect(router.unix), await ndnts.connect(router.unix)
    assert await first.produce("/all", "first")
    assert await second.produce("/all", "second")
    for i in range(5):
        await manager.fetch(f"/all/{i}")
    await asyncio.sleep(0.2)
    served = [(await server.call("stop", prefix="/all", close=False))["served"] for server in (first, second)]
    assert served == [5, 5]


async def test_best_route_takes_the_cheaper_face(router: Router, ndnts: Ndnts, manager: NdntsClient):
    await manager.invoke("strategy-choice/set", {"name": "/best", "strategy": BEST_ROUTE})
    dear, cheap = await ndnts.connect(router.unix, cost=10), await ndnts.connect(router.unix, cost=1)
    assert await dear.produce("/best", "dear")
    assert await cheap.produce("/best", "cheap")
    answers = [(await manager.fetch(f"/best/{i}"))["content"] for i in range(5)]
    assert answers == [f"cheap {i}" for i in range(1, 6)]


async def test_content_store_info_config_erase(router: Router, ndnts: Ndnts, manager: NdntsClient):
    server = await ndnts.connect(router.unix)
    assert await server.produce("/store", "x", freshness=60_000)
    for i in range(20):
        await manager.fetch(f"/store/{i}")
    [before] = await manager.dataset("cs/info")
    assert before["nCsEntries"] >= 20
    for i in range(20):
        await manager.fetch(f"/store/{i}")
    [after] = await manager.dataset("cs/info")
    assert after["nHits"] >= before["nHits"] + 20

    assert (await manager.call("cs_erase", name="/store"))["count"] == 20
    assert (await manager.fetch("/store/0"))["content"] == "x 21"

    configured = await manager.invoke("cs/config", {"capacity": 1000, "flags": 0, "mask": SERVE})
    assert configured["code"] == 200, configured
    assert configured["body"]["capacity"] == 1000
    [info] = await manager.dataset("cs/info")
    assert info["capacity"] == 1000
    assert (await manager.fetch("/store/0"))["content"] == "x 22", "nothing is served from the store"
    await manager.invoke("cs/config", {"flags": SERVE, "mask": SERVE})
    assert (await manager.fetch("/store/0"))["content"] in ("x 21", "x 22")


async def test_large_dataset_comes_in_segments(router: Router, manager: NdntsClient):
    for i in range(600):
        response = await manager.invoke("rib/register", {"name": f"/segments/{i:04}/with/a/name/of/some/length"})
        assert response["code"] == 200
    entries = [entry for entry in await manager.dataset("rib/list") if entry["name"].startswith("/8=segments/")]
    assert len(entries) == 600


async def test_python_ndn_reads_status_and_faces(router: Router):
    async with pyndn.current(router.unix) as client:
        options = {"can_be_prefix": True, "must_be_fresh": True}
        _, content = await pyndn.fetch(client, "/localhost/nfd/status/general", **options)
        assert "byname" in nfd_mgmt.GeneralStatus.parse(content).nfd_version
        _, content = await pyndn.fetch(client, "/localhost/nfd/faces/list", **options)
        assert len(nfd_mgmt.FaceStatusMsg.parse(content).face_status) >= 1
        _, content = await pyndn.fetch(client, "/localhost/nfd/fib/list", **options)
        assert nfd_mgmt.FibStatus.parse(content) is not None


async def test_fib_commands(router: Router):
    """NDNts has no client for fib commands. These are python-ndn's, in both formats."""
    async with pyndn.current(router.unix) as client:
        for command, form in (("add-nexthop", "current"), ("remove-nexthop", "older")):
            if form == "current":
                name = nfd_mgmt.make_command_v2("fib", command, client.face, name="/fib/only", cost=5)
                _, content = await pyndn.fetch(client, name, app_param=b"", signer=DigestSha256Signer(for_interest=True))
            else:
                name = nfd_mgmt.make_command("fib", command, client.face, name="/fib/only")
                _, content = await pyndn.fetch(client, name)
            response = nfd_mgmt.parse_response(content)
            assert response["status_code"] == 200, response
            listed = await fib_names(client)
            assert ("/fib/only" in listed) == (command == "add-nexthop")


async def fib_names(client) -> set[str]:
    _, content = await pyndn.fetch(client, "/localhost/nfd/fib/list", can_be_prefix=True, must_be_fresh=True)
    return {Name.to_str(entry.name) for entry in nfd_mgmt.FibStatus.parse(content).entries}


async def test_face_events_are_notified(router: Router, ndnts: Ndnts):
    """A subscriber fetches the newest event, then waits for each next event."""
    async with pyndn.current(router.unix) as client:
        first = asyncio.create_task(pyndn.fetch(
            client, "/localhost/nfd/faces/events", can_be_prefix=True, must_be_fresh=True, lifetime=10_000))
        await asyncio.sleep(0.2)
        await ndnts.connect(router.unix, register=False)
        name, content = await first
        event = nfd_mgmt.FaceEventNotification.parse(content)
        assert event.event is not None
        following = Name.from_str(name)
        number = int.from_bytes(bytes(following[-1])[2:], "big")
        following[-1] = bytes(following[-1])[:2] + (number + 1).to_bytes(len(bytes(following[-1])) - 2, "big")
        second = asyncio.create_task(pyndn.fetch(client, following, lifetime=10_000))
        await asyncio.sleep(0.1)
        await ndnts.connect(router.unix, register=False)
        name, _ = await second
        assert name == Name.to_str(following)


async def test_unknown_command_and_bad_parameters(router: Router):
    async with pyndn.current(router.unix) as client:
        for command, code in (("rib/no-such-verb", 501), ("no-such-module/verb", 501)):
            module, verb = command.split("/")
            name = nfd_mgmt.make_command_v2(module, verb, client.face, name="/x")
            _, content = await pyndn.fetch(client, name, app_param=b"", signer=DigestSha256Signer(for_interest=True))
            assert nfd_mgmt.parse_response(content)["status_code"] in (code, 404), command
        name = nfd_mgmt.make_command_v2("rib", "register", client.face, cost=1)
        _, content = await pyndn.fetch(client, name, app_param=b"", signer=DigestSha256Signer(for_interest=True))
        assert nfd_mgmt.parse_response(content)["status_code"] == 400
