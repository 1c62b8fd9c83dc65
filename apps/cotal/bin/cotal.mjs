#!/usr/bin/env node
// The bundle is built by `npm run bundle`; this file exists so that the install can link the name.
import '../bundle/main.js';
