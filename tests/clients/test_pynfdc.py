"""python-ndn's management command, `pynfdc`, and how python-ndn's clients find the router.

Unlike other clients, pynfdc signs its Interests for datasets. So their names end
in a ParametersSha256DigestComponent.
"""

import os
import subprocess
import sys

import pytest
from ndn.app_support import nfd_mgmt
from ndn.security import DigestSha256Signer

import pyndn
from router import Router


def python_ndn(router: Router, *args: str, **environment: str) -> str:
    env = {key: value for key, value in os.environ.items() if not key.startswith("NDN_")}
    result = subprocess.run(
        [sys.executable, *args], text=True, capture_output=True, timeout=20, stdin=subprocess.DEVNULL,
        env={**env, "HOME": str(router.directory), **environment},
    )
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


def pynfdc(router: Router, *args: str) -> str:
    script = "from ndn.bin.nfdc import main; main()"
    return python_ndn(router, "-c", script, *args, NDN_CLIENT_TRANSPORT=router.unix)


def test_status(router: Router):
    said = pynfdc(router, "Get-Status")
    assert "nInInterests" in said and "Timeout" not in said, said


def test_faces(router: Router):
    assert pynfdc(router, "New-Face", "udp4://127.0.0.1:9").startswith("200")
    [row] = [line for line in pynfdc(router, "Get-Face").splitlines() if "udp4://127.0.0.1:9" in line]
    face = row.split()[0]
    assert "PERSISTENT" in pynfdc(router, "Get-Face", face).upper()
    assert f"Face ID\t{face}" in pynfdc(router, "Get-Face", "udp4://127.0.0.1:9")
    assert "200" in pynfdc(router, "Remove-Face", "udp4://127.0.0.1:9")
    assert "udp4://127.0.0.1:9" not in pynfdc(router, "Get-Face")


def test_routes(router: Router):
    pynfdc(router, "New-Face", "udp4://127.0.0.1:9")
    [row] = [line for line in pynfdc(router, "Get-Face").splitlines() if "udp4://127.0.0.1:9" in line]
    face = row.split()[0]
    assert pynfdc(router, "New-Route", "/pynfdc", face).startswith("200")
    listed = pynfdc(router, "Get-Route", "/pynfdc")
    assert listed.count("/pynfdc") == 2, "in the FIB and in the RIB"
    assert f"FaceID={face}" in listed
    assert pynfdc(router, "Remove-Route", "/pynfdc", face).startswith("200")
    assert "/pynfdc" not in pynfdc(router, "Get-Route")


def test_strategies(router: Router):
    assert pynfdc(router, "Set-Strategy", "/pynfdc", "multicast").startswith("200")
    listed = pynfdc(router, "Get-Strategy")
    assert "/pynfdc" in listed and "multicast" in listed
    assert pynfdc(router, "Set-Strategy", "/pynfdc", "/localhost/nfd/strategy/none").startswith("404")
    assert pynfdc(router, "Remove-Strategy", "/pynfdc").startswith("200")
    assert "/pynfdc" not in pynfdc(router, "Get-Strategy")


@pytest.mark.parametrize("place", ["environment", "client.conf"])
def test_an_application_finds_the_router(router: Router, place: str):
    """A program that names no router uses NDN_CLIENT_TRANSPORT or ~/.ndn/client.conf."""
    application = (
        "from ndn.appv2 import NDNApp\n"
        "app = NDNApp()\n"
        "async def work():\n"
        "    print('registered', await app.register('/found'))\n"
        "    app.shutdown()\n"
        "app.run_forever(after_start=work())\n"
    )
    environment = {}
    if place == "environment":
        environment["NDN_CLIENT_TRANSPORT"] = router.unix
    else:
        (router.directory / ".ndn").mkdir()
        (router.directory / ".ndn" / "client.conf").write_text(f"transport={router.unix}\n")
    assert "registered True" in python_ndn(router, "-c", application, **environment)


async def test_link_settings_are_read_in_each_answer_about_a_face(router: Router):
    """ndn-cxx shows them. python-ndn rejects an answer if they come after the flags or the persistency."""
    async with pyndn.current(router.unix) as client:
        async def answer(verb: str, **parameters) -> dict:
            name = nfd_mgmt.make_command_v2("faces", verb, client.face, **parameters)
            signer = DigestSha256Signer(for_interest=True)
            # The form of pynfdc's commands. Answers to python-ndn's other commands contain only fields of the command.
            like_pynfdc = {"can_be_prefix": True, "must_be_fresh": True}
            _, content = await pyndn.fetch(client, name, app_param=b"", signer=signer, **like_pynfdc)
            return nfd_mgmt.parse_response(content)

        def settings(told: dict) -> tuple:
            kinds = ("base_congestion_mark_interval", "default_congestion_threshold", "mtu", "face_persistency", "flags")
            return tuple(told[kind] for kind in kinds)

        created = await answer("create", uri=b"udp4://127.0.0.1:9", mtu=1400)
        persistent = nfd_mgmt.FacePersistency.PERSISTENT
        assert created["status_code"] == 200
        assert settings(created) == (100_000_000, 65_536, 1400, persistent, 4)
        again = await answer("create", uri=b"udp4://127.0.0.1:9")
        assert (again["status_code"], settings(again)) == (409, settings(created))
        updated = await answer("update", face_id=created["face_id"], mtu=1300)
        assert (updated["status_code"], settings(updated)) == (200, (100_000_000, 65_536, 1300, persistent, 4))
        refused = await answer("update", face_id=created["face_id"], mtu=1, face_persistency=2)
        assert (refused["status_code"], refused["mtu"]) == (409, 1)


async def test_a_program_reads_answers_about_faces(router: Router):
    async with pyndn.current(router.unix) as client:
        for code in (200, 409):
            name = nfd_mgmt.make_command_v2("faces", "create", client.face, uri=b"udp4://127.0.0.1:9")
            signer = DigestSha256Signer(for_interest=True)
            _, content = await pyndn.fetch(client, name, app_param=b"", signer=signer)
            told = nfd_mgmt.parse_response(content)
            assert (told["status_code"], told["uri"]) == (code, "udp4://127.0.0.1:9")
