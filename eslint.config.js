import tseslint from 'typescript-eslint'

export default tseslint.config(
  {
    // templates/projects are checked as their users get them: the scaffold tests compile them against the packed tarball.
    // test/readme holds a wrong pipeline, which types refuse too.
    ignores: [
      ...['dist/', 'ts-plugin/', 'build/', 'node_modules/', '.venv/'],
      ...['test/golden/', 'test/readme/', 'test/**/fixtures/', 'templates/projects/'],
    ],
  },
  ...tseslint.configs.strictTypeChecked,
  {
    languageOptions: { parserOptions: { projectService: true, tsconfigRootDir: import.meta.dirname } },
    rules: {
      '@typescript-eslint/restrict-template-expressions': ['error', { allowNumber: true, allowBoolean: true }],
      '@typescript-eslint/consistent-type-imports': 'error',
      '@typescript-eslint/no-unused-vars': ['error', { varsIgnorePattern: '^_+$', argsIgnorePattern: '^_' }],
    },
  },
  { files: ['**/*.js', '**/*.cjs', '**/*.mjs'], extends: [tseslint.configs.disableTypeChecked] },
)
