export { type Delivery, type DeliveryOptions, startDelivery } from './delivery.ts';
export { createFileLogger, createLogger, type Logger } from './log.ts';
export { fileCredential, type Mesh, resolveMesh } from './mesh.ts';
export { runDeliveryd } from './run.ts';
export { resolveSettings, type Settings, type SettingsInput } from './settings.ts';
