/**
 * Writes what the catalog says of LeRobot's policies as JSON, for the Python test that compares it with the real classes: of the
 * policies at full size, and of those that stand as JSON on the standard input (small ones, which the test builds and runs).
 */
import { text } from 'node:stream/consumers'

import type { PolicyDescription, PolicyType } from '../../sdk/catalog/lerobot/facts.ts'
import { describePolicy, policyCatalog } from './policies.ts'

const asked = JSON.parse(await text(process.stdin)) as (PolicyDescription & { readonly type: PolicyType })[]
const described = asked.map((entry) => ({ ...entry, facts: describePolicy(entry.type, entry) }))
process.stdout.write(JSON.stringify({ ...policyCatalog, asked: described }))
