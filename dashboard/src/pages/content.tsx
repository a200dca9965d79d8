import { useMemo, useState } from 'preact/hooks';
import { command, token } from '../api';
import { Chart } from '../chart';
import { bytes, percent, whole } from '../format';
import { say, useLive, words } from '../store';
import { Button, Card, CommandForm, Field, Meter, Page, Stat, Stats, Trouble } from '../ui';

export function Content() {
  const { live, before, points, error } = useLive();
  const [prefix, setPrefix] = useState('/');
  const [capacity, setCapacity] = useState('');
  const at = useMemo(() => points.map((point) => point.at), [points]);
  const series = useMemo(() => [{ label: 'Hit ratio', colour: '--teal', values: points.map((point) => point.hitRatio), filled: true }], [points]);
  const store = live?.content_store;
  const all = store ? store.hits + store.misses : 0;
  const seconds = live && before ? (live.at_ms - before.at_ms) / 1000 : NaN;
  const hits = live && before ? (live.content_store.hits - before.content_store.hits) / seconds : NaN;
  const set = async (flag: 'admit' | 'serve', on: boolean): Promise<void> => {
    try {
      await command('cs/config', { [flag]: on });
      say('good', `The content store ${on ? '' : 'no longer '}${flag === 'admit' ? 'admits Data' : 'answers Interests'}${on ? ' again' : ''}.`);
    } catch (error) {
      say('bad', words(error));
    }
  };
  return (
    <Page title="Content store" lead="Data that passes is kept, and answers later Interests for it.">
      <Trouble text={error} />
      {store && (
        <Stats>
          <Stat label="Packets" value={whole(store.entries)} note={<Meter share={store.entries / store.capacity} label={`${percent(store.entries / store.capacity)} full`} />} />
          <Stat label="Capacity" value={whole(store.capacity)} note="packets" />
          <Stat label="Memory" value={bytes(store.bytes)} note={store.entries > 0 ? `${bytes(store.bytes / store.entries)} a packet` : 'empty'} />
          <Stat label="Hits" value={Number.isFinite(hits) ? `${whole(hits)}/s` : '–'} note={`${whole(store.hits)} so far`} />
          <Stat label="Hit ratio" value={all > 0 ? percent(store.hits / all) : '–'} note="since the start" />
        </Stats>
      )}
      <Card title="Hit ratio" note="the last three minutes">
        <Chart label="Hit ratio" at={at} series={series} format={percent} max={1.02} />
      </Card>
      <div class="grid two">
        <Card title="Settings">
          {store && (
            <>
              <label class="check">
                <input type="checkbox" role="switch" checked={store.admit} disabled={!token()} onChange={(event) => void set('admit', event.currentTarget.checked)} />
                Admit Data that passes
              </label>
              <label class="check">
                <input type="checkbox" role="switch" checked={store.serve} disabled={!token()} onChange={(event) => void set('serve', event.currentTarget.checked)} />
                Answer Interests
              </label>
            </>
          )}
          <CommandForm command="cs/config" button="Set" parameters={() => ({ capacity: Number(capacity) })} done={(answer) => `The content store holds ${whole(Number(answer['capacity']))} packets.`} onDone={() => setCapacity('')}>
            <Field label="Capacity" hint="Packets">
              {(id, hint) => <input id={id} aria-describedby={hint} type="number" min="0" required placeholder={store ? String(store.capacity) : ''} value={capacity} onInput={(event) => setCapacity(event.currentTarget.value)} />}
            </Field>
          </CommandForm>
        </Card>
        <Card title="Erase">
          <Erase prefix={prefix} onPrefix={setPrefix} />
        </Card>
      </div>
    </Page>
  );
}

/** One command erases a bounded number of packets, so it is repeated until nothing is left. */
function Erase(props: { prefix: string; onPrefix: (prefix: string) => void }) {
  const [erased, setErased] = useState<number | null>(null);
  const [trouble, setTrouble] = useState<string | null>(null);
  const erase = async (event: Event): Promise<void> => {
    event.preventDefault();
    setTrouble(null);
    setErased(0);
    let all = 0;
    try {
      for (;;) {
        const answer = await command('cs/erase', { name: props.prefix.trim() });
        all += Number(answer['count'] ?? 0);
        setErased(all);
        // The router says its limit if it has stopped there.
        if (answer['capacity'] === undefined) break;
      }
      say('good', `${whole(all)} packets were erased.`);
    } catch (error) {
      setTrouble(words(error));
    } finally {
      setErased(null);
    }
  };
  return (
    <form class="form" onSubmit={erase}>
      <Field label="Prefix" hint="All Data at or below it leaves the store">
        {(id, hint) => <input id={id} aria-describedby={hint} required value={props.prefix} spellcheck={false} onInput={(event) => props.onPrefix(event.currentTarget.value)} />}
      </Field>
      <Trouble text={trouble} />
      <div class="form-end">
        <Button type="submit" tone="danger" disabled={erased !== null || !token()}>
          {erased === null ? 'Erase' : `${whole(erased)} erased …`}
        </Button>
      </div>
    </form>
  );
}
