import { expect, it } from 'vitest';
import { createLogger } from '../src/log.ts';

it('writes JSON lines with event and space, and no secret', () => {
  const lines: string[] = [];
  const log = createLogger({
    space: 'main',
    level: 'info',
    destination: { write: (line: string) => void lines.push(line) },
  });
  log.info({ event: 'x.y', component: 'test', creds: 'SECRET', inner: { seed: 'SECRET' } }, 'said');
  log.debug({ event: 'quiet' }, 'not shown');
  expect(lines).toHaveLength(1);
  expect(JSON.parse(lines[0] as string)).toMatchObject({
    event: 'x.y',
    component: 'test',
    space: 'main',
    msg: 'said',
  });
  expect(lines[0]).not.toContain('SECRET');
});
