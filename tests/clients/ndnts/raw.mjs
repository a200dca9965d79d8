/** Single exchanges below NDNts's logical forwarder, where Nacks and PIT tokens are visible. */

import { FwPacket } from "@ndn/fw";
import { L3Face } from "@ndn/l3face";
import { Data, Interest, Nack } from "@ndn/packet";

import { openTransport } from "./uplink.mjs";

/**
 * Sends Interests on a new connection, each with its own PIT token. Collects
 * the answers until all have come or `wait_ms` is over.
 */
export async function exchangeRaw({ uplink, names, lifetime = 1000, wait_ms: waitMs = 2000 }) {
  const face = new L3Face(await openTransport(uplink));
  const answers = [];
  let finish;
  const finished = new Promise((resolve) => {
    finish = resolve;
  });
  const timer = setTimeout(finish, waitMs);
  const sending = face.tx((async function*() {
    for (const [i, name] of names.entries()) {
      yield FwPacket.create(new Interest(name, Interest.Lifetime(lifetime)), 1000 + i);
    }
    await finished;
  })());
  const receiving = (async () => {
    for await (const { l3, token } of face.rx) {
      if (l3 instanceof Data) {
        answers.push({ kind: "data", name: `${l3.name}`, token: token ?? null });
      } else if (l3 instanceof Nack) {
        answers.push({ kind: "nack", name: `${l3.interest.name}`, reason: l3.reason, token: token ?? null });
      }
      if (answers.length >= names.length) {
        finish();
      }
    }
  })();
  await finished;
  clearTimeout(timer);
  await Promise.allSettled([sending, receiving]);
  return answers;
}
