/** hooks.py: the user's own file, written once. */
import { Document } from './document.ts'
import { py, use } from './literal.ts'

/** The source, not yet formatted. It names no plan and no version: it is never written again. */
export function hooksFile(): Document {
  const document = new Document(
    'Yours: `vla build` wrote this file once and never touches it again. train.py calls what is in it, on every rank.',
  )
  document.blank()
  document.block(
    py`def before_step(update: int, model: ${use('torch')}.nn.Module, norms: dict[str, ${use('torch')}.Tensor]) -> None:`,
    (body) => {
      body.line(py`"""Called after the gradients are summed and clipped, before the optimizer moves.

    Args:
        update: its index, from 0.
        model: the sharded model, gradients in place.
        norms: gradient norm of each module before clipping; scalars on the device (reading one waits for the device).
    """`)
    },
  )
  return document
}
