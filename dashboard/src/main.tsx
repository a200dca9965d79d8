// The frame of all pages: navigation, theme, token, keys and messages.

import { render } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import { dropToken, get, setToken, takeToken, token } from './api';
import './style/frame.css';
import './style/parts.css';
import './style/pages.css';
import './style/narrow.css';
import { duration } from './format';
import { linkTo, say, startLive, useLive, useMessages, usePlace, words } from './store';
import { Button, Dialog, Field, Trouble } from './ui';
import { Audit } from './pages/audit';
import { Content } from './pages/content';
import { Faces } from './pages/faces';
import { NetworkMap } from './pages/map';
import { Overview } from './pages/overview';
import { Routes } from './pages/routes';
import { Strategies } from './pages/strategies';
import { Tags } from './pages/tags';
import { Threads } from './pages/threads';
import { Traces } from './pages/traces';

const PAGES = [
  { id: 'overview', title: 'Overview', key: 'o', page: Overview },
  { id: 'faces', title: 'Faces', key: 'f', page: Faces },
  { id: 'routes', title: 'Routes', key: 'r', page: Routes },
  { id: 'strategies', title: 'Strategies', key: 's', page: Strategies },
  { id: 'content', title: 'Content store', key: 'c', page: Content },
  { id: 'tags', title: 'Tags and trees', key: 't', page: Tags },
  { id: 'threads', title: 'Threads', key: 'h', page: Threads },
  { id: 'traces', title: 'Traces', key: 'l', page: Traces },
  { id: 'audit', title: 'Audit', key: 'a', page: Audit },
  { id: 'map', title: 'Map', key: 'm', page: NetworkMap },
] as const;

const THEMES = ['system', 'light', 'dark'] as const;
type Theme = (typeof THEMES)[number];

function useTheme(): [Theme, () => void] {
  const [theme, setTheme] = useState<Theme>(() => (localStorage.getItem('byname-theme') as Theme | null) ?? 'system');
  useEffect(() => {
    localStorage.setItem('byname-theme', theme);
    if (theme === 'system') delete document.documentElement.dataset['theme'];
    else document.documentElement.dataset['theme'] = theme;
  }, [theme]);
  return [theme, () => setTheme(THEMES[(THEMES.indexOf(theme) + 1) % THEMES.length]!)];
}

/** `g` and a letter lead to a page, `/` to the search field, `?` to the list of keys. */
function useKeys(showHelp: () => void): void {
  useEffect(() => {
    let isGoing = false;
    const pressed = (event: KeyboardEvent): void => {
      const target = event.target as HTMLElement;
      if (event.ctrlKey || event.metaKey || event.altKey || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName)) return;
      if (document.querySelector('dialog[open]')) return;
      const page = isGoing && PAGES.find((page) => page.key === event.key);
      isGoing = event.key === 'g';
      if (page) {
        location.hash = linkTo(page.id);
      } else if (event.key === '/') {
        const field = document.querySelector<HTMLInputElement>('[data-search]');
        field?.focus();
        if (field) event.preventDefault();
      } else if (event.key === '?') {
        showHelp();
      }
    };
    addEventListener('keydown', pressed);
    return () => removeEventListener('keydown', pressed);
  }, []);
}

function TokenDialog(props: { onClose: () => void }) {
  const [text, setText] = useState('');
  const [trouble, setTrouble] = useState<string | null>(null);
  const take = async (event: Event): Promise<void> => {
    event.preventDefault();
    // The whole address may be pasted, too.
    setToken(text.trim().replace(/^.*#token=/, ''));
    try {
      await get('token');
      say('good', 'This page may change the router now.');
      props.onClose();
    } catch (error) {
      dropToken();
      setTrouble(words(error));
    }
  };
  return (
    <Dialog title="Unlock changes" onClose={props.onClose}>
      <p>
        Everybody on the router's host can look. What changes the router, and live traces, need its token. This command prints
        an address with it:
      </p>
      <pre>byname dashboard</pre>
      <form class="form" onSubmit={take}>
        <Field label="Token, or the address with it">
          {(id) => <input id={id} type="password" autocomplete="off" value={text} onInput={(event) => setText(event.currentTarget.value)} />}
        </Field>
        <Trouble text={trouble} />
        <div class="form-end">
          <Button type="submit" tone="main" disabled={!text}>
            Unlock
          </Button>
        </div>
      </form>
    </Dialog>
  );
}

function HelpDialog(props: { onClose: () => void }) {
  return (
    <Dialog title="Keys" onClose={props.onClose}>
      <dl class="keys">
        {PAGES.map((page) => (
          <div key={page.id}>
            <dt>
              <kbd>g</kbd> <kbd>{page.key}</kbd>
            </dt>
            <dd>{page.title}</dd>
          </div>
        ))}
        <div>
          <dt>
            <kbd>/</kbd>
          </dt>
          <dd>Search</dd>
        </div>
        <div>
          <dt>
            <kbd>?</kbd>
          </dt>
          <dd>This list</dd>
        </div>
      </dl>
    </Dialog>
  );
}

function App() {
  const { page: id } = usePlace();
  const { live, error } = useLive();
  const [theme, nextTheme] = useTheme();
  const [dialog, setDialog] = useState<'token' | 'help' | null>(null);
  const messages = useMessages();
  const isUnlocked = token() !== null;
  const current = PAGES.find((page) => page.id === id) ?? PAGES[0];
  useKeys(() => setDialog('help'));
  useEffect(() => {
    document.title = `${current.title} · byname`;
    document.querySelector('.nav [aria-current]')?.scrollIntoView({ block: 'nearest', inline: 'nearest' });
    scrollTo(0, 0);
  }, [current.id]);
  useEffect(() => {
    if (token()) get('token').catch(() => (dropToken(), say('bad', 'The token is not this router’s any more.')));
  }, []);
  return (
    <div class="frame">
      <a class="skip" href="#content" onClick={(event) => (event.preventDefault(), document.getElementById('content')?.focus())}>
        Skip to the content
      </a>
      <aside class="bar">
        <a class="brand" href={linkTo('overview')}>
          <svg viewBox="0 0 32 32" aria-hidden="true">
            <path d="M11 24 20 8" />
            <circle class="one" cx="8.5" cy="11" r="3" />
            <circle class="two" cx="23.5" cy="21" r="3" />
          </svg>
          byname
        </a>
        <nav class="nav" aria-label="Pages">
          {PAGES.map((page) => (
            <a key={page.id} href={linkTo(page.id)} aria-current={page.id === current.id ? 'page' : undefined}>
              {page.title}
            </a>
          ))}
        </nav>
        <div class="bar-end">
          <p class="pulse" role="status">
            <i class={error ? 'bad' : live ? 'good' : ''} />
            {error ? 'no answer' : live ? `up ${duration(live.uptime_ms)}` : 'one moment'}
          </p>
          <div class="bar-buttons">
            <Button tone="quiet" onClick={() => setDialog('token')} aria-pressed={isUnlocked}>
              {isUnlocked ? 'Unlocked' : 'Read only'}
            </Button>
            <Button tone="quiet" onClick={nextTheme} aria-label={`Colours: ${theme}`} title={`Colours: ${theme}`}>
              {theme === 'dark' ? '☾' : theme === 'light' ? '☀' : '◐'}
            </Button>
            <Button tone="quiet" onClick={() => setDialog('help')} aria-label="Keys" title="Keys">
              ?
            </Button>
          </div>
        </div>
      </aside>
      <current.page key={current.id} />
      <div class="messages" role="status" aria-live="polite">
        {messages.map((message) => (
          <p key={message.id} class={message.kind}>
            {message.text}
          </p>
        ))}
      </div>
      {dialog === 'token' && <TokenDialog onClose={() => setDialog(null)} />}
      {dialog === 'help' && <HelpDialog onClose={() => setDialog(null)} />}
    </div>
  );
}

takeToken();
startLive();
render(<App />, document.getElementById('app')!);
