/** Producers and consumers of single Data packets. */

import { consume, produce } from "@ndn/endpoint";
import { PrefixAnn } from "@ndn/nfdmgmt";
import { Data, Interest, Name } from "@ndn/packet";
import { delay, fromUtf8, toUtf8 } from "@ndn/util";

import { signerOf } from "./keys.mjs";
import { clientOf, waitAdvertised } from "./uplink.mjs";

/**
 * Answers every Interest under `prefix`. The Data's name is the Interest's name
 * plus `suffix`. Its content is `content`, a space and a running number. With
 * `announce`, the producer registers by a signed prefix announcement.
 */
export async function produceData({
  client: id, prefix, content = "", suffix = [], freshness, delay_ms: delayMs = 0,
  announce: announceKey, expiration = 3600_000, wait_ms: waitMs = 5000,
}) {
  const client = clientOf(id);
  const name = new Name(prefix);
  let announcement;
  if (announceKey) {
    announcement = await PrefixAnn.build({ announced: name, expirationPeriod: expiration, signer: signerOf(announceKey) });
  }
  const state = { served: 0 };
  state.producer = produce(name, async (interest) => {
    const n = ++state.served;
    if (delayMs > 0) {
      await delay(delayMs);
    }
    const fields = freshness === undefined ? [] : [Data.FreshnessPeriod(freshness)];
    return new Data(interest.name.append(...suffix.map((c) => new Name(`/${c}`).at(0))), ...fields, toUtf8(`${content} ${n}`));
  }, { fw: client.fw, concurrency: 32, ...(announcement ? { announcement } : {}) });
  client.producers.set(prefix, state);
  return { advertised: await waitAdvertised(client, name, waitMs) };
}

/** Stops a producer and returns the number of Interests that it received. */
export async function stopProducer({ client: id, prefix, close = true, linger_ms: lingerMs = 200 }) {
  const client = clientOf(id);
  const { producer, served } = client.producers.get(prefix);
  if (close) {
    producer.close();
    client.producers.delete(prefix);
    await delay(lingerMs);
  }
  return { served };
}

/** Fetches one Data. If NDNts gives up, the result is `{rejected}`. */
export async function fetchData({
  client: id, name, can_be_prefix: canBePrefix, must_be_fresh: mustBeFresh, lifetime = 2000, hop_limit: hopLimit,
}) {
  const interest = new Interest(name, Interest.Lifetime(lifetime));
  interest.canBePrefix = Boolean(canBePrefix);
  interest.mustBeFresh = Boolean(mustBeFresh);
  if (hopLimit !== undefined) {
    interest.hopLimit = hopLimit;
  }
  const context = consume(interest, { fw: clientOf(id).fw });
  try {
    const data = await context;
    return { name: `${data.name}`, content: fromUtf8(data.content), freshness: data.freshnessPeriod, ms: context.rtt };
  } catch (err) {
    return { rejected: String(err.message) };
  }
}
