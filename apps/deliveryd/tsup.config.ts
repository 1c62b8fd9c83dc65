export { default } from '../../tsup.app.config.ts';
