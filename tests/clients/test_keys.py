"""Certificates, requests, SafeBags and schemas, exchanged with python-ndn and OpenSSL."""

from __future__ import annotations

import base64
import os
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from Cryptodome.Hash import SHA256
from Cryptodome.PublicKey import ECC
from Cryptodome.Signature import DSS
from ndn.app_support.light_versec import Checker, DEFAULT_USER_FNS, compile_lvs
from ndn.app_support.light_versec.binary import LvsModel
from ndn.app_support.security_v2 import parse_certificate, sign_req
from ndn.encoding import Name, parse_data, parse_tl_num
from ndn.security import Sha256WithEcdsaSigner

from router import binary

NDND = os.environ.get("NDND_BIN", "")


def key(folder: Path, *args: str, stdin: bytes = b"") -> bytes:
    """Runs `byname key`, which must succeed. Returns its output."""
    done = subprocess.run([str(binary()), "key", *args, "--folder", str(folder)], input=stdin, capture_output=True)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout


def is_signed_by(certificate: bytes, public_key: bytes) -> bool:
    """Whether this key has signed a certificate, as python-ndn and pycryptodome see it."""
    _, _, _, signature = parse_data(certificate)
    digest = SHA256.new()
    for piece in signature.signature_covered_part:
        digest.update(piece)
    try:
        DSS.new(ECC.import_key(public_key), "fips-186-3", "der").verify(digest, bytes(signature.signature_value_buf))
    except ValueError:
        return False
    return True


@pytest.fixture
def network(tmp_path: Path) -> Path:
    """A folder with the anchor /example."""
    folder = tmp_path / "keys"
    key(folder, "anchor", "/example")
    return folder


def shown(folder: Path, name: str) -> bytes:
    return base64.b64decode(key(folder, "show", name, "--certificate"))


def test_python_ndn_verifies_our_certificates(network: Path) -> None:
    key(network, "make", "/example/alice")
    anchor, alice = shown(network, "/example"), shown(network, "/example/alice")
    parsed = parse_certificate(anchor)
    assert is_signed_by(anchor, bytes(parsed.content)) and is_signed_by(alice, bytes(parsed.content))
    assert not is_signed_by(alice, bytes(parse_certificate(alice).content))
    locator = Name.to_str(parse_certificate(alice).signature_info.key_locator.name)
    assert locator.startswith("/example/KEY/")
    assert bytes(parse_certificate(alice).signature_info.validity_period.not_after) > b"20260101T000000"


def test_we_sign_requests_of_python_ndn(network: Path, tmp_path: Path) -> None:
    pair = ECC.generate(curve="P-256")
    name = Name.from_str("/example/bob/KEY/%01%02%03")
    signer = Sha256WithEcdsaSigner(name, pair.export_key(format="DER", use_pkcs8=False))
    public_key = pair.public_key().export_key(format="DER")
    _, request = sign_req(name, public_key, signer)
    path = tmp_path / "bob.req"
    path.write_bytes(base64.b64encode(bytes(request)))
    certificate = base64.b64decode(key(network, "sign", str(path)))
    parsed = parse_certificate(certificate)
    assert bytes(parsed.content) == public_key
    assert Name.to_str(parsed.name).startswith("/example/bob/KEY/%01%02%03/example/v=")
    assert is_signed_by(certificate, bytes(parse_certificate(shown(network, "/example")).content))


@pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl is missing")
def test_safe_bags_open_elsewhere_and_those_of_openssl_open_here(network: Path, tmp_path: Path) -> None:
    passphrase = tmp_path / "passphrase"
    passphrase.write_text("correct horse\n")
    bag = base64.b64decode(key(network, "export", "/example", "--passphrase-file", str(passphrase)))
    # SafeBag = 0x80 LENGTH Data 0x81 LENGTH EncryptedPrivateKeyInfo
    typ, begin = parse_tl_num(bag)
    length, size = parse_tl_num(bag, begin)
    assert typ == 0x80 and begin + size + length == len(bag)
    certificate = shown(network, "/example")
    assert bag[begin + size :].startswith(certificate)
    rest = bag[begin + size + len(certificate) :]
    assert rest[0] == 0x81
    _, size = parse_tl_num(rest, 1)
    encrypted = tmp_path / "encrypted.der"
    encrypted.write_bytes(rest[1 + size :])

    def opened(secret: str) -> subprocess.CompletedProcess[bytes]:
        # pycryptodome can open it, too, but takes half a minute for the iterations.
        line = ["openssl", "pkcs8", "-inform", "DER", "-in", str(encrypted), "-outform", "DER"]
        return subprocess.run([*line, "-passin", f"pass:{secret}"], capture_output=True)

    private = ECC.import_key(opened("correct horse").stdout)
    assert private.public_key().export_key(format="DER") == bytes(parse_certificate(certificate).content)
    assert opened("wrong").returncode != 0

    vector = Path(__file__).resolve().parents[2] / "crates/trust/src/vectors/openssl.safebag"
    other = tmp_path / "other"
    key(other, "import", str(vector), "--passphrase-file", str(passphrase))
    assert b"/example/alice/KEY/" in key(other, "list")
    # The key is good for signing: a request of it verifies.
    request = base64.b64decode(key(other, "request", "/example/alice"))
    assert is_signed_by(request, bytes(parse_certificate(request).content))


def pyndnsec(folder: Path, *args: str) -> str:
    """Runs `pyndnsec` with a keychain in this folder. It must succeed, and it does not always tell by its exit code."""
    tool = [sys.executable, "-m", "ndn.bin.sec", "--pib", "pib-sqlite3", "--path", str(folder), "--tpm", "tpm-file",
            "--tpm-path", str(folder / "tpm")]
    done = subprocess.run([*tool, *args], stdin=subprocess.DEVNULL, capture_output=True, text=True)
    assert done.returncode == 0 and not done.stderr, done.stdout + done.stderr
    return done.stdout


def test_pyndnsec_and_we_sign_for_each_other(network: Path, tmp_path: Path) -> None:
    keychain, ours = tmp_path / "pyndnsec", tmp_path / "ours"
    pyndnsec(keychain, "init")
    pyndnsec(keychain, "new-item", "/example/py")
    request, signed = tmp_path / "py.req", tmp_path / "py.cert"
    request.write_text(pyndnsec(keychain, "get-signreq", "/example/py"))
    signed.write_bytes(key(network, "sign", str(request)))
    # It says nothing if it takes the certificate.
    assert pyndnsec(keychain, "import-cert", str(signed)) == ""
    listed = pyndnsec(keychain, "list", "-c")
    assert Name.to_str(parse_certificate(base64.b64decode(signed.read_bytes())).name) in listed

    request.write_bytes(key(ours, "request", "/example/py/bob"))
    signed.write_text(pyndnsec(keychain, "sign-cert", "-i", "py", "/example/py", str(request)))
    key(ours, "install", str(signed))
    told = key(ours, "show", "/example/py/bob").decode()
    assert "signed by    /example/py/KEY/" in told, told


def ndnd_sec(*args: str, stdin: bytes = b"") -> bytes:
    done = subprocess.run([NDND, "sec", *args], input=stdin, capture_output=True)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout


@pytest.mark.skipif(not NDND, reason="NDND_BIN names no ndnd to test with")
@pytest.mark.parametrize("kind", ["ed25519", "ecc secp256r1", "rsa 2048"])
def test_ndnd_and_we_sign_for_each_other(network: Path, tmp_path: Path, kind: str) -> None:
    secret, request, signed = tmp_path / "nd.key", tmp_path / "nd.req", tmp_path / "nd.cert"
    secret.write_bytes(ndnd_sec("keygen", "/example/nd", *kind.split()))
    request.write_bytes(ndnd_sec("sign-cert", str(secret), stdin=secret.read_bytes()))
    ours = key(network, "sign", str(request))
    certificate = ndnd_sec("pem-encode", stdin=base64.b64decode(ours))
    assert b"SignerKey: /example/KEY/" in certificate
    assert base64.b64decode(ours) == ndnd_sec("pem-decode", stdin=certificate)
    keychain = tmp_path / "keychain"
    keychain.mkdir()
    ndnd_sec("key-import", f"dir://{keychain}", stdin=secret.read_bytes() + certificate)
    assert b"/example/nd/KEY/" in ndnd_sec("key-list", f"dir://{keychain}")

    requested = base64.b64decode(key(tmp_path / "ours", "request", "/example/nd/bob"))
    signed.write_bytes(ndnd_sec("sign-cert", "--issuer", "nd", str(secret), stdin=ndnd_sec("pem-encode", stdin=requested)))
    key(tmp_path / "ours", "install", str(signed))
    told = key(tmp_path / "ours", "show", "/example/nd/bob").decode()
    assert "signed by    /example/nd/KEY/" in told, told


def test_python_ndn_and_we_compile_schemas_to_the_same(tmp_path: Path) -> None:
    text = textwrap.dedent("""
        #site: "example"/zone
        #root: "example"/#KEY
        #zone: #site/#KEY <= #root
        #user: #site/role/user/#KEY & { role: "author" | "editor" } <= #zone
        #post: #site/"post"/user/_id & { _id: $eq_type("v=0") } <= #user
        #KEY: "KEY"/_/_/_
    """)
    path, compiled = tmp_path / "schema.trust", tmp_path / "schema.tlv"
    path.write_text(text)
    key(tmp_path, "schema", str(path), "-o", str(compiled))
    assert compiled.read_bytes() == bytes(compile_lvs(text).encode())
    checker = Checker(LvsModel.parse(compiled.read_bytes()), DEFAULT_USER_FNS)
    assert checker.check("/example/z/post/al/v=7", "/example/z/author/al/KEY/1/z/v=1")
    assert not checker.check("/example/z/post/al/v=7", "/example/z/author/bo/KEY/1/z/v=1")
