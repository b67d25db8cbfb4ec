import { describe, expect, test } from 'vitest'
import { neededRuntime } from '../../sdk/emit/runtime.ts'
import { context } from './context.ts'

const runtime = new Map(
  Object.entries({
    'run.py':
      'import torch\nfrom . import points, plans\nfrom .tracking import (\n    JsonLines,  # always\n    Tracker,\n)\n',
    'points.py': '',
    'plans.py': 'def f() -> None:\n    from .errors import UserError\n',
    'contract.json': '{}',
    'tracking.py': '',
    'errors.py': '',
    'unused.py': 'from .run import start_run\n',
    'modeling/__init__.py': '',
    'modeling/composed.py': 'from .vision import Vision\nfrom ..errors import UserError\n',
    'modeling/vision.py': '',
    'modeling/travels_with_packages.py': '',
    'pack/__init__.py': 'from .hf import hf\n',
    'pack/hf.py': 'from ..modeling.composed import X\nfrom .. import lerobot_plugin\n',
    'pack/other.py': '',
    'lerobot_plugin/__init__.py': 'from .copied_later import X\n',
    'lerobot_plugin/processor.py': '',
    'lerobot_plugin/card.md': '',
    'other/data.txt': '',
  }),
)
const needed = (...scripts: string[]): string[] => [...neededRuntime(runtime, scripts).keys()]

describe('the runtime modules that a project needs', () => {
  test('imports are followed, in functions and over several lines too', () => {
    expect(needed('from vla_runtime.run import start_run\n')).toEqual([
      'run.py',
      'points.py',
      'plans.py',
      'contract.json',
      'tracking.py',
      'errors.py',
    ])
  })

  test('a module as a name, and as a module', () => {
    expect(needed('from vla_runtime import errors as e\n')).toEqual(['contract.json', 'errors.py'])
    expect(needed('import vla_runtime.errors\n')).toEqual(['contract.json', 'errors.py'])
  })

  test('packages that copy their own files come whole, with what these need', () => {
    expect(needed('from vla_runtime.pack import hf\n')).toEqual([
      'contract.json',
      'errors.py',
      'modeling/__init__.py',
      'modeling/composed.py',
      'modeling/vision.py',
      'modeling/travels_with_packages.py',
      'pack/__init__.py',
      'pack/hf.py',
      'lerobot_plugin/__init__.py',
      'lerobot_plugin/processor.py',
      'lerobot_plugin/card.md',
    ])
  })

  test('nothing for nothing, and a module that is not there is a fault', () => {
    expect(needed('import torch\n')).toEqual([])
    expect(() => needed('from vla_runtime.missing import x\n')).toThrow('vla_runtime.missing')
  })

  test('no tests and no caches are among the templates', () => {
    const { runtime: files, lock, requirements } = context.templates
    expect([...files.keys()].filter((file) => /test|pycache/.test(file))).toEqual([])
    expect(lock).toContain('torch==2.11')
    expect(lock).not.toMatch(/file:|(?:^|[\s=@])\//m) // neither a file nor an absolute path
    expect(requirements).toContain('lerobot')
  })
})
