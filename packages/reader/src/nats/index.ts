export {
  NatsAttachments,
  POLL_HOLD_MS,
  type PresenceView,
  PULL_HOLD_MS_MAX,
  pullHoldMs,
} from './attachments.ts';
export { memberOfDurable, NatsConfirmations } from './confirmations.ts';
export { entryOf, NatsEntryStore } from './entry-store.ts';
export { NatsHandOver, type NatsHandOverOptions } from './hand-over.ts';
