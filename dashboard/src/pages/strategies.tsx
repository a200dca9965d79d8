import { useState } from 'preact/hooks';
import { token, withQuery } from '../api';
import { strategyWord } from '../format';
import { usePolled } from '../store';
import type { StrategyPage } from '../types';
import { Button, Card, CommandForm, Dialog, Empty, Field, NameLink, Page, Search, Trouble, useSettled } from '../ui';

const WORDS: Record<string, string> = {
  'best-route': 'asks the cheapest nexthop, and the next one for a retransmission',
  multicast: 'asks all nexthops',
  asf: 'asks the nexthop with the lowest round-trip time, and probes others',
  access: 'asks the nexthop that answered last, or all',
  random: 'asks a random nexthop',
  'self-learning': 'floods, and learns routes from what comes back',
};

const programOf = (strategy: string): string => strategyWord(strategy).split('/')[0] ?? '';

export function Strategies() {
  const [search, setSearch] = useState('');
  const [editing, setEditing] = useState<{ prefix: string; strategy: string } | null>(null);
  const [unsetting, setUnsetting] = useState<string | null>(null);
  const part = useSettled(search);
  const { data, error, reload } = usePolled<StrategyPage>(withQuery('strategies', { search: part, limit: 200 }), 5000);
  const done = (): void => (setEditing(null), setUnsetting(null), reload());
  return (
    <Page
      title="Strategies"
      lead="A strategy decides which nexthops an Interest goes to. The longest prefix with a choice counts."
      actions={
        <Button tone="main" disabled={!token()} onClick={() => setEditing({ prefix: '', strategy: '' })}>
          Set a strategy
        </Button>
      }
    >
      <Trouble text={error} />
      <Card>
        <div class="tools">
          <Search label="Search prefixes" value={search} onInput={setSearch} />
        </div>
        <ul class="rows">
          {data?.choices.map((choice) => (
            <li key={choice.prefix}>
              <NameLink name={choice.prefix} />
              <span class="grow">
                <span class="name">{strategyWord(choice.strategy)}</span> <span class="note">{WORDS[programOf(choice.strategy)]}</span>
              </span>
              <span class="row-end">
                <Button tone="quiet" disabled={!token()} onClick={() => setEditing(choice)} aria-label={`Change the strategy of ${choice.prefix}`}>
                  Change
                </Button>
                {choice.prefix !== '/' && (
                  <Button tone="quiet" disabled={!token()} onClick={() => setUnsetting(choice.prefix)} aria-label={`Unset the strategy of ${choice.prefix}`}>
                    Unset
                  </Button>
                )}
              </span>
            </li>
          ))}
        </ul>
        {data?.choices.length === 0 && <Empty>No prefix matches.</Empty>}
        {data?.next != null && <p class="note">There are more. The search finds them.</p>}
      </Card>
      {editing && data && <SetStrategy choice={editing} known={data.known} onClose={() => setEditing(null)} onDone={done} />}
      {unsetting && (
        <Dialog title="Unset a strategy" onClose={() => setUnsetting(null)}>
          <CommandForm command="strategy-choice/unset" button="Unset" tone="danger" parameters={() => ({ name: unsetting })} done={() => `${unsetting} has the strategy of the next shorter prefix.`} onDone={done}>
            <p>
              <span class="name">{unsetting}</span> will have the strategy of the next shorter prefix with a choice.
            </p>
          </CommandForm>
        </Dialog>
      )}
    </Page>
  );
}

function SetStrategy(props: { choice: { prefix: string; strategy: string }; known: string[]; onClose: () => void; onDone: () => void }) {
  const [prefix, setPrefix] = useState(props.choice.prefix);
  const [strategy, setStrategy] = useState(props.choice.strategy || (props.known[0] ?? ''));
  const program = programOf(strategy);
  return (
    <Dialog title="Set a strategy" onClose={props.onClose}>
      <CommandForm command="strategy-choice/set" button="Set" parameters={() => ({ name: prefix.trim(), strategy: strategy.trim() })} done={() => `${prefix} uses ${strategyWord(strategy)}.`} onDone={props.onDone}>
        <Field label="Prefix">
          {(id) => <input id={id} required placeholder="/ndn" value={prefix} spellcheck={false} onInput={(event) => setPrefix(event.currentTarget.value)} />}
        </Field>
        <fieldset class="choices">
          <legend>Strategy</legend>
          {props.known.map((name) => (
            <label key={name} class="check">
              <input type="radio" name="strategy" checked={programOf(name) === program} onChange={() => setStrategy(name)} />
              <span>
                <b>{programOf(name)}</b> <span class="note">{WORDS[programOf(name)]}</span>
              </span>
            </label>
          ))}
        </fieldset>
        <Field label="Full name" hint="Parameters may follow, for example …/asf/v=5/probing-interval~30000">
          {(id, hint) => <input id={id} aria-describedby={hint} required value={strategy} spellcheck={false} onInput={(event) => setStrategy(event.currentTarget.value)} />}
        </Field>
      </CommandForm>
    </Dialog>
  );
}
