import { Ajv2020, type ValidateFunction } from 'ajv/dist/2020.js';

/** JSON Schema 2020-12 of arguments and results: a real validator, the same on both sides. */
export type JsonSchema = Readonly<Record<string, unknown>>;

export type SchemaCheck =
  | { readonly ok: true }
  /** Where and what, for the other side's developer; never the value itself. */
  | { readonly ok: false; readonly why: string };

/** Longest explanation of a failed validation, in characters. */
const WHY_CHARACTERS_MAX = 300;

let validator: Ajv2020 | undefined;

const compile = (schema: JsonSchema): ValidateFunction => {
  validator ??= new Ajv2020({ allErrors: false, strict: true, validateFormats: false });
  return validator.compile(schema);
};

/**
 * Compiles at the first value and once: a command line uses two schemas of the many. An invalid
 * schema throws then, which is a defect of the table (a test compiles them all).
 */
export function compileSchema(schema: JsonSchema): (value: unknown) => SchemaCheck {
  let validate: ValidateFunction | undefined;
  return (value) => {
    validate ??= compile(schema);
    if (validate(value)) return { ok: true };
    const error = validate.errors?.[0];
    const why = `${error?.instancePath || '/'} ${error?.message ?? 'is invalid'}`;
    return { ok: false, why: why.slice(0, WHY_CHARACTERS_MAX) };
  };
}
