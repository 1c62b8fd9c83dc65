export { type SecretsCase, type SecretsHarness, secretsContract } from './secrets.ts';
