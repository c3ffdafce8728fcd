package dev.starling.nn.train;

/** How a part of a run ended: a step, an epoch, or a call that all ranks make together. */
enum Outcome {
    /** It is done, and the run continues. */
    TAKEN,
    /** The strategy has restored the state in the meantime: training continues from that state. */
    RESTORED,
    /** All ranks have agreed to end the run here. */
    STOPPED
}
