import { describe, expect, it } from 'vitest'
import { hunksOf } from '../../sdk/locate/hunks.ts'

const TEXT = 'a: 1,\nb: 2,\nc: 3,\n'
const at = (needle: string): number => TEXT.indexOf(needle)

describe('hunks', () => {
  it.each([
    [
      'replace a value',
      [{ start: at('2'), end: at('2') + 1, text: '5' }],
      [{ line: 2, removed: ['b: 2,'], added: ['b: 5,'] }],
    ],
    ['cut a whole line', [{ start: at('b'), end: at('c'), text: '' }], [{ line: 2, removed: ['b: 2,'], added: [] }]],
    [
      'add a line below',
      [{ start: at('\nc'), end: at('\nc'), text: '\nd: 4,' }],
      [{ line: 3, removed: [], added: ['d: 4,'] }],
    ],
    ['add a line at the top', [{ start: 0, end: 0, text: 'x\n' }], [{ line: 1, removed: [], added: ['x'] }]],
    [
      'change two lines apart',
      [
        { start: at('3'), end: at('3') + 1, text: '6' },
        { start: at('1'), end: at('1') + 1, text: '4' },
      ],
      [
        { line: 1, removed: ['a: 1,'], added: ['a: 4,'] },
        { line: 3, removed: ['c: 3,'], added: ['c: 6,'] },
      ],
    ],
    [
      'change one line twice',
      [
        { start: at('2'), end: at('2') + 1, text: '5' },
        { start: at('b'), end: at('b') + 1, text: 'B' },
      ],
      [{ line: 2, removed: ['b: 2,'], added: ['B: 5,'] }],
    ],
    [
      'join two lines',
      [{ start: at('\nb'), end: at('b'), text: ' ' }],
      [{ line: 1, removed: ['a: 1,', 'b: 2,'], added: ['a: 1, b: 2,'] }],
    ],
    ['change nothing', [{ start: 0, end: 1, text: 'a' }], []],
  ])('%s', (_, edits, expected) => {
    expect(hunksOf(TEXT, edits)).toEqual(expected)
  })
  it('know the last line without an end, and CRLF', () => {
    expect(hunksOf('a\r\nb', [{ start: 3, end: 4, text: 'c' }])).toEqual([{ line: 2, removed: ['b'], added: ['c'] }])
    expect(hunksOf('a\r\nb', [{ start: 0, end: 1, text: 'x' }])).toEqual([{ line: 1, removed: ['a'], added: ['x'] }])
  })
})
