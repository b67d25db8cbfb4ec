/** Texts that every form of a diagnostic shares. */

/** `modules.vision.lr`, `data[0].cameras["my cam"]` */
export function pathText(path: readonly (string | number)[]): string {
  return path
    .map((segment, index) => {
      if (typeof segment === 'number') return `[${String(segment)}]`
      if (!/^[A-Za-z_$][\w$]*$/.test(segment)) return `[${JSON.stringify(segment)}]`
      return index === 0 ? segment : `.${segment}`
    })
    .join('')
}

/** Control characters of a name or a path must not reach the terminal or a log; tabs and line ends stay. */
export function visible(text: string): string {
  return text.replace(
    /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u2028\u2029\u202a-\u202e\u2066-\u2069]/g,
    (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`,
  )
}

/** What stands beside a position that is not exact. */
export function nearText(path: readonly (string | number)[]): string {
  return `in ${pathText(path)}, which is computed or not written; the nearest place is shown`
}
