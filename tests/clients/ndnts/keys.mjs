/** Keys that sign commands and announcements. The tests choose their names. */

import { Certificate, ECDSA, Ed25519, generateSigningKey, HMAC, RSA } from "@ndn/keychain";
import { digestSigning } from "@ndn/packet";
import { Encoder } from "@ndn/tlv";

const algorithms = { ecdsa: ECDSA, rsa: RSA, ed25519: Ed25519, hmac: HMAC };
const signers = new Map();

/**
 * Creates a key under `identity` and returns its self-signed certificate in
 * base64. An HMAC key comes from `secret`, in hexadecimal, and has no
 * certificate.
 */
export async function makeKey({ key, identity, algorithm = "ecdsa", secret }) {
  const options = secret ? { importRaw: Buffer.from(secret, "hex") } : undefined;
  const [privateKey, publicKey] = await generateSigningKey(identity, algorithms[algorithm], options);
  if (algorithm === "hmac") {
    signers.set(key, privateKey);
    return { name: `${privateKey.name}` };
  }
  const certificate = await Certificate.selfSign({ privateKey, publicKey });
  signers.set(key, privateKey.withKeyLocator(certificate.name));
  return {
    name: `${privateKey.name}`,
    certificate_name: `${certificate.name}`,
    certificate: Buffer.from(Encoder.encode(certificate.data)).toString("base64"),
  };
}

/** Returns the signer with that name, or DigestSha256 without a name. */
export function signerOf(key) {
  if (key === undefined || key === null) {
    return digestSigning;
  }
  const signer = signers.get(key);
  if (!signer) {
    throw new Error(`no key ${key}`);
  }
  return signer;
}
