/** The page of a rule: one model, written as Markdown for docs/rules and as text for `vla explain`. */
import { entryById } from './index.ts'
import type { Example, RuleEntry } from './rule.ts'

type Block =
  | { readonly kind: 'heading'; readonly text: string }
  | { readonly kind: 'text'; readonly text: string }
  | { readonly kind: 'list'; readonly items: readonly string[] }
  | { readonly kind: 'example'; readonly caption: string; readonly code: string; readonly lock: string | undefined }

const SEVERITY = {
  error: 'Error: the run fails, or is wrong without a sign.',
  warning: 'Warning: the run wastes money or quality.',
  info: 'Information: something could not be looked at.',
} as const

function blocks(entry: RuleEntry): Block[] {
  const { suppress } = entry
  return [
    { kind: 'text', text: entry.summary },
    { kind: 'text', text: `${SEVERITY[entry.severity]} Area: ${entry.area}. Since ${entry.since}.` },
    { kind: 'heading', text: 'Why' },
    { kind: 'text', text: entry.why },
    { kind: 'heading', text: 'How to fix' },
    { kind: 'text', text: entry.fix },
    ...examples('Invalid', entry.invalid),
    ...examples('Valid', entry.valid),
    { kind: 'heading', text: 'When to suppress' },
    { kind: 'text', text: suppress.allowed ? suppress.when : `Never. ${suppress.because}` },
    ...(suppress.allowed
      ? [
          {
            kind: 'example' as const,
            caption: 'With a reason, which is listed in the plan and in the generated project:',
            code: `rules: { ${entry.id}: off('the reason') },`,
            lock: undefined,
          },
        ]
      : []),
    { kind: 'heading', text: 'Sources' },
    {
      kind: 'list',
      items: entry.sources.map(
        ({ title, at, locator }) => `${title}: ${at}${locator === undefined ? '' : ` (${locator})`}`,
      ),
    },
  ]
}

function examples(heading: string, list: readonly Example[] = []): Block[] {
  if (list.length === 0) return []
  return [
    { kind: 'heading', text: heading },
    ...list.map(({ caption, code, lock }): Block => ({
      kind: 'example',
      caption,
      code,
      lock: lock === undefined ? undefined : JSON.stringify(lock, null, 2),
    })),
  ]
}

/** The page as Markdown. `format`: how TypeScript and JSON are laid out. */
export function toMarkdown(entry: RuleEntry, format: (code: string) => string): string {
  const body = blocks(entry).map((block) => {
    switch (block.kind) {
      case 'heading':
        return `## ${block.text}`
      case 'text':
        return escapeMarkdown(block.text)
      case 'list':
        return block.items.map((item) => `- ${escapeMarkdown(item)}`).join('\n')
      case 'example':
        return [
          escapeMarkdown(block.caption),
          `\`\`\`ts\n${format(block.code)}\n\`\`\``,
          ...(block.lock === undefined
            ? []
            : ['where vla.lock.json says', `\`\`\`json\n${format(block.lock)}\n\`\`\``]),
        ].join('\n\n')
    }
  })
  return `# ${entry.id} ${entry.name}\n\n${body.join('\n\n')}\n`
}

/** Asterisks, angle brackets and outer underscores of names are not markup; code between back-ticks stays as it is. */
function escapeMarkdown(text: string): string {
  return text
    .split(/(`[^`]*`)/)
    .map((part) => (part.startsWith('`') ? part : part.replace(/[*<>]|(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])/g, '\\$&')))
    .join('')
}

/** The page for the terminal, or undefined where there is no such id. */
export function explain(id: string, width = 100): string | undefined {
  const entry = entryById(id)
  if (entry === undefined) return undefined
  const body = blocks(entry).map((block) => {
    switch (block.kind) {
      case 'heading':
        return block.text.toUpperCase()
      case 'text':
        return wrap(block.text, width, '  ')
      case 'list':
        return block.items.map((item) => wrap(item, width, '  ')).join('\n')
      case 'example': {
        const lock = block.lock === undefined ? '' : `\n\n  where vla.lock.json says\n\n${indent(block.lock)}`
        return `${wrap(block.caption, width, '  ')}\n\n${indent(block.code)}${lock}`
      }
    }
  })
  return `${entry.id} ${entry.name}\n\n${body.join('\n\n')}\n`
}

function indent(code: string): string {
  return code
    .split('\n')
    .map((line) => `    ${line}`)
    .join('\n')
}

function wrap(text: string, width: number, lead: string): string {
  const lines: string[] = []
  let line = ''
  for (const word of text.split(' ')) {
    if (line !== '' && lead.length + line.length + 1 + word.length > width) {
      lines.push(lead + line)
      line = word
    } else line = line === '' ? word : `${line} ${word}`
  }
  return [...lines, lead + line].join('\n')
}
