/** The rules, in the order of their ids. Listed by hand, so that loading them is one static import each. */
import { nothingToAdapt } from './adapters/vla401-nothing-to-adapt.ts'
import { adaptersNotLowRank } from './adapters/vla402-adapters-not-low-rank.ts'
import { adaptersNeverTrain } from './adapters/vla403-adapters-never-train.ts'
import { adapterOnTiedHead } from './adapters/vla404-adapter-on-tied-head.ts'
import { fullTrainingBesideAdapters } from './adapters/vla405-full-training-beside-adapters.ts'
import { newTokensStayRandom } from './adapters/vla406-new-tokens-stay-random.ts'
import { adapterScale } from './adapters/vla407-adapter-scale.ts'
import { cameraWithoutFeature } from './data/vla501-camera-without-feature.ts'
import { cameraFeatureMissing } from './data/vla502-camera-feature-missing.ts'
import { stateNotRead } from './data/vla503-state-not-read.ts'
import { constantDimension } from './data/vla504-constant-dimension.ts'
import { statisticMissing } from './data/vla505-statistic-missing.ts'
import { widthsDiffer } from './data/vla506-widths-differ.ts'
import { ratesDiffer } from './data/vla507-rates-differ.ts'
import { holdoutNotInDataset } from './data/vla508-holdout-not-in-dataset.ts'
import { tinyQuantileSpan } from './data/vla509-tiny-quantile-span.ts'
import { cameraUsedTwice } from './data/vla517-camera-used-twice.ts'
import { actionMaskLength } from './data/vla518-action-mask-length.ts'
import { datasetNamedTwice } from './data/vla521-dataset-named-twice.ts'
import { timestampsOffTheRate } from './data/vla550-timestamps-off-the-rate.ts'
import { episodeNamedTwice } from './data/vla551-episode-named-twice.ts'
import { stateIsAction } from './data/vla552-state-is-action.ts'
import { statisticOfOtherWidth } from './data/vla557-statistic-of-other-width.ts'
import { statisticsContradict } from './data/vla558-statistics-contradict.ts'
import { outlierSetsTheScale } from './data/vla562-outlier-sets-the-scale.ts'
import { scalesDiffer } from './data/vla563-scales-differ.ts'
import { mixtureShareVanishes } from './data/vla567-mixture-share-vanishes.ts'
import { datasetListedTwice } from './data/vla569-dataset-listed-twice.ts'
import { recomputeWithoutBlocks } from './freezing/vla301-recompute-without-blocks.ts'
import { ddpWithPhases } from './freezing/vla302-ddp-with-phases.ts'
import { lastLayersBeyondBlocks } from './freezing/vla303-last-layers-beyond-blocks.ts'
import { phasesOutOfOrder } from './freezing/vla304-phases-out-of-order.ts'
import { recomputeWithoutGradient } from './freezing/vla305-recompute-without-gradient.ts'
import { lastLayersWithoutBlocks } from './freezing/vla306-last-layers-without-blocks.ts'
import { phaseChangesNothing } from './freezing/vla307-phase-changes-nothing.ts'
import { frozenAtRandom } from './freezing/vla308-frozen-at-random.ts'
import { unfrozenAtNoRate } from './freezing/vla309-unfrozen-at-no-rate.ts'
import { requeueWithoutCheckpoint } from './launch/vla801-requeue-without-checkpoint.ts'
import { launchedTwice } from './launch/vla802-launched-twice.ts'
import { slurmMinutes } from './launch/vla803-slurm-minutes.ts'
import { startedByHand } from './launch/vla804-started-by-hand.ts'
import { slurmTimeShorterThanNotice } from './launch/vla805-slurm-time-shorter-than-notice.ts'
import { setupOverridesLauncher } from './launch/vla806-setup-overrides-launcher.ts'
import { secretInSetup } from './launch/vla807-secret-in-setup.ts'
import { environmentWithoutEffect } from './launch/vla808-environment-without-effect.ts'
import { environmentSlows } from './launch/vla809-environment-slows.ts'
import { installsAtStart } from './launch/vla810-installs-at-start.ts'
import { setupLeavesFolder } from './launch/vla811-setup-leaves-folder.ts'
import { setupStartsRun } from './launch/vla812-setup-starts-run.ts'
import { sbatchLineTooLate } from './launch/vla813-sbatch-line-too-late.ts'
import { slurmNoLimit } from './launch/vla814-slurm-no-limit.ts'
import { moreGpusThanANodeHas } from './launch/vla819-more-gpus-than-a-node-has.ts'
import { hostMemoryInBytes } from './launch/vla820-host-memory-in-bytes.ts'
import { noReaderProcesses } from './launch/vla822-no-reader-processes.ts'
import { stateDoesNotFit } from './memory/vla601-state-does-not-fit.ts'
import { replicaDoesNotFit } from './memory/vla602-replica-does-not-fit.ts'
import { gatheredDoesNotFit } from './memory/vla603-gathered-does-not-fit.ts'
import { blockInputsDoNotFit } from './memory/vla604-block-inputs-do-not-fit.ts'
import { stagingDoesNotFitHost } from './memory/vla605-staging-does-not-fit-host.ts'
import { packingDoesNotFitHost } from './memory/vla606-packing-does-not-fit-host.ts'
import { noRoomForActivations } from './memory/vla607-no-room-for-activations.ts'
import { promptFillsItsLength } from './model/vla510-prompt-fills-its-length.ts'
import { promptWithoutInstruction } from './model/vla511-prompt-without-instruction.ts'
import { batchNormWithoutStatistics } from './model/vla512-batch-norm-without-statistics.ts'
import { projectorNeedsMap } from './model/vla513-projector-needs-map.ts'
import { tokensOutOfBounds } from './model/vla515-tokens-out-of-bounds.ts'
import { tokensSeeAhead } from './model/vla516-tokens-see-ahead.ts'
import { towersDoNotFuse } from './model/vla519-towers-do-not-fuse.ts'
import { headNotDivisible } from './model/vla520-head-not-divisible.ts'
import { expertBesideTrunk } from './model/vla522-expert-beside-trunk.ts'
import { trunkHeadsDoNotDivide } from './model/vla570-trunk-heads-do-not-divide.ts'
import { sequenceBeyondPositions } from './model/vla571-sequence-beyond-positions.ts'
import { parallelDecodingUnderCausalMask } from './model/vla572-parallel-decoding-under-causal-mask.ts'
import { exportTwice } from './outputs/vla701-export-twice.ts'
import { simulatorDoesNotFit } from './outputs/vla702-simulator-does-not-fit.ts'
import { renderedAtAnotherSize } from './outputs/vla703-rendered-at-another-size.ts'
import { nothingToEvaluate } from './outputs/vla704-nothing-to-evaluate.ts'
import { stepsBeyondChunk } from './outputs/vla705-steps-beyond-chunk.ts'
import { unknownTask } from './outputs/vla706-unknown-task.ts'
import { exportWiderThanTrained } from './outputs/vla707-export-wider-than-trained.ts'
import { tooFewEpisodes } from './outputs/vla709-too-few-episodes.ts'
import { episodesEndTooEarly } from './outputs/vla710-episodes-end-too-early.ts'
import { simulatorAtAnotherRate } from './outputs/vla711-simulator-at-another-rate.ts'
import { taskListedTwice } from './outputs/vla712-task-listed-twice.ts'
import { actionsBeyondSimulator } from './outputs/vla713-actions-beyond-simulator.ts'
import { policyRefusesConfiguration } from './policies/vla530-policy-refuses-configuration.ts'
import { policyLearnsBatchStatistics } from './policies/vla531-policy-learns-batch-statistics.ts'
import { policyWithoutModules } from './policies/vla532-policy-without-modules.ts'
import { policyCannotCarryIt } from './policies/vla533-policy-cannot-carry-it.ts'
import { cameraLeftOut } from './policies/vla534-camera-left-out.ts'
import { imagesNotSaid } from './policies/vla535-images-not-said.ts'
import { relativeJointsUnknown } from './policies/vla536-relative-joints-unknown.ts'
import { policyFetchesCode } from './policies/vla537-policy-fetches-code.ts'
import { paddedWidthOfWeights } from './policies/vla541-padded-width-of-weights.ts'
import { relativeBeyondState } from './policies/vla542-relative-beyond-state.ts'
import { relativeTwice } from './policies/vla543-relative-twice.ts'
import { stateOutsideBins } from './policies/vla545-state-outside-bins.ts'
import { cameraOrderOfWeights } from './policies/vla547-camera-order-of-weights.ts'
import { moreCamerasThanPublished } from './policies/vla548-more-cameras-than-published.ts'
import { pluginNotFoundByLerobot } from './policies/vla549-plugin-not-found-by-lerobot.ts'
import { modulesOverlap } from './policies/vla590-modules-overlap.ts'
import { dtypeUnsupportedOnGpu } from './precision/vla101-dtype-unsupported-on-gpu.ts'
import { fp64OnGpus } from './precision/vla102-fp64-on-gpus.ts'
import { mastersBelowFp32 } from './precision/vla103-masters-below-fp32.ts'
import { storageBelowCompute } from './precision/vla104-storage-below-compute.ts'
import { fp32OnBf16Gpu } from './precision/vla106-fp32-on-bf16-gpu.ts'
import { frozenStoredWide } from './precision/vla107-frozen-stored-wide.ts'
import { unusedSuppression } from './reporting/vla090-unused-suppression.ts'
import { suppressionForbidden } from './reporting/vla091-suppression-forbidden.ts'
import { couldNotLook } from './reporting/vla092-could-not-look.ts'
import { nothingToShare } from './sharding/vla350-nothing-to-share.ts'
import { trackedTwice } from './tracking/vla850-tracked-twice.ts'
import { wandbNameNotAllowed } from './tracking/vla851-wandb-name-not-allowed.ts'
import { batchNotDivisible } from './training/vla201-batch-not-divisible.ts'
import { warmupLongerThanRun } from './training/vla202-warmup-longer-than-run.ts'
import { lrRatio } from './training/vla203-lr-ratio.ts'
import { phaseBeyondRun } from './training/vla204-phase-beyond-run.ts'
import { checkpointBeyondRun } from './training/vla205-checkpoint-beyond-run.ts'
import { chunkLongerThanEpisodes } from './training/vla206-chunk-longer-than-episodes.ts'
import { holdoutNeverScored } from './training/vla207-holdout-never-scored.ts'
import { optionOfFrozenModule } from './training/vla208-option-of-frozen-module.ts'
import { rewarmLongerThanPhase } from './training/vla209-rewarm-longer-than-phase.ts'
import { noLearningRate } from './training/vla210-no-learning-rate.ts'
import { nothingTrains } from './training/vla211-nothing-trains.ts'
import { datasetSmallerThanBatch } from './training/vla212-dataset-smaller-than-batch.ts'
import { validationWithoutHoldout } from './training/vla213-validation-without-holdout.ts'
import { zeroLearningRate } from './training/vla214-zero-learning-rate.ts'
import { warmupMostOfRun } from './training/vla215-warmup-most-of-run.ts'
import { betasSwapped } from './training/vla217-betas-swapped.ts'
import { epsilonDrownsMoments } from './training/vla218-epsilon-drowns-moments.ts'
import { learningRateImplausible } from './training/vla219-learning-rate-implausible.ts'
import { weightDecayErases } from './training/vla220-weight-decay-erases.ts'
import { runOutOfProportion } from './training/vla221-run-out-of-proportion.ts'
import { floorReadAsRate } from './training/vla222-floor-read-as-rate.ts'
import { scheduleNeverFalls } from './training/vla223-schedule-never-falls.ts'
import { validationOutweighsTraining } from './training/vla224-validation-outweighs-training.ts'
import { checkpointsWithoutEnd } from './training/vla225-checkpoints-without-end.ts'
import { divergenceNeverStops } from './training/vla226-divergence-never-stops.ts'
import { declarationEntries } from './documented/declaration.ts'
import { lockEntries } from './documented/lock.ts'
import type { Rule, RuleEntry } from './rule.ts'

export const rules: readonly Rule[] = [
  unusedSuppression,
  suppressionForbidden,
  couldNotLook,
  dtypeUnsupportedOnGpu,
  fp64OnGpus,
  mastersBelowFp32,
  storageBelowCompute,
  fp32OnBf16Gpu,
  frozenStoredWide,
  batchNotDivisible,
  warmupLongerThanRun,
  lrRatio,
  phaseBeyondRun,
  checkpointBeyondRun,
  chunkLongerThanEpisodes,
  holdoutNeverScored,
  optionOfFrozenModule,
  rewarmLongerThanPhase,
  noLearningRate,
  nothingTrains,
  datasetSmallerThanBatch,
  validationWithoutHoldout,
  zeroLearningRate,
  warmupMostOfRun,
  betasSwapped,
  epsilonDrownsMoments,
  learningRateImplausible,
  weightDecayErases,
  runOutOfProportion,
  floorReadAsRate,
  scheduleNeverFalls,
  validationOutweighsTraining,
  checkpointsWithoutEnd,
  divergenceNeverStops,
  recomputeWithoutBlocks,
  ddpWithPhases,
  lastLayersBeyondBlocks,
  phasesOutOfOrder,
  recomputeWithoutGradient,
  lastLayersWithoutBlocks,
  phaseChangesNothing,
  frozenAtRandom,
  unfrozenAtNoRate,
  nothingToShare,
  nothingToAdapt,
  adaptersNotLowRank,
  adaptersNeverTrain,
  adapterOnTiedHead,
  fullTrainingBesideAdapters,
  newTokensStayRandom,
  adapterScale,
  cameraWithoutFeature,
  cameraFeatureMissing,
  stateNotRead,
  constantDimension,
  statisticMissing,
  widthsDiffer,
  ratesDiffer,
  holdoutNotInDataset,
  tinyQuantileSpan,
  promptFillsItsLength,
  promptWithoutInstruction,
  batchNormWithoutStatistics,
  projectorNeedsMap,
  tokensOutOfBounds,
  tokensSeeAhead,
  cameraUsedTwice,
  actionMaskLength,
  towersDoNotFuse,
  headNotDivisible,
  datasetNamedTwice,
  expertBesideTrunk,
  policyRefusesConfiguration,
  policyLearnsBatchStatistics,
  policyWithoutModules,
  policyCannotCarryIt,
  cameraLeftOut,
  imagesNotSaid,
  relativeJointsUnknown,
  policyFetchesCode,
  paddedWidthOfWeights,
  relativeBeyondState,
  relativeTwice,
  stateOutsideBins,
  cameraOrderOfWeights,
  moreCamerasThanPublished,
  pluginNotFoundByLerobot,
  timestampsOffTheRate,
  episodeNamedTwice,
  stateIsAction,
  statisticOfOtherWidth,
  statisticsContradict,
  outlierSetsTheScale,
  scalesDiffer,
  mixtureShareVanishes,
  datasetListedTwice,
  trunkHeadsDoNotDivide,
  sequenceBeyondPositions,
  parallelDecodingUnderCausalMask,
  modulesOverlap,
  stateDoesNotFit,
  replicaDoesNotFit,
  gatheredDoesNotFit,
  blockInputsDoNotFit,
  stagingDoesNotFitHost,
  packingDoesNotFitHost,
  noRoomForActivations,
  exportTwice,
  simulatorDoesNotFit,
  renderedAtAnotherSize,
  nothingToEvaluate,
  stepsBeyondChunk,
  unknownTask,
  exportWiderThanTrained,
  tooFewEpisodes,
  episodesEndTooEarly,
  simulatorAtAnotherRate,
  taskListedTwice,
  actionsBeyondSimulator,
  requeueWithoutCheckpoint,
  launchedTwice,
  slurmMinutes,
  startedByHand,
  slurmTimeShorterThanNotice,
  setupOverridesLauncher,
  secretInSetup,
  environmentWithoutEffect,
  environmentSlows,
  installsAtStart,
  setupLeavesFolder,
  setupStartsRun,
  sbatchLineTooLate,
  slurmNoLimit,
  moreGpusThanANodeHas,
  hostMemoryInBytes,
  noReaderProcesses,
  trackedTwice,
  wandbNameNotAllowed,
]

const byId = new Map(rules.map((rule) => [rule.id, rule]))

/** The rule of an id, or undefined. */
export function ruleById(id: string): Rule | undefined {
  return byId.get(id)
}

/** Everything that `vla explain` knows, in the order of the ids: the rules, and what reading declaration and lock reports. */
export const entries: readonly RuleEntry[] = [...declarationEntries, ...lockEntries, ...rules].sort((a, b) =>
  a.id < b.id ? -1 : 1,
)

/** The entry of an id, or undefined. */
export function entryById(id: string): RuleEntry | undefined {
  return entries.find((entry) => entry.id === id)
}
