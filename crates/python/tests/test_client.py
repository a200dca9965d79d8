"""The client beside a real router: exchanges, objects, and routers that go away."""

from __future__ import annotations

import asyncio
import hashlib
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from router import Router

import byname

TRANSPORTS = ["unix", "tcp", "udp", "ws"]


async def silent(_: byname.Interest) -> None:
    return None


async def hello(interest: byname.Interest) -> bytes:
    return f"hello {interest.name}".encode()


async def serving(client: byname.Client, prefix: str, answer=hello) -> asyncio.Task[None]:
    """A task that serves a prefix which is registered."""
    producer = await client.produce(prefix)

    async def serve() -> None:
        async for interest in producer:
            content = await answer(interest)
            if content is not None:
                await interest.reply(content, freshness=1.0)

    return asyncio.create_task(serve())


async def until_refused(client: byname.Client, name: str) -> None:
    """Waits until the router has forgotten the prefix of this name."""
    for _ in range(100):
        try:
            await client.express(name, lifetime=0.1, tries=1)
        except byname.Nack:
            return
        except byname.NoAnswer:
            await asyncio.sleep(0.05)
    pytest.fail("the prefix was not withdrawn")


async def until_answered(call):
    """The answer, once the prefix is registered."""
    for _ in range(100):
        try:
            return await call()
        except byname.Nack:
            await asyncio.sleep(0.1)
    pytest.fail("the prefix was not registered")


@pytest.mark.parametrize("transport", TRANSPORTS)
async def test_an_interest_brings_data_over_each_transport(router: Router, transport: str) -> None:
    async with await byname.connect(router.unix) as there, await byname.connect(getattr(router, transport)) as here:
        task = await serving(there, "/example")
        data = await here.express("/example/hello", lifetime=2.0)
        assert (data.name, data.content) == ("/example/hello", b"hello /example/hello")
        assert (data.content_type, data.freshness, data.final_block) == (0, 1.0, None)
        assert data.packet[0] == 6
        task.cancel()


async def test_the_environment_names_the_router(router: Router, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NDN_CLIENT_TRANSPORT", router.unix)
    async with await byname.connect() as there, await byname.connect() as here:
        task = await serving(there, "/example")
        assert (await here.express("/example/x")).content == b"hello /example/x"
        task.cancel()


async def test_an_interest_has_what_was_asked_for(router: Router) -> None:
    async with await byname.connect(router.unix) as there, await byname.connect(router.unix) as here:
        async with await there.produce("/example") as producer:
            asking = asyncio.create_task(
                here.express("/example/a%2Fb", can_be_prefix=True, must_be_fresh=True, lifetime=2.5, parameters=b"p")
            )
            interest = await anext(producer)
            assert interest.name.startswith("/example/a%2Fb/params-sha256=")
            assert (interest.prefix, interest.parameters) == ("/example", b"p")
            assert (interest.can_be_prefix, interest.must_be_fresh, interest.lifetime) == (True, True, 2.5)
            await interest.reply(b"longer", name=interest.name + "/v=1/seg=0", freshness=0.5, content_type=0)
            data = await asking
            assert data.name == interest.name + "/v=1/seg=0"
            assert (data.content, data.freshness) == (b"longer", 0.5)


async def test_many_interests_at_once(router: Router) -> None:
    async with await byname.connect(router.unix) as there, await byname.connect(router.unix) as here:
        task = await serving(there, "/example")
        answers = await asyncio.gather(*(here.express(f"/example/{i}") for i in range(200)))
        assert [data.content for data in answers] == [f"hello /example/{i}".encode() for i in range(200)]
        task.cancel()


async def test_silence_and_refusal_are_exceptions_with_values(router: Router) -> None:
    async with await byname.connect(router.unix) as there, await byname.connect(router.unix) as here:
        with pytest.raises(byname.Nack) as nack:
            await here.express("/nowhere", tries=1)
        assert nack.value.name == "/nowhere"
        assert "no route" in nack.value.reason

        task = await serving(there, "/silent", silent)
        start = time.monotonic()
        with pytest.raises(byname.NoAnswer) as timeout:
            await here.express("/silent/x", lifetime=0.2, tries=2)
        assert 0.35 < time.monotonic() - start < 5
        assert (timeout.value.name, timeout.value.tries) == ("/silent/x", 2)
        assert timeout.value.waited == pytest.approx(0.4, abs=0.3)
        assert isinstance(timeout.value, TimeoutError)
        task.cancel()


async def test_a_cancelled_wait_leaves_the_client_working(router: Router) -> None:
    async with await byname.connect(router.unix) as there, await byname.connect(router.unix) as here:
        asked = asyncio.Queue()

        async def slow(interest: byname.Interest) -> bytes | None:
            await asked.put(interest.name)
            return None if "slow" in interest.name else b"fast"

        task = await serving(there, "/example", slow)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(here.express("/example/slow", lifetime=30.0), 0.3)
        assert (await here.express("/example/fast")).content == b"fast"
        assert [await asked.get() for _ in range(2)] == ["/example/slow", "/example/fast"]
        task.cancel()


async def test_serve_goes_on_until_it_is_cancelled(router: Router) -> None:
    async with await byname.connect(router.unix) as there, await byname.connect(router.unix) as here:
        task = asyncio.create_task(there.serve("/example", hello, freshness=2.0))
        data = await until_answered(lambda: here.express("/example/x"))
        assert (data.content, data.freshness) == (b"hello /example/x", 2.0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await until_refused(here, "/example/y")


@pytest.mark.parametrize("transport", ["unix", "udp"])
@pytest.mark.parametrize("size", [0, 1, 8000, 8001, 3_000_000])
async def test_objects_of_all_sizes_are_fetched(router: Router, transport: str, size: int) -> None:
    content = os.urandom(size)
    async with await byname.connect(router.unix) as there, await byname.connect(getattr(router, transport)) as here:
        async with await there.publish("/example/object", content) as publication:
            assert (publication.size, publication.sha256) == (size, hashlib.sha256(content).hexdigest())
            assert publication.name.startswith("/example/object/v=")
            assert await here.fetch("/example/object") == content
            assert await here.fetch(publication.name) == content
            parts = await here.fetch_parts("/example/object", discovery="prefix")
            assert parts.name == publication.name
            assert b"".join([part async for part in parts]) == content
        with pytest.raises(byname.ClientError):
            await here.fetch("/example/object/again", lifetime=0.3, tries=1)


async def test_a_file_is_published_and_read_by_byname_get(router: Router, tmp_path: Path) -> None:
    file = tmp_path / "song.ogg"
    file.write_bytes(os.urandom(200_000))
    async with await byname.connect(router.unix) as client:
        async with await client.publish("/song", file, segment_bytes=1000, version=7) as publication:
            assert publication.name == "/song/v=7"
            got = tmp_path / "got"
            await asyncio.to_thread(router.cli, "get", "/song", "-o", str(got))
            assert got.read_bytes() == file.read_bytes()
        with pytest.raises(FileNotFoundError):
            await client.publish("/missing", tmp_path / "missing")
        with pytest.raises(OSError):
            await client.publish("/folder", tmp_path)


async def test_an_object_that_is_too_large_is_refused(router: Router) -> None:
    async with await byname.connect(router.unix) as there, await byname.connect(router.unix) as here:
        async with await there.publish("/large", bytes(100_000)):
            with pytest.raises(byname.TooLarge) as large:
                await here.fetch("/large", bytes_max=50_000)
            assert large.value.bytes_max == 50_000
            assert len(await here.fetch("/large", bytes_max=100_000)) == 100_000


async def test_why_an_object_was_not_fetched_is_told_in_values(router: Router) -> None:
    async with await byname.connect(router.unix) as there, await byname.connect(router.unix) as here:
        answering = asyncio.create_task(answer_one_segment(await there.produce("/half")))
        with pytest.raises(byname.FetchFailed) as failed:
            await here.fetch("/half/v=1", lifetime=0.2, tries=2, discovery="none")
        assert (failed.value.segment, failed.value.tries) == (1, 2)
        with pytest.raises(byname.NoSuchData) as missing:
            await here.fetch("/half/v=2", discovery="none")
        assert missing.value.name == "/half/v=2/seg=0"
        answering.cancel()


async def answer_one_segment(producer: byname.Producer) -> None:
    """Answers for the first segment of version 1, and says that there is no version 2."""
    async for interest in producer:
        if interest.name == "/half/v=1/seg=0":
            await interest.reply(b"half")
        elif "v=2" in interest.name:
            await interest.reply(content_type=3)


async def test_changed_content_is_not_trusted(router: Router) -> None:
    async with await byname.connect(router.unix) as here:
        # A packet with a digest that is not its own, from a program that knows no better.
        code = (
            "import asyncio, sys; from ndn import appv2; from ndn.client_conf import default_face\n"
            "from ndn.encoding import Name, make_data, MetaInfo\n"
            "from ndn.security import DigestSha256Signer\n"
            "app = appv2.NDNApp(face=default_face(sys.argv[1]))\n"
            "@app.route('/bad')\n"
            "def bad(name, _param, reply, _context):\n"
            "    packet = bytearray(make_data(name, MetaInfo(), b'content', DigestSha256Signer()))\n"
            "    packet[packet.index(b'content')] ^= 1\n"
            "    reply(bytes(packet))\n"
            "async def ready():\n"
            "    await asyncio.sleep(0.5); print('ready', flush=True)\n"
            "app.run_forever(after_start=ready())\n"
        )
        producer = subprocess.Popen([sys.executable, "-c", code, router.unix], stdout=subprocess.PIPE)
        try:
            assert await asyncio.to_thread(producer.stdout.readline) == b"ready\n"
            with pytest.raises(byname.Untrusted) as untrusted:
                await here.express("/bad/x", lifetime=2.0)
            assert untrusted.value.name == "/bad/x"
        finally:
            producer.kill()
            producer.wait()


async def test_python_ndn_works_beside_it(router: Router) -> None:
    import pyndn
    from ndn.encoding import Name

    async with pyndn.current(router.unix) as app, await byname.connect(router.unix) as client:
        task = await serving(client, "/ours")
        await pyndn.serve(app, "/theirs", "theirs")
        data = await client.express("/theirs/x")
        assert data.content == b"theirs 1"
        assert await pyndn.fetch(app, Name.from_str("/ours/y")) == ("/ours/y", b"hello /ours/y")
        task.cancel()


async def test_a_router_that_comes_back_gets_prefixes_and_interests_again(router: Router) -> None:
    async with await byname.connect(router.unix) as there, await byname.connect(router.tcp) as here:
        task = await serving(there, "/example")
        publication = await there.publish("/object", bytes(20_000))
        assert (await here.express("/example/1")).content == b"hello /example/1"
        router.stop()
        waiting = asyncio.create_task(here.express("/nowhere", lifetime=30.0, tries=1))
        await asyncio.sleep(0.3)
        assert not waiting.done()
        router.start()
        # Nobody has this. The new router can say so only if it got the Interest again.
        with pytest.raises(byname.Nack):
            await waiting
        assert (await until_answered(lambda: here.express("/example/2"))).content == b"hello /example/2"
        assert await until_answered(lambda: here.fetch("/object")) == bytes(20_000)
        publication.close()
        task.cancel()


async def test_a_router_that_goes_away_in_a_transfer_lets_it_go_on(router: Router) -> None:
    content = os.urandom(4_000_000)
    async with await byname.connect(router.unix) as there, await byname.connect(router.unix) as here:
        async with await there.publish("/object", content):
            parts = await here.fetch_parts("/object")
            got = bytearray()
            async for part in parts:
                got += part
                if len(got) == 80_000:
                    router.stop()
                    router.start()
            assert bytes(got) == content


async def test_without_reconnecting_a_lost_router_is_an_error(router: Router) -> None:
    client = await byname.connect(router.unix, reconnect=False)
    other = await byname.connect(router.unix)
    task = await serving(other, "/silent", silent)
    producer = await client.produce("/example")
    parts = asyncio.create_task(client.fetch("/silent/object", lifetime=10.0))
    taking = asyncio.create_task(anext(producer, None))
    await asyncio.sleep(0.3)
    router.stop()
    with pytest.raises(byname.ConnectionLost):
        await asyncio.wait_for(parts, 10)
    assert await asyncio.wait_for(taking, 10) is None
    for call in (client.express("/x"), client.produce("/y"), client.publish("/z", b""), client.fetch("/x")):
        with pytest.raises(byname.ConnectionLost) as lost:
            await asyncio.wait_for(call, 10)
        assert isinstance(lost.value, ConnectionError)
    await client.close()
    await other.close()
    await asyncio.wait_for(task, 10)


async def test_closing_ends_everything(router: Router) -> None:
    client, here = await byname.connect(router.unix), await byname.connect(router.unix)
    producer, other = await client.produce("/example"), await serving(here, "/silent", silent)

    async def take() -> list[byname.Interest]:
        return [interest async for interest in producer]

    taking, asking = asyncio.create_task(take()), asyncio.create_task(client.express("/silent/x", lifetime=30.0))
    waiting = asyncio.create_task(here.express("/example/x", lifetime=30.0))
    await asyncio.sleep(0.3)
    assert not asking.done()
    await client.close()
    assert [interest.name for interest in await asyncio.wait_for(taking, 5)] == ["/example/x"]
    with pytest.raises(byname.ConnectionLost):
        await asyncio.wait_for(asking, 5)
    with pytest.raises(byname.ConnectionLost):
        await client.express("/x")
    waiting.cancel()
    await until_refused(here, "/example/z")
    await client.close()
    await here.close()
    await asyncio.wait_for(other, 5)


async def test_a_producer_that_is_closed_ends_its_iteration(router: Router) -> None:
    async with await byname.connect(router.unix) as client:
        producer = await client.produce("/example")
        taking = asyncio.create_task(anext(producer, None))
        await asyncio.sleep(0.1)
        producer.close()
        assert await asyncio.wait_for(taking, 5) is None
        assert await anext(producer, None) is None


async def test_no_router_is_an_error(directory: Path) -> None:
    with pytest.raises(byname.NotConnected, match="nobody.sock"):
        await byname.connect(f"unix://{directory}/nobody.sock")
    with pytest.raises(byname.NotConnected):
        await byname.connect("tcp://127.0.0.1:1", f"unix://{directory}/nobody.sock")


async def test_arguments_that_do_not_fit_are_refused(router: Router) -> None:
    with pytest.raises(ValueError, match="not a transport"):
        await byname.connect("gopher://host")
    with pytest.raises(ValueError):
        await byname.connect(router.unix, key=("/key", b"no key"))
    async with await byname.connect(router.unix) as client:
        for bad in ("/%", "/a/%zz", "/" + "x" * 9000, "/x" * 9000):
            with pytest.raises(ValueError, match="is no name"):
                await client.express(bad)
        for bad in (-1.0, float("nan"), float("inf"), 1e12):
            with pytest.raises(ValueError, match="lifetime"):
                await client.express("/x", lifetime=bad)
        with pytest.raises(ValueError, match="tries"):
            await client.express("/x", tries=0)
        with pytest.raises(OverflowError):
            await client.express("/x", hop_limit=256)
        for bad in (0, 8601, 1 << 40):
            with pytest.raises(ValueError, match="segment_bytes"):
                await client.publish("/x", b"", segment_bytes=bad)
        with pytest.raises(TypeError):
            await client.publish("/x", 5)
        with pytest.raises(ValueError, match="auto, rdr, prefix, none"):
            await client.fetch("/x", discovery="magic")


async def test_a_refused_prefix_is_an_exception_with_its_code(directory: Path, byname_binary: Path) -> None:
    rights = '[[authorization]]\nsigner = "any"\nmodules = ["rib"]\nprefixes = ["/app"]\n'
    with Router(directory, extra_config=rights) as router:
        async with await byname.connect(router.unix) as client:
            (await client.produce("/app/mine")).close()
            with pytest.raises(byname.CommandRefused) as refused:
                await client.produce("/elsewhere")
            assert (refused.value.command, refused.value.code) == ("rib/register", 403)
            assert refused.value.text


@pytest.mark.parametrize("curve", ["p256", "ed25519"])
async def test_data_is_signed_by_the_key(router: Router, curve: str) -> None:
    from Cryptodome.PublicKey import ECC
    from ndn.encoding import Name, SignatureType, parse_data

    private_key = ECC.generate(curve=curve).export_key(format="DER", use_pkcs8=True)
    there = await byname.connect(router.unix, key=("/me/KEY/1", private_key))
    async with there, await byname.connect(router.unix) as here:
        task = await serving(there, "/example")
        data = await here.express("/example/x")
        _, _, _, signature = parse_data(data.packet)
        kind = {"p256": SignatureType.SHA256_WITH_ECDSA, "ed25519": SignatureType.ED25519}[curve]
        assert signature.signature_info.signature_type == kind
        assert Name.to_str(signature.signature_info.key_locator.name) == "/me/KEY/1"
        task.cancel()


def made_key(byname_binary: Path, folder: Path, *arguments: str) -> tuple[str, Path, Path]:
    """The name of a new key, its file, and that of its certificate."""
    command = [byname_binary, "key", "--folder", folder, *arguments, "--type", "ed25519"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=30)
    words = done.stdout.split()
    key_file = Path(words[words.index("Files") + 1])
    return words[words.index("Key") + 1], key_file, key_file.with_suffix(".ndncert")


async def test_only_what_an_anchor_vouches_for_is_trusted(directory: Path, byname_binary: Path) -> None:
    keys = directory / "keys"
    _, _, anchor = made_key(byname_binary, keys, "anchor", "/net")
    alice, alice_file, alice_certificate = made_key(byname_binary, keys, "make", "/net/alice")
    mallory, mallory_file, _ = made_key(byname_binary, directory / "other", "anchor", "/net/mallory")
    served = f'[trust]\ncertificates = ["{alice_certificate}"]\n'
    with Router(directory, extra_config=served) as router:
        here = await byname.connect(router.unix, anchors=[anchor])
        anyone = await byname.connect(router.unix)
        for name, key_file in [(alice, alice_file), (mallory, mallory_file)]:
            who = "alice" if name == alice else "mallory"
            async with await byname.connect(router.unix, key=(name, key_file)) as there:
                task = await serving(there, f"/net/{who}")
                async with await there.publish(f"/net/{who}/object", b"mine"):
                    if who == "alice":
                        assert (await here.express(f"/net/{who}/x", lifetime=2.0)).content == b"hello /net/alice/x"
                        assert await here.fetch(f"/net/{who}/object") == b"mine"
                    else:
                        with pytest.raises(byname.Untrusted):
                            await here.express(f"/net/{who}/x", lifetime=1.0)
                        with pytest.raises(byname.ClientError):
                            await here.fetch(f"/net/{who}/object", lifetime=1.0, tries=1)
                        assert await anyone.fetch(f"/net/{who}/object") == b"mine"
                task.cancel()
        # A digest proves nothing about its sender.
        async with await byname.connect(router.unix) as there:
            task = await serving(there, "/net/alice")
            with pytest.raises(byname.Untrusted):
                await here.express("/net/alice/y", lifetime=1.0)
            task.cancel()
        await here.close()
        await anyone.close()


async def test_files_of_keys_that_do_not_fit_are_refused(router: Router, tmp_path: Path) -> None:
    bad = tmp_path / "bad"
    bad.write_text("no certificate, no schema, no key")
    missing = tmp_path / "missing"
    with pytest.raises(ValueError, match="bad"):
        await byname.connect(router.unix, anchors=[bad])
    with pytest.raises(ValueError, match="bad"):
        await byname.connect(router.unix, key=("/me/KEY/1", bad))
    with pytest.raises(ValueError, match="anchors"):
        await byname.connect(router.unix, schema=bad)
    for arguments in ({"anchors": [missing]}, {"key": ("/me/KEY/1", missing)}, {"anchors": [bad], "schema": missing}):
        with pytest.raises(FileNotFoundError) as error:
            await byname.connect(router.unix, **arguments)
        assert str(error.value.filename) == str(missing)


def test_several_loops_in_threads_share_the_process(router: Router) -> None:
    async def work(i: int) -> bytes:
        async with await byname.connect(router.unix) as client:
            task = await serving(client, f"/{i}")
            async with await byname.connect(router.unix) as other:
                content = (await other.express(f"/{i}/x")).content
            task.cancel()
            return content

    async def all_of_them() -> list[bytes]:
        return await asyncio.gather(*(asyncio.to_thread(asyncio.run, work(i)) for i in range(4)))

    assert asyncio.run(all_of_them()) == [f"hello /{i}/x".encode() for i in range(4)]


ENDS = {
    "in the middle of a wait": "asyncio.create_task(client.express('/x', lifetime=60.0)); await asyncio.sleep(0.1)",
    "with a producer": "global producer; producer = await client.produce('/mine')",
    "while answers arrive": (
        "producer = await client.produce('/mine'); "
        "[asyncio.create_task(client.express(f'/mine/{i}')) for i in range(50)]; await asyncio.sleep(0)"
    ),
}


@pytest.mark.parametrize("what", ENDS)
def test_a_program_ends_without_closing(router: Router, what: str) -> None:
    code = (
        "import asyncio, byname, sys\n"
        "async def main():\n"
        "    global client\n"
        "    client = await byname.connect(sys.argv[1])\n"
        f"    {ENDS[what]}\n"
        "asyncio.run(main())\n"
        "print('end')\n"
    )
    for _ in range(3):
        done = subprocess.run(
            [sys.executable, "-X", "dev", "-c", code, router.unix], capture_output=True, text=True, timeout=30
        )
        assert (done.returncode, done.stdout) == (0, "end\n"), done.stderr
        assert "panicked" not in done.stderr


def test_a_forked_child_is_told(router: Router) -> None:
    code = (
        "import asyncio, byname, os, sys\n"
        "async def main():\n"
        "    async with await byname.connect(sys.argv[1]):\n"
        "        pass\n"
        "asyncio.run(main())\n"
        "child = os.fork()\n"
        "if child == 0:\n"
        "    try:\n"
        "        asyncio.run(main())\n"
        "    except RuntimeError as error:\n"
        "        os._exit(7 if 'spawn' in str(error) else 1)\n"
        "    os._exit(0)\n"
        "sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))\n"
    )
    done = subprocess.run([sys.executable, "-c", code, router.unix], capture_output=True, text=True, timeout=30)
    assert done.returncode == 7, done.stderr


def test_calls_outside_of_a_loop_are_refused(router: Router) -> None:
    client = asyncio.run(byname.connect(router.unix))
    with pytest.raises(RuntimeError, match="no running event loop"):
        client._connection.close()


async def test_a_file_is_resumed(router: Router, directory: Path) -> None:
    content = os.urandom(300_000)
    async with await byname.connect(router.unix) as there, await byname.connect(router.unix) as here:
        async with await there.publish("/demo/file", content, segment_bytes=1000):
            path = directory / "file"
            with pytest.raises(byname.TooLarge):
                await here.fetch_file("/demo/file", path, bytes_max=100_000)
            assert not path.exists()
            part = Path(f"{path}.part")
            before = part.stat().st_size
            assert before > 0, "what has arrived is kept"
            digest = await here.fetch_file("/demo/file", path)
            assert path.read_bytes() == content
            assert digest == hashlib.sha256(content).hexdigest()
            assert not part.exists()
            with pytest.raises(byname.ClientError):
                await here.fetch_file("/demo/file", directory / "none" / "file")


async def test_members_of_a_group_hear_of_each_other(router: Router) -> None:
    router.cli("strategy", "set", "/group", "multicast")
    async with await byname.connect(router.unix) as one, await byname.connect(router.unix) as other:
        alice, bob = await one.join("/group", "/alice", period=1.0), await other.join("/group", "/bob", period=1.0)
        number = await alice.publish()
        update = await asyncio.wait_for(anext(bob), 20)
        assert (update.node, update.first, update.last) == ("/alice", number, number)
        assert update.boot == alice.boot
        assert update.name(number) == alice.name(number) == f"/alice/group/t={alice.boot}/seq={number}"
        # Two tasks of one member: one waits, the other publishes.
        waiting = asyncio.create_task(anext(alice))
        await bob.publish()
        await bob.publish()
        heard = await asyncio.wait_for(waiting, 20)
        assert heard.node == "/bob"
        bob.close()
        with pytest.raises(StopAsyncIteration):
            await anext(bob)
        with pytest.raises(ValueError, match="no name"):
            await one.join("/%zz", "/alice")
        with pytest.raises(ValueError, match="`period`"):
            await one.join("/group", "/alice", period=-1)


async def test_messages_go_by_tags_and_back_by_address(router: Router) -> None:
    async with await byname.connect(router.unix) as there, await byname.connect(router.unix) as here:
        heard, answers = await there.messages(), await here.messages()
        await there.advertise(["concert", "classical"], ["jazz"])
        assert all(":" in address for address in await here.addresses())
        await here.send_to_tags(["concert", "tonight", "classical"], b"who plays?")
        message = await asyncio.wait_for(anext(heard), 10)
        assert (message.payload, message.by_tags) == (b"who plays?", True)
        await message.reply(b"we do")
        answer = await asyncio.wait_for(anext(answers), 10)
        assert (answer.payload, answer.by_tags) == (b"we do", False)
        await here.send_to(answer.source, b"thanks")
        assert (await asyncio.wait_for(anext(heard), 10)).payload == b"thanks"
        await there.withdraw(["jazz"])
        await here.send_to_tags(["jazz"], b"nobody", limit=1)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(anext(heard), 0.5)
        with pytest.raises(TypeError, match="several strings"):
            await here.send_to_tags("jazz", b"")
        with pytest.raises(ValueError, match="at least 1"):
            await here.send_to_tags(["jazz"], b"", limit=0)
        with pytest.raises(ValueError):
            await here.send_to("nowhere", b"")
        with pytest.raises(ValueError):
            await here.advertise([str(tag) for tag in range(33)])


async def test_an_outage_ends_what_waits_for_too_long(router: Router) -> None:
    async with await byname.connect(router.unix, outage=0.5) as client:
        router.stop()
        start = time.monotonic()
        with pytest.raises(byname.ConnectionLost):
            await client.express("/demo/x", lifetime=30.0)
        assert 0.4 < time.monotonic() - start < 10
    with pytest.raises(ValueError, match="`outage`"):
        await byname.connect(router.unix, outage=-1.0)
