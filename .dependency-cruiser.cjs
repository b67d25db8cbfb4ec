/** The one-way rule of ARCHITECTURE.md: declaration -> plan -> rules / emit -> command line. */
const only = (from, allowed, comment) => ({
  name: `${from}-imports`,
  comment,
  severity: 'error',
  from: { path: `^sdk/${from}/` },
  to: { path: '^sdk/', pathNot: [`^sdk/${from}/`, ...allowed.map((room) => `^sdk/${room}/`)] },
})

module.exports = {
  forbidden: [
    {
      name: 'no-cycles',
      comment: 'Data goes one way.',
      severity: 'error',
      from: { path: '^sdk/' },
      to: { circular: true },
    },
    only('finding', [], 'Findings are a leaf: every room reports through them.'),
    only('catalog', ['finding'], 'Facts as data know nobody.'),
    only('plan', ['finding'], 'The Plan is the contract between rooms and knows none of them.'),
    only('declare', ['finding', 'catalog'], 'The declaration is what the user said.'),
    only('lock', ['finding', 'declare', 'plan', 'catalog'], 'The lock reads the outside world for a declaration.'),
    only('resolve', ['finding', 'catalog', 'declare', 'lock', 'plan'], 'Declaration + lock + catalog -> Plan.'),
    only('rules', ['finding', 'catalog', 'plan'], 'Rules see only the Plan and the catalog.'),
    only('locate', ['finding', 'plan'], 'Where a path stands in the file of the user.'),
    only('editor', ['finding', 'locate'], 'The findings in an editor; what checks runs in a process of its own.'),
    only('emit', ['plan'], 'Emitters read only the Plan.'),
    only('importer', ['declare', 'catalog', 'finding'], "Another framework's configuration -> a declaration's text."),
    only('python', ['plan', 'finding'], 'Running the generated project.'),
    {
      name: 'nobody-imports-cli',
      comment: 'The command line is imported by nobody.',
      severity: 'error',
      from: { path: '^sdk/(?!cli/)' },
      to: { path: '^sdk/cli/' },
    },
  ],
  options: {
    tsConfig: { fileName: 'tsconfig.json' },
    tsPreCompilationDeps: true,
    doNotFollow: { path: 'node_modules' },
    enhancedResolveOptions: { extensions: ['.ts', '.js'] },
  },
}
