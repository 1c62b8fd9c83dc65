import { type Link, openLink } from '@plane3/link';
import { type NatsProc, startNats } from '@plane3/testkit';

export const openTestLink = (url: string, name: string): Promise<Link> =>
  openLink({ name: `test ${name}`, servers: [url], transport: { kind: 'plain' } });

/** A broker on which everybody may publish and subscribe to what is given and to inboxes only. */
export function startGuarded(allow: {
  readonly publish: readonly string[];
  readonly subscribe: readonly string[];
}): Promise<NatsProc> {
  // Inboxes have three tokens, and nothing else here does.
  const subscribe = JSON.stringify([...allow.subscribe, '*.*.*']);
  const publish = JSON.stringify(allow.publish);
  const permissions = `{ publish: ${publish}, subscribe: ${subscribe} }`;
  return startNats({
    config: `no_auth_user: anybody
      authorization { users = [
        { user: anybody, password: none, permissions: ${permissions} }
      ] }\n`,
  });
}
