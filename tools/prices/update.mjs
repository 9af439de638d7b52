// Writes internal/prices/data.json from the list prices that Pydantic publishes in the package
// @pydantic/genai-prices (MIT): what each model costs, its name and its context window, without
// comments. See `make prices`.
import { readFileSync, writeFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { findProvider } from '@pydantic/genai-prices'

const source = readFileSync(fileURLToPath(import.meta.resolve('@pydantic/genai-prices')), 'utf8')
const ids = [...new Set([...source.matchAll(/\bid: "([^"]+)"/g)].map((m) => m[1]))]
const providers = ids.filter((id) => findProvider({ providerId: id })?.id === id).sort().map((id) => findProvider({ providerId: id }))
if (providers.length < 20) {
  throw new Error(`only ${providers.length} providers were found: the package has changed its form`)
}

const line = ({ id, name, context_window, deprecated, match, prices }) => JSON.stringify({ id, name, context_window, deprecated, match, prices })
const text = providers.map(({ id, fallback_model_providers, models }) =>
  `{"id":${JSON.stringify(id)},"fallback_model_providers":${JSON.stringify(fallback_model_providers ?? [])},"models":[\n${models.map(line).join(',\n')}\n]}`)
writeFileSync(new URL('../../internal/prices/data.json', import.meta.url), `[\n${text.join(',\n')}\n]\n`)
console.log(`${providers.length} providers, ${providers.reduce((n, p) => n + p.models.length, 0)} models`)
