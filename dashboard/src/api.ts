// Requests to the router: JSON from /api/v1/, with the token if this page has one.

const KEY = 'byname-token';

/** A request that failed, with the router's words. */
export class RequestError extends Error {
  constructor(readonly status: number, message: string) {
    super(message);
  }
}

/** Takes the token out of the address, so that it is in no bookmark and on no screen. */
export function takeToken(): void {
  const found = /^#token=([\w-]+)$/.exec(location.hash);
  if (found?.[1]) {
    sessionStorage.setItem(KEY, found[1]);
    history.replaceState(null, '', '#/');
  }
}

export const token = (): string | null => sessionStorage.getItem(KEY);
export const setToken = (value: string): void => sessionStorage.setItem(KEY, value);
export const dropToken = (): void => sessionStorage.removeItem(KEY);

type Query = Record<string, string | number | boolean | null | undefined>;

/** A path with the values of a query that are set. */
export function withQuery(path: string, query: Query): string {
  const set = Object.entries(query).filter(([, value]) => value !== undefined && value !== null && value !== '' && value !== false);
  const text = set.map(([key, value]) => `${key}=${encodeURIComponent(value === true ? '1' : String(value))}`).join('&');
  return text ? `${path}?${text}` : path;
}

async function request<T>(method: string, path: string, body?: unknown, signal?: AbortSignal): Promise<T> {
  const headers: Record<string, string> = {};
  const secret = token();
  if (secret) headers['Authorization'] = `Bearer ${secret}`;
  if (method !== 'GET') headers['Content-Type'] = 'application/json';
  let answer: Response;
  try {
    answer = await fetch(`/api/v1/${path}`, {
      method,
      headers,
      body: method === 'GET' ? undefined : JSON.stringify(body ?? {}),
      signal,
      credentials: 'omit',
      cache: 'no-store',
    });
  } catch (error) {
    if (signal?.aborted) throw error;
    throw new RequestError(0, 'the router does not answer');
  }
  const text = await answer.text();
  if (!answer.ok) {
    let words = `status ${answer.status}`;
    try {
      words = (JSON.parse(text) as { error: string }).error;
    } catch {
      // Something between this page and the router has answered.
    }
    throw new RequestError(answer.status, words);
  }
  return JSON.parse(text) as T;
}

export const get = <T>(path: string, signal?: AbortSignal): Promise<T> => request<T>('GET', path, undefined, signal);
export const post = <T>(path: string, body: unknown): Promise<T> => request<T>('POST', path, body);
export const remove = <T>(path: string): Promise<T> => request<T>('DELETE', path);

/** Sends a management command. */
export const command = (name: string, parameters: object): Promise<Record<string, unknown>> =>
  post(`commands/${name}`, parameters);
