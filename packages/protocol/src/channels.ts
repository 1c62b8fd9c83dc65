import { patternContains } from './patterns.ts';

/**
 * Channel names and the patterns that rights rows hold (wire contract section 2).
 * A channel is dotted segments of `[A-Za-z0-9_-]+`, at most 4096 characters. In a pattern `*`
 * stands for one whole segment and `>` for one or more at the end: `team.>` does not cover `team`.
 */
const SEGMENT = /^[A-Za-z0-9_-]+$/;
export const CHANNEL_CHARACTERS_MAX = 4096;

export const isChannel = (text: string): boolean =>
  text.length <= CHANNEL_CHARACTERS_MAX && text.split('.').every((s) => SEGMENT.test(s));

/** A concrete channel is a pattern too. */
export function isChannelPattern(text: string): boolean {
  if (text.length > CHANNEL_CHARACTERS_MAX) return false;
  const segments = text.split('.');
  return segments.every(
    (s, i) => s === '*' || (s === '>' && i === segments.length - 1) || SEGMENT.test(s),
  );
}

/** Whether `pattern` covers the concrete `channel`; anything malformed covers nothing. */
export const covers = (pattern: string, channel: string): boolean =>
  isChannelPattern(pattern) && isChannel(channel) && patternContains(pattern, channel);

export const anyCovers = (patterns: readonly string[], channel: string): boolean =>
  patterns.some((p) => covers(p, channel));
