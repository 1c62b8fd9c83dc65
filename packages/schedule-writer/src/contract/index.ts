export { type ContractAdapter, type ContractCase, SESSION_CONTRACT } from './session.ts';
