// Numbers, sizes and times for people.

const grouped = new Intl.NumberFormat('en-GB');

/** `1,234,567` */
export const whole = (n: number): string => grouped.format(Math.round(n));

/** `12.3 k`: three digits, and a unit for thousands. */
export function short(n: number): string {
  if (!Number.isFinite(n)) return '–';
  for (const [unit, size] of [['G', 1e9], ['M', 1e6], ['k', 1e3]] as const) {
    if (Math.abs(n) >= size * 0.9995) return `${digits(n / size)} ${unit}`;
  }
  return digits(n);
}

function digits(n: number): string {
  const size = Math.abs(n);
  if (size === 0) return '0';
  if (size >= 99.95) return n.toFixed(0);
  if (size >= 9.995) return trimmed(n.toFixed(1));
  return trimmed(n.toFixed(size < 0.1 ? 3 : 2));
}

const trimmed = (text: string): string => (text.includes('.') ? text.replace(/\.?0+$/, '') : text);

/** `1.5 MiB` */
export function bytes(n: number): string {
  for (const [unit, size] of [['GiB', 2 ** 30], ['MiB', 2 ** 20], ['KiB', 2 ** 10]] as const) {
    if (n >= size) return `${digits(n / size)} ${unit}`;
  }
  return `${Math.round(n)} B`;
}

/** Bytes in a second, as bits: `12.5 Mbit/s` */
export const bitRate = (bytesPerS: number): string => `${short(bytesPerS * 8)}bit/s`.replace(/(\d)bit/, '$1 bit');

export const percent = (share: number): string => (Number.isFinite(share) ? `${digits(share * 100)} %` : '–');

/** `350 ns`, `1.2 µs`, `4 ms` */
export function nanoseconds(ns: number): string {
  if (!Number.isFinite(ns)) return '–';
  if (ns >= 1e9) return `${digits(ns / 1e9)} s`;
  if (ns >= 1e6) return `${digits(ns / 1e6)} ms`;
  if (ns >= 1e3) return `${digits(ns / 1e3)} µs`;
  return `${digits(ns)} ns`;
}

/** `3 d 4 h`, `12 min`, `5 s` */
export function duration(ms: number): string {
  const s = Math.floor(ms / 1000);
  if (s >= 86_400) return `${Math.floor(s / 86_400)} d ${Math.floor((s % 86_400) / 3600)} h`;
  if (s >= 3600) return `${Math.floor(s / 3600)} h ${Math.floor((s % 3600) / 60)} min`;
  if (s >= 60) return `${Math.floor(s / 60)} min ${s % 60} s`;
  return s >= 1 ? `${s} s` : `${Math.round(ms)} ms`;
}

/** A strategy without what all strategies begin with. */
export const strategyWord = (name: string): string => name.replace(/^\/localhost\/nfd\/strategy\//, '');

/** The parent of a name: `/a` of `/a/b`. */
export function parentOf(name: string): string {
  const at = name.lastIndexOf('/');
  return at <= 0 ? '/' : name.slice(0, at);
}

/** The last component of a name. */
export const lastOf = (name: string): string => (name === '/' ? '/' : name.slice(name.lastIndexOf('/') + 1));
