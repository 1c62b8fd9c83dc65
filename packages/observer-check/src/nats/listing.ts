import { decode, type User } from '@nats-io/jwt';
import type { Link, Msg } from '@plane3/link';
import { done, type Outcome, parseJson, refused, unknown } from '@plane3/protocol';
import type { ConnectionListing, ListedConnection, ListingPage, ListingRefusal } from '../ports.ts';
import { listingSubject } from '../rights.ts';

/** How long answers are gathered: each broker of a cluster sends one. */
const GATHER_MS = 500;
/** No broker at all within this. */
const FIRST_ANSWER_MS = 2_000;

export interface NatsConnectionListingOptions {
  /** A connection under the observer's credential. */
  readonly link: Link;
  readonly account: string;
}

/** One listing request over the observer's connection, with a reply subject of its own. */
export class NatsConnectionListing implements ConnectionListing {
  readonly #link: Link;
  readonly #subject: string;

  constructor(o: NatsConnectionListingOptions) {
    this.#link = o.link;
    this.#subject = listingSubject(o.account);
  }

  async page(
    offset: number,
    limit: number,
  ): Promise<Outcome<readonly ListingPage[], ListingRefusal>> {
    const inbox = `${this.#link.inboxPrefix}.${crypto.randomUUID().replaceAll('-', '')}`;
    const answers: Msg[] = [];
    let wake = (): void => {};
    let denied = false;
    const undo = this.#link.onDenied((d) => {
      if (d.operation !== 'publish' || d.subject !== this.#subject) return;
      denied = true;
      wake();
    });
    const sub = await this.#link.subscribe(inbox, (m) => {
      answers.push(m);
      wake();
    });
    if (sub.kind !== 'done') {
      undo();
      return sub;
    }
    try {
      const query = { subscriptions: false, auth: true, offset, limit };
      const first = new Promise<void>((ok) => {
        wake = ok;
      });
      this.#link.publish(this.#subject, new TextEncoder().encode(JSON.stringify(query)), {
        reply: inbox,
      });
      await Promise.race([first, sleep(FIRST_ANSWER_MS)]);
      if (!denied && answers.length > 0) await sleep(GATHER_MS);
    } catch (e) {
      return unknown(e instanceof Error ? e.message : String(e));
    } finally {
      undo();
      sub.value.unsubscribe();
    }
    if (denied) return refused('permission-denied', this.#subject);
    return pagesOf(answers);
  }
}

const sleep = (ms: number): Promise<void> => new Promise((ok) => setTimeout(ok, ms));

function pagesOf(answers: readonly Msg[]): Outcome<readonly ListingPage[], ListingRefusal> {
  if (answers.length === 0) return unknown('no broker answered');
  const pages: ListingPage[] = [];
  for (const m of answers) {
    if (m.headers?.code === 503) return unknown('nobody serves the listing');
    const page = pageOf(m.data);
    if (page === undefined) return refused('malformed', 'an answer is no page of a listing');
    pages.push(page);
  }
  return done(pages);
}

type Json = Partial<Record<string, unknown>>;
const isJson = (x: unknown): x is Json => typeof x === 'object' && x !== null;
const isCount = (x: unknown): x is number => Number.isSafeInteger(x) && (x as number) >= 0;

function pageOf(bytes: Uint8Array): ListingPage | undefined {
  const json = parseJson(bytes);
  if (!json.ok || !isJson(json.value)) return undefined;
  const { server, data } = json.value;
  if (!isJson(server) || !isJson(data)) return undefined;
  const { id: serverId } = server;
  const { total, offset, connections } = data;
  if (typeof serverId !== 'string' || !isCount(total) || !isCount(offset)) return undefined;
  if (!Array.isArray(connections)) return undefined;
  const listed: ListedConnection[] = [];
  for (const c of connections as readonly unknown[]) {
    const one = connectionOf(c);
    if (one === undefined) return undefined;
    listed.push(one);
  }
  return { serverId, total, offset, connections: listed };
}

/** The token is the broker's word for who it is; the library verifies its signature once more. */
function connectionOf(c: unknown): ListedConnection | undefined {
  if (!isJson(c)) return undefined;
  const { cid, jwt } = c;
  if (!isCount(cid) || typeof jwt !== 'string') return undefined;
  try {
    const claims = decode<User>(jwt);
    return { cid, userKey: claims.sub, tags: claims.nats.tags ?? [] };
  } catch {
    return undefined;
  }
}
