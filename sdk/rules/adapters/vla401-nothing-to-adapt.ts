import { findPolicy } from '../../catalog/lerobot/index.ts'
import { modelModules, type ModuleFacts } from '../../catalog/model.ts'
import { adaptedLayers, type Parameter } from '../../catalog/parameters.ts'
import type { Pipeline } from '../../plan/plan.ts'
import { listed } from '../facts.ts'
import { defineRule } from '../rule.ts'

export const nothingToAdapt = defineRule({
  id: 'VLA401',
  name: 'nothing-to-adapt',
  area: 'adapters',
  severity: 'error',
  since: '0.1.0',
  summary: 'LoRA finds at least one layer to adapt.',
  why: 'The base of an adapted module is frozen; without adapters nothing of it would train.',
  fix: 'Name layers of this module in `targets` (convolutions too can be adapted when they are named), or train the module without adapters.',
  suppress: { allowed: false, because: 'The generated run refuses it.' },
  sources: [
    {
      title: 'peft 0.21',
      at: 'peft/tuners/tuners_utils.py',
      locator: 'inject_adapter: "Target modules ... not found in the base model"',
    },
    {
      title: 'LeRobot issue 4018',
      at: 'https://github.com/huggingface/lerobot/issues/4018',
      locator: 'name patterns that match nothing went unnoticed',
    },
  ],
  messages: {
    linear: "The module '{module}' has no linear layer to adapt.",
    targets: "The targets {targets} match no layer of the module '{module}'.",
    target: "The target '{target}' matches no layer of the module '{module}'.",
  },
  valid: [
    { caption: 'Every linear of the trunk.', code: `modules: { language: { adapt: lora({ rank: 8 }) } },` },
    {
      caption: 'Named layers.',
      code: `modules: { language: { adapt: lora({ rank: 8, targets: ['q_proj', 'v_proj'] }) } },`,
    },
  ],
  invalid: [
    {
      caption: 'No such layers.',
      code: `modules: { language: { adapt: lora({ rank: 8, targets: ['query', 'value'] }) } },`,
    },
    {
      caption: 'One of two is no layer.',
      code: `modules: { language: { adapt: lora({ rank: 8, targets: ['q_proj', 'v_poj'] }) } },`,
    },
    {
      caption: 'A convolutional tower whose linear layers are 1x1 convolutions.',
      code: `modules: { vision: { adapt: lora({ rank: 8 }) } },`,
    },
  ],
  check({ plan, known, each, report }) {
    each(plan.modules, (module, index) => {
      const { adapt } = module
      if (adapt === null) return
      if (known(module.adapterCount) > 0) {
        const parameters = modulesOf(plan.model).find(({ name }) => name === module.name)?.parameters ?? []
        const idle = (adapt.targets ?? []).filter((target) => adaptedLayers(parameters, [target], []).length === 0)
        for (const target of parameters.length === 0 ? [] : idle)
          report({
            message: 'target',
            at: ['modules', index, 'adapt'],
            path: ['modules', module.name, 'adapt', 'targets', adapt.targets?.indexOf(target) ?? 0],
            data: { module: module.name, target },
            fix: `Remove it, or name one of its layers: ${listed(layerNames(parameters))}.`,
          })
        return
      }
      const path = ['modules', module.name, 'adapt', ...(adapt.targets === null ? [] : ['targets'])]
      const at = ['modules', index, 'adapt']
      if (adapt.targets === null) report({ message: 'linear', at, path, data: { module: module.name } })
      else
        report({ message: 'targets', at, path, data: { module: module.name, targets: JSON.stringify(adapt.targets) } })
    })
  },
})

function modulesOf(model: Pipeline['model']): readonly ModuleFacts[] {
  return model.family === 'lerobot' ? (findPolicy(model.type)?.describe(model).modules ?? []) : modelModules(model)
}

/** The last components of the layers' names, each once. */
function layerNames(parameters: readonly Parameter[]): string[] {
  const layers = adaptedLayers(parameters, ['*'], [])
  return [
    ...new Set(
      layers.map(
        ({ name }) =>
          name
            .replace(/\.weight$/, '')
            .split('.')
            .at(-1) ?? name,
      ),
    ),
  ].slice(0, 12)
}
