import { runDeliveryd } from '@plane3/deliveryd';
import { ERRORS } from '@plane3/protocol';
import { type Command, CommanderError } from 'commander';
import { reportFailure } from './output.ts';
import { program, usageExit } from './program.ts';

/** What commander refuses ends as every other failure does: with the code and a repair. */
function withRepair(c: Command): Command {
  c.configureOutput({
    outputError: (text, write) =>
      write(`${text.trimEnd()} [usage]\nrepair: ${ERRORS.usage.help}\n`),
  });
  for (const verb of c.commands) withRepair(verb);
  return c;
}

// Whoever reads (`| head`) may have seen enough: that is no failure.
process.stdout.on('error', (e: NodeJS.ErrnoException) => {
  if (e.code === 'EPIPE') process.exit(0);
  throw e;
});

const argv = process.argv.slice(2);
if (argv[0] === 'deliver') process.exitCode = await runDeliveryd(argv.slice(1));
else
  try {
    const whole = program((code) => {
      process.exitCode = code;
    });
    await withRepair(whole).parseAsync(argv, { from: 'user' });
  } catch (e) {
    process.exitCode = e instanceof CommanderError ? usageExit(e.exitCode) : reportFailure(e);
  }
