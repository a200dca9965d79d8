import { useEffect, useState } from 'preact/hooks';
import { get } from '../api';
import { words } from '../store';
import type { AuditLine, AuditPage } from '../types';
import { Badge, Button, Card, Empty, FaceLink, Page, Search, Trouble } from '../ui';

/** Lines that the page keeps. */
const KEPT = 500;
/** Lines that are shown at first, and that are added. */
const SHOWN = 80;

export function Audit() {
  const [lines, setLines] = useState<AuditLine[]>([]);
  const [trouble, setTrouble] = useState<string | null>(null);
  const [search, setSearch] = useState('');
  const [shown, setShown] = useState(SHOWN);
  useEffect(() => {
    let last = 0;
    let isOver = false;
    const read = async (): Promise<void> => {
      try {
        const page = await get<AuditPage>(`audit?after=${last}`);
        if (isOver) return;
        last = page.last;
        if (page.lines.length > 0) setLines((before) => [...page.lines.reverse(), ...before].slice(0, KEPT));
        setTrouble(null);
      } catch (error) {
        setTrouble(words(error));
      }
      if (!isOver) setTimeout(read, 2000);
    };
    void read();
    return () => void (isOver = true);
  }, []);
  const part = search.trim();
  const found = part ? lines.filter((line) => JSON.stringify(line).includes(part)) : lines;
  return (
    <Page title="Audit" lead="The last commands to management: who sent them, and what came of them. [audit] in the configuration keeps them in a file.">
      <Trouble text={trouble} />
      <Card>
        <div class="tools">
          <Search label="Search commands" value={search} onInput={setSearch} />
          <span class="note">{found.length} found</span>
        </div>
        {found.length === 0 && <Empty>{part ? 'No command matches.' : 'There was no command yet.'}</Empty>}
        <ol class="audit">
          {found.slice(0, shown).map((line, place) => (
            <li key={`${line.time} ${place}`}>
              <time class="num note">{line.time.slice(11, 23)}</time>
              <Badge tone={line.code === 200 ? 'good' : 'bad'}>{line.code}</Badge>
              <b class="command">{line.command}</b>
              <span class="grow wrap">
                {Object.entries(line.parameters ?? {}).map(([key, value]) => (
                  <span key={key} class="parameter">
                    <span class="note">{key.replaceAll('_', ' ')}</span> <span class="name">{String(value)}</span>
                  </span>
                ))}
                {line.text && <span class="warn">{line.text}</span>}
              </span>
              <span class="from">
                <span class="note">by</span> {line.key ? <span class="name">{line.key}</span> : line.remote === 'internal://dashboard' ? 'the dashboard' : <FaceLink id={line.face} uri={line.remote} />}
              </span>
            </li>
          ))}
        </ol>
        {found.length > shown && (
          <div class="form-end">
            <Button onClick={() => setShown(shown + SHOWN)}>Show more</Button>
          </div>
        )}
      </Card>
    </Page>
  );
}
