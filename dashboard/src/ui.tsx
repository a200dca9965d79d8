// The parts that all pages are made of.

import type { ComponentChildren, JSX } from 'preact';
import { useEffect, useId, useLayoutEffect, useRef, useState } from 'preact/hooks';
import { command, token } from './api';
import { linkTo, say, words } from './store';

export function Page(props: { title: string; lead?: ComponentChildren; actions?: ComponentChildren; children: ComponentChildren }) {
  return (
    <main id="content" tabIndex={-1}>
      <header class="page-head">
        <div>
          <h1>{props.title}</h1>
          {props.lead && <p class="lead">{props.lead}</p>}
        </div>
        {props.actions && <div class="actions">{props.actions}</div>}
      </header>
      {props.children}
    </main>
  );
}

export function Card(props: { title?: ComponentChildren; note?: ComponentChildren; class?: string; children: ComponentChildren }) {
  return (
    <section class={`card ${props.class ?? ''}`}>
      {props.title && (
        <header class="card-head">
          <h2>{props.title}</h2>
          {props.note && <span class="note">{props.note}</span>}
        </header>
      )}
      {props.children}
    </section>
  );
}

export function Stat(props: { label: string; value: ComponentChildren; note?: ComponentChildren; tone?: string }) {
  return (
    <div class="stat">
      <dt>{props.label}</dt>
      <dd class={props.tone}>{props.value}</dd>
      {props.note !== undefined && <dd class="note">{props.note}</dd>}
    </div>
  );
}

export const Stats = (props: { children: ComponentChildren }) => <dl class="stats">{props.children}</dl>;

export function Empty(props: { children: ComponentChildren }) {
  return <p class="empty">{props.children}</p>;
}

export function Trouble(props: { text: string | null }) {
  return props.text ? <p class="trouble" role="alert">{props.text}</p> : null;
}

export function Badge(props: { tone?: 'good' | 'bad' | 'warn' | 'plain'; children: ComponentChildren }) {
  return <span class={`badge ${props.tone ?? 'plain'}`}>{props.children}</span>;
}

/** A name, which leads to its routes. */
export function NameLink(props: { name: string; text?: string }) {
  return (
    <a class="name" href={linkTo('routes', { name: props.name })} title={props.name}>
      {props.text ?? props.name}
    </a>
  );
}

/** A face, by number and peer. */
export function FaceLink(props: { id: number; uri?: string | null }) {
  return (
    <a class="face" href={linkTo('faces', { face: String(props.id) })}>
      <span class="num">{props.id}</span>
      {props.uri && <span class="name">{props.uri}</span>}
    </a>
  );
}

type ButtonProps = JSX.HTMLAttributes<HTMLButtonElement> & {
  tone?: 'main' | 'danger' | 'quiet';
  type?: 'button' | 'submit';
  disabled?: boolean;
};

export function Button({ tone, class: more, type, ...rest }: ButtonProps) {
  return <button {...rest} type={type ?? 'button'} class={`button ${tone ?? ''} ${more ?? ''}`} />;
}

export function Field(props: { label: string; hint?: string; children: (id: string, describedBy?: string) => ComponentChildren }) {
  const id = useId();
  return (
    <div class="field">
      <label for={id}>{props.label}</label>
      {props.children(id, props.hint ? `${id}-hint` : undefined)}
      {props.hint && <span class="note" id={`${id}-hint`}>{props.hint}</span>}
    </div>
  );
}

/** A search field; `/` leads to it. */
export function Search(props: { label: string; value: string; placeholder?: string; onInput: (value: string) => void }) {
  const field = useRef<HTMLInputElement>(null);
  return (
    <input
      ref={field}
      type="search"
      class="search"
      aria-label={props.label}
      data-search
      placeholder={props.placeholder ?? props.label}
      value={props.value}
      spellcheck={false}
      autocomplete="off"
      onInput={(event) => props.onInput(event.currentTarget.value)}
    />
  );
}

/** A value that follows another one when that has stood still for a while. */
export function useSettled<T>(value: T, ms = 200): T {
  const [settled, setSettled] = useState(value);
  useEffect(() => {
    const timer = setTimeout(() => setSettled(value), ms);
    return () => clearTimeout(timer);
  }, [value, ms]);
  return settled;
}

/** A dialog over the page. Escape and a click outside close it. */
export function Dialog(props: { title: string; side?: boolean; onClose: () => void; children: ComponentChildren }) {
  const dialog = useRef<HTMLDialogElement>(null);
  const id = useId();
  useEffect(() => {
    const before = document.activeElement as HTMLElement | null;
    dialog.current?.showModal();
    return () => before?.focus?.();
  }, []);
  return (
    <dialog
      ref={dialog}
      class={props.side ? 'side' : ''}
      aria-labelledby={id}
      onClose={props.onClose}
      onClick={(event) => event.target === event.currentTarget && event.currentTarget.close()}
    >
      <div class="dialog-body">
        <header class="dialog-head">
          <h2 id={id}>{props.title}</h2>
          <Button tone="quiet" aria-label="Close" onClick={() => dialog.current?.close()}>
            ✕
          </Button>
        </header>
        {props.children}
      </div>
    </dialog>
  );
}

/** A form that sends a command, and says what came of it. */
export function CommandForm(props: {
  command: string;
  button: string;
  tone?: 'main' | 'danger';
  parameters: () => object;
  done: (answer: Record<string, unknown>) => string;
  onDone: () => void;
  children?: ComponentChildren;
}) {
  const [isBusy, setBusy] = useState(false);
  const [trouble, setTrouble] = useState<string | null>(null);
  const send = async (event: Event): Promise<void> => {
    event.preventDefault();
    setBusy(true);
    setTrouble(null);
    try {
      const answer = await command(props.command, props.parameters());
      say('good', props.done(answer));
      props.onDone();
    } catch (error) {
      setTrouble(words(error));
    } finally {
      setBusy(false);
    }
  };
  return (
    <form class="form" onSubmit={send}>
      {props.children}
      <Trouble text={trouble} />
      <div class="form-end">
        <Button type="submit" tone={props.tone ?? 'main'} disabled={isBusy || !token()}>
          {isBusy ? 'One moment …' : props.button}
        </Button>
      </div>
    </form>
  );
}

/** A long list of rows of one height, of which only those on the screen exist. */
export function LongList<T>(props: {
  rows: T[];
  rowHeight: number;
  label: string;
  class?: string;
  row: (row: T, index: number) => ComponentChildren;
  onEnd?: () => void;
}) {
  const frame = useRef<HTMLDivElement>(null);
  const [view, setView] = useState({ top: 0, height: 600 });
  const look = (): void => {
    const element = frame.current;
    if (element) setView({ top: element.scrollTop, height: element.clientHeight });
  };
  useLayoutEffect(look, []);
  useEffect(() => {
    const observer = new ResizeObserver(look);
    if (frame.current) observer.observe(frame.current);
    return () => observer.disconnect();
  }, []);
  const first = Math.max(0, Math.floor(view.top / props.rowHeight) - 6);
  const last = Math.min(props.rows.length, Math.ceil((view.top + view.height) / props.rowHeight) + 6);
  const isAtEnd = last >= props.rows.length;
  useEffect(() => {
    if (isAtEnd) props.onEnd?.();
  }, [isAtEnd, props.rows.length]);
  return (
    <div ref={frame} class={`long-list ${props.class ?? ''}`} style={{ height: `min(${Math.max(1, props.rows.length) * props.rowHeight}px, max(22rem, calc(100vh - 17rem)))` }} tabIndex={0} role="group" aria-label={props.label} onScroll={look}>
      <div style={{ height: `${props.rows.length * props.rowHeight}px`, position: 'relative' }}>
        {props.rows.slice(first, last).map((row, place) => (
          <div key={first + place} class="long-row" style={{ top: `${(first + place) * props.rowHeight}px`, height: `${props.rowHeight}px` }}>
            {props.row(row, first + place)}
          </div>
        ))}
      </div>
    </div>
  );
}

/** A bar of shares. */
export function Meter(props: { share: number; tone?: string; label: string }) {
  const share = Math.min(1, Math.max(0, Number.isFinite(props.share) ? props.share : 0));
  return (
    <span class="meter" role="img" aria-label={props.label}>
      <span class={props.tone ?? ''} style={{ width: `${share * 100}%` }} />
    </span>
  );
}
