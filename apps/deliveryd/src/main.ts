import { runDeliveryd } from './run.ts';

process.exitCode = await runDeliveryd(process.argv.slice(2));
