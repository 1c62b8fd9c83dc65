import { runDeliveryd } from '@plane3/deliveryd';
import { CommanderError } from 'commander';
import { reportFailure } from './output.ts';
import { program, usageExit } from './program.ts';

const argv = process.argv.slice(2);
if (argv[0] === 'deliver') process.exitCode = await runDeliveryd(argv.slice(1));
else
  try {
    await program((code) => {
      process.exitCode = code;
    }).parseAsync(argv, { from: 'user' });
  } catch (e) {
    process.exitCode = e instanceof CommanderError ? usageExit(e.exitCode) : reportFailure(e);
  }
