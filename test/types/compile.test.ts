import { readdirSync } from 'node:fs'
import path from 'node:path'
import { beforeAll, describe, expect, test } from 'vitest'
import type { Project } from 'ts-morph'

import { errorsOf, fixtures, makeProject, root } from './project.ts'

const recipes = path.join(root, 'catalog/recipes')
const recipeNames = readdirSync(recipes, { withFileTypes: true }).flatMap((entry) =>
  entry.isDirectory() ? [entry.name] : [],
)

// A user's project may be less strict than this one.
describe.each([true, false])('exactOptionalPropertyTypes: %s', { timeout: 120_000 }, (exactOptionalPropertyTypes) => {
  let project: Project
  beforeAll(() => {
    project = makeProject()
    project.compilerOptions.set({ exactOptionalPropertyTypes })
    project.addSourceFilesAtPaths([path.join(fixtures, '*.ts'), path.join(recipes, '*/pipeline.ts')])
  })

  test.each(['examples.ts', 'allowed.ts'])('%s compiles', (file) => {
    expect(errorsOf(project, path.join(fixtures, file))).toEqual([])
  })

  test.each(recipeNames)('the recipe %s compiles', (name) => {
    expect(errorsOf(project, path.join(recipes, name, 'pipeline.ts'))).toEqual([])
  })

  test('every mistake in mistakes.ts is reported on its line, and nothing else', () => {
    const file = path.join(fixtures, 'mistakes.ts')
    const errors = errorsOf(project, file)
    const lines = project.getSourceFileOrThrow(file).getFullText().split('\n')
    const expected = lines.flatMap((text, index) => {
      const marker = /\/\/ error: (.*)$/.exec(text)?.[1]
      return marker === undefined || index === 0 ? [] : marker.split(' ; ').map((part) => ({ line: index + 1, part }))
    })
    expect(expected.length).toBeGreaterThan(20)
    const missed = expected.filter(
      ({ line, part }) => !errors.some((error) => error.line === line && error.text.includes(part)),
    )
    expect(missed, JSON.stringify(errors, null, 1)).toEqual([])
    const unexpected = errors.filter(
      (error) => !expected.some(({ line, part }) => error.line === line && error.text.includes(part)),
    )
    expect(unexpected).toEqual([])
  })
})

test("of the README's pipeline the editor says what types can carry", { timeout: 120_000 }, () => {
  const project = makeProject()
  const file = path.join(root, 'test/readme/pipeline.ts')
  project.addSourceFileAtPath(file)
  expect(errorsOf(project, file)).toEqual([{ line: 10, text: expect.stringContaining('VLA302') as string }])
})
