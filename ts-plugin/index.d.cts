import type { server } from 'typescript'

/** The language-service plugin: `"plugins": [{ "name": "vla-pipeline/ts-plugin" }]` in tsconfig.json. */
declare const plugin: server.PluginModuleFactory
export = plugin
