/** NDNts's client for the NFD management protocol. */

import {
  ChannelStatus, ControlParameters, CsInfo, FaceQuery, FaceStatus, GeneralStatus, getPrefix, invoke, invokeCsErase,
  invokeGeneric, ControlCommandOptions, list, PrefixAnn, RibEntry, StrategyChoice,
} from "@ndn/nfdmgmt";
import { Name } from "@ndn/packet";
import { toHex } from "@ndn/util";

import { signerOf } from "./keys.mjs";
import { clientOf } from "./uplink.mjs";

const datasets = {
  "status/general": GeneralStatus,
  "faces/list": FaceStatus,
  "faces/channels": ChannelStatus,
  "rib/list": RibEntry,
  "cs/info": CsInfo,
  "strategy-choice/list": StrategyChoice,
};

/** Turns NDNts structures into plain JSON: names as URIs, numbers as numbers. */
function plain(value) {
  if (value instanceof Name) {
    return `${value}`;
  }
  if (typeof value === "bigint") {
    return Number(value);
  }
  if (value instanceof Uint8Array) {
    return toHex(value);
  }
  if (Array.isArray(value)) {
    return value.map(plain);
  }
  if (value && typeof value === "object") {
    return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, plain(item)]));
  }
  return value;
}

function optionsOf({ client, signer, hop = false, lifetime }) {
  return {
    prefix: getPrefix(!hop),
    signer: signerOf(signer),
    cOpts: { fw: clientOf(client).fw, ...(lifetime ? { modifyInterest: { lifetime } } : {}) },
  };
}

function plainResponse(response) {
  let body = null;
  if (response.body.length > 0) {
    try {
      body = plain(ControlParameters.decodeFromResponseBody(response));
    } catch {
      body = toHex(response.body);
    }
  }
  return { code: response.statusCode, text: response.statusText, body };
}

/** Invokes a control command. `params` has NDNts's field names, and NDN names as URIs. */
export async function invokeCommand({ command, params, ...rest }) {
  const fields = { ...params };
  for (const key of ["name", "strategy"]) {
    if (typeof fields[key] === "string") {
      fields[key] = new Name(fields[key]);
    }
  }
  return plainResponse(await invoke(command, fields, optionsOf(rest)));
}

/** Reads a status dataset. With `filter`, it is faces/query. */
export async function dataset({ dataset: name, filter, ...rest }) {
  const items = await list(filter ? FaceQuery(filter) : datasets[name], optionsOf(rest));
  return items.map(plain);
}

/** Erases all cached packets under `name` and returns their number. */
export async function csErase({ name, ...rest }) {
  return { count: await invokeCsErase(new Name(name), optionsOf(rest)) };
}

/** Sends rib/announce with a signed prefix announcement. */
export async function announce({ name, expiration = 3600_000, cost = 0, key, ...rest }) {
  const announcement = await PrefixAnn.build({
    announced: new Name(name), expirationPeriod: expiration, cost, signer: signerOf(key),
  });
  return plainResponse(await invokeGeneric("rib/announce", announcement.data, {
    ...optionsOf(rest),
    formatCommand: ControlCommandOptions.formatCommandAppParams,
  }));
}
